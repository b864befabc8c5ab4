"""The real Java store, for tests: built once by Maven, or taken from where FLINTMQ_ORACLE says.

The build goes to a cache directory named after the oracle's sources, so that a checkout builds it once. FLINTMQ_ORACLE
names a directory with build/VERSION in it; "off" leaves all these tests out.
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

VERSIONS = ("5.3.3", "5.4.0", "5.5.0")
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for a Java machine of seconds: 2 s of CPU instead of 3
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
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flintmq", f"oracle-{name}")


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


class Java:
    """One version of the real store."""

    def __init__(self, version: str, built: Path) -> None:
        self.version, self.built = version, built

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
        words = ["java", *SHORT_LIVED, OFTEN, "-cp", path, "flintmq.oracle.Oracle"]
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
