"""The Java peer: the oracle of tests/interop/oracle, which the tests find, or build with Maven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harness import Context, Unavailable

from tests.interop import java

VERSION = "5.3.3"


def built(version: str) -> Path:
    """The folder of the oracle's build for a version of RocketMQ.

    Raises:
        Unavailable: there is no Java, no Maven, or it cannot build.
    """
    found, why = java.home(version)
    if found is None:
        raise Unavailable(why)
    return found


def words(context: Context, command: str, *more: str) -> list[str]:
    """The command line of the oracle.

    Raises:
        Unavailable: as `built`.
    """
    if context.oracle is None:
        context.oracle = built(VERSION)
    classes = f"{context.oracle}/target/oracle.jar{os.pathsep}{context.oracle}/lib/*"
    opened = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"  # the transient pool locks its buffers
    return ["java", opened, "-Doracle.log=OFF", "-cp", classes, "flintmq.oracle.Oracle", command, *more]


def oracle(
    context: Context, command: str, store: Path, config: dict[str, Any] | None = None, *options: str
) -> list[Any]:
    """Run a command of the oracle and give back the lines of its answer."""
    settings = context.scratch / "oracle.json"
    settings.write_text(json.dumps({"store": config or {}}), encoding="utf-8")
    line = words(context, command, "--store", str(store), "--config", str(settings), *options)
    done = subprocess.run(line, capture_output=True, text=True, check=False)
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
