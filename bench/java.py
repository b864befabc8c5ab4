"""The Java peer: the oracle of tests/interop/oracle, built by Maven when it is not there yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harness import Context, Unavailable

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "interop" / "oracle"


def home(context: Context) -> Path:
    """The folder with target/oracle.jar and lib/.

    Raises:
        Unavailable: there is no Java, no Maven, or it cannot build.
    """
    build = context.oracle or SOURCE / "build" / "5.3.3"
    if (build / "target" / "oracle.jar").exists():
        return build
    if not shutil.which("java"):
        raise Unavailable("the Java peer needs Java 17; install it or set PATH")
    if not shutil.which("mvn"):
        raise Unavailable("the Java peer is not built and there is no Maven (mvn) to build it")
    context.say("  building the Java peer with Maven")
    done = subprocess.run(["mvn", "-q", "-B", "package"], cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode or not (build / "target" / "oracle.jar").exists():
        raise Unavailable(f"Maven could not build {SOURCE}: {(done.stdout + done.stderr).strip()[-300:]}")
    return build


def oracle(
    context: Context, command: str, store: Path, config: dict[str, Any] | None = None, *options: str
) -> list[Any]:
    """Run a command of the oracle and give back the lines of its answer."""
    build = home(context)
    settings = context.scratch / "oracle.json"
    settings.write_text(json.dumps({"store": config or {}}), encoding="utf-8")
    path = f"{build}/target/oracle.jar{os.pathsep}{build}/lib/*"
    opened = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"  # the transient pool locks its buffers
    words = [
        "java",
        opened,
        "-cp",
        path,
        "flintmq.oracle.Oracle",
        command,
        "--store",
        str(store),
        "--config",
        str(settings),
    ]
    done = subprocess.run([*words, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"oracle {command} failed: {done.stderr.strip()[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def log_only(context: Context, source: Path, name: str) -> Path:
    """A copy of a store's commitlog/ alone, sparse as the original."""
    target = context.scratch / name
    if not target.exists():
        (target / "commitlog").mkdir(parents=True)
        for file in (source / "commitlog").iterdir():
            subprocess.run(["cp", "--sparse=always", str(file), str(target / "commitlog")], check=True)
    return target


def strip(store: Path) -> None:
    """Remove everything but commitlog/."""
    for path in store.iterdir():
        if path.name != "commitlog":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
