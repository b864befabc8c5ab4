"""The Python side of the source in the JVM: its processes, and a fake in its place."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext


def serving() -> list[int]:
    """The processes of the Python side of this session: the first one listens, the others are its forks.

    Those of Java machines that other tests started (examples of pages) are none of ours.
    """
    gateway: Any = SparkContext._gateway
    java, found = gateway.proc.pid, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"flintmq.spark.door.serve" in (folder / "cmdline").read_bytes() and java in ancestors(folder):
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def ancestors(process: Path) -> Iterator[int]:
    while (parent := int((process / "stat").read_text().rpartition(")")[2].split()[1])) > 0:
        yield parent
        process = Path(f"/proc/{parent}")


def fake_python(folder: Path, program: str) -> str:
    """A Python side that does something wrong, in the place of the true one."""
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n{program}")
    python.chmod(0o755)
    return str(python)
