"""The real Java store, for tests: built once by Maven, or taken from where FLINTMQ_ORACLE says.

The build goes to a cache directory named after the oracle's sources, so that a checkout builds it once. FLINTMQ_ORACLE
names a directory with build/VERSION in it; "off" leaves all these tests out. Beside the build lie the classes of each
version as Java has them once they are loaded (see tests/harness/class_archive.py): a machine that maps them needs 0.8 s
of processor time for a short script instead of 1.2. Java checks that they fit, and goes on without them.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.class_archive import QUICK, QUIET

VERSIONS = ("5.3.3", "5.4.0", "5.5.0")
SHORT_LIVED = tuple(QUICK.split())  # for a Java machine of seconds: 2 s of CPU instead of 3
# A consumer whose first look at its queues came before the broker knew of it looks again after 20 s by itself.
OFTEN = "-Drocketmq.client.rebalance.waitInterval=1000"
SOURCES = Path(__file__).resolve().parent / "oracle"
BUILD_S = 600


@cache
def home(version: str) -> tuple[Path | None, str]:
    """(directory of the built oracle, "") or (None, why there is none)."""
    if shutil.which("java") is None:
        return None, "no Java runtime (java) was found"
    told = os.environ.get("FLINTMQ_ORACLE", "")
    if told == "off":
        return None, "FLINTMQ_ORACLE=off"
    for place in [Path(told)] if told else [SOURCES, _cache()]:
        if (place / "build" / version / "target" / "oracle.jar").exists():
            return place / "build" / version, ""
    if told:
        return None, f"FLINTMQ_ORACLE={told} holds no build/{version}"
    return _build(version)


def _cache() -> Path:
    files = [SOURCES / "pom.xml", *sorted((SOURCES / "src").rglob("*.java"))]
    name = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    return cache_folder() / f"oracle-{name}"


def cache_folder() -> Path:
    """Where programs of tests are kept that are built once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flintmq")


def _build(version: str) -> tuple[Path | None, str]:
    if shutil.which("mvn") is None:
        return None, "the Java oracle is not built, and there is no Maven (mvn) to build it"
    place = _cache()
    shutil.copytree(SOURCES, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    words = ["mvn", "-q", "-B", f"-Drocketmq.version={version}", "package"]
    try:
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=BUILD_S)
    except subprocess.TimeoutExpired:
        return None, f"Maven did not build the Java oracle within {BUILD_S} s"
    built = place / "build" / version
    if done.returncode or not (built / "target" / "oracle.jar").exists():
        return None, f"Maven could not build the Java oracle: {(done.stdout + done.stderr).strip()[-200:]}"
    return built, ""


@cache
def classes(version: str, built: Path) -> tuple[str, ...]:
    """Options that have Java map the classes of this version; the first who asks has Java write them."""
    path = _cache() / f"classes-{version}.jsa"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder, path.name)
            java = Java(version, built, [*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={made}", *QUIET.split()])
            java("run", Path(folder, "store"), {}, [{"op": "gen", "count": 100, "seed": 1, "topics": ["T"]}], ["T"])
            if not made.exists():
                return ()
            made.replace(path)
    return f"-XX:SharedArchiveFile={path}", *QUIET.split()


class Java:
    """One version of the real store; `options` are Java's, else those for one that lives for seconds."""

    def __init__(self, version: str, built: Path, options: Iterable[str] = ()) -> None:
        self.version, self.built = version, built
        self._options = tuple(options) or (*SHORT_LIVED, *classes(version, built))

    def words(
        self, command: str, store: Path, keys: dict[str, Any], ops: Iterable[dict[str, Any]], topics: Iterable[str],
        folder: Path, more: dict[str, Any] | None = None,
    ) -> list[str]:  # fmt: skip
        """The command line; configuration (`more`: its other parts) and script are written into the folder."""
        config, script = folder / "config.json", folder / "ops.jsonl"
        parts = {"store": keys, "topics": {topic: {"queues": 4} for topic in topics}}
        config.write_text(json.dumps(parts | (more or {})))
        script.write_text("".join(json.dumps(op) + "\n" for op in ops))
        path = f"{self.built}/target/oracle.jar:{self.built}/lib/*"
        words = ["java", *self._options, OFTEN, "-cp", path, "flintmq.oracle.Oracle"]
        words += [command, "--store", str(store), "--config", str(config)]
        return [*words, *(["--ops", str(script)] if command in ("run", "broker") else [])]

    def __call__(
        self, command: str, store: Path, keys: dict[str, Any], ops: Iterable[dict[str, Any]] = (),
        topics: Iterable[str] = (), ask: Iterable[str] = (), timeout: int = 120,
        more: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Run one command of the oracle on a store directory; its rows. A script that ends in `halt` dies with it."""
        with tempfile.TemporaryDirectory() as folder:
            words = self.words(command, store, keys, ops, topics, Path(folder), more)
            words += [word for key in ask for word in ("--key", key)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        assert done.returncode in (0, 9), done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]
