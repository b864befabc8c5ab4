"""Who takes part in the kill run: the one that writes the store, and the command that exports it, as processes.

All of them die with the process that started them (Linux), so that a run that is cut leaves nobody behind.
"""

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from flintmq.store.message_store import MessageStore
from labs.torture_spark.writer import KEYS, QUEUES, TOPICS
from tests.interop.java import Java

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
MARK = "FLINTMQ_TORTURE"
JAVA_TURNS = 20_000
STOP_S = 60


def spawn(words: list[str], out: Path, errors: Path, mark: str = "", **environment: str) -> subprocess.Popen[bytes]:
    """Start a process that dies with this one; what it says is added to two files, `mark` to its environment."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with out.open("ab") as stdout, errors.open("ab") as stderr:
        return subprocess.Popen(
            words, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), MARK: mark, **environment},
        )  # fmt: skip


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    """`kill -9`, if it still runs."""
    process.kill()
    process.wait()


class Writer(Protocol):
    """Who writes the store; each start is a life of its own."""

    def start(self, life: str) -> None:
        """Begin to write."""

    def kill(self) -> None:
        """`kill -9`."""

    def close(self) -> None:
        """`kill -9`, and open and close the store once more."""

    def acknowledged(self) -> Iterator[int]:
        """Log offsets of the messages that were answered PUT_OK."""


class Engine:
    """FlintMQ's engine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger = folder, folder / "ledger"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, life: str) -> None:
        words = [
            sys.executable,
            "-m",
            "labs.torture_spark.writer",
            str(self.folder / "store"),
            str(self.ledger),
            life,
        ]
        self.process = spawn(words, self.folder / "writer.out", self.folder / "writer.err")

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)

    def close(self) -> None:
        self.kill()
        with MessageStore(self.folder / "store", config=KEYS, unique_keys=False) as store:
            assert store.wait_dispatched(STOP_S)

    def acknowledged(self) -> Iterator[int]:
        for line in whole_lines(self.ledger):
            if line["status"] == "PUT_OK":
                yield line["physical_offset"]


class Oracle:
    """Apache RocketMQ's store; what it answers is the ledger."""

    def __init__(self, folder: Path, java: Java) -> None:
        self.folder, self.java, self.ledger = folder, java, folder / "java.out"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, life: str, turns: int = JAVA_TURNS) -> None:
        chance = random.Random(life)
        ops = []
        for _ in range(turns):
            seed, topics = chance.randrange(1 << 31), list(TOPICS)
            ops.append({"op": "gen", "count": 15, "seed": seed, "topics": topics, "queues": QUEUES, "body_max": 600})
            ops.append({"op": "sleep", "ms": chance.randrange(100)})
        words = self.java.words("run", self.folder / "store", KEYS, ops, TOPICS, self.folder)
        with self.ledger.open("a") as ledger:
            ledger.write("\n")
        self.process = spawn([words[0], "-Xmx256m", *words[1:]], self.ledger, self.folder / "java.err")

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)

    def close(self) -> None:
        self.kill()
        self.start("last", turns=0)
        assert self.process is not None
        assert self.process.wait(STOP_S) == 0, (self.folder / "java.err").read_text()[-1000:]

    def acknowledged(self) -> Iterator[int]:
        for line in whole_lines(self.ledger):
            if line.get("status") == "PUT_OK":
                yield line["physical_offset"]


def whole_lines(path: Path) -> Iterator[dict]:
    """Lines of JSON; those that a kill broke off are left out."""
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


class Exporter:
    """`flintmq spark export --stream`, started again from what is there whenever it is gone."""

    def __init__(self, folder: Path, stores: str, to: str, max_offsets: int, partition_by: str) -> None:
        self.folder, self.table = folder, folder / "table"
        self.mark = str(folder.resolve())
        self.words = self._words(stores, to, max_offsets, partition_by)
        self.process: subprocess.Popen[bytes] | None = None

    def _words(self, stores: str, to: str, max_offsets: int, partition_by: str) -> list[str]:
        words = [sys.executable, "-m", "flintmq", "spark", "export", stores, "--to", to]
        words += ["--out", str(self.table), "--stream", "--interval", "0.1", "--max-offsets", str(max_offsets)]
        words += [
            "--partition-by",
            partition_by,
            "--master",
            "local[2,8]",
        ]  # eight attempts of a task; `local[2]` has one
        return words + [w for key, value in KEYS.items() for w in ("--set", f"{key}={value}")]

    def start(self) -> None:
        """Start it."""
        self.process = spawn(self.words, self.folder / "export.out", self.folder / "export.err", self.mark)

    @property
    def runs(self) -> bool:
        """Whether it is there."""
        return self.process is not None and self.process.poll() is None

    def kill(self, whom: str, chance: random.Random) -> bool:
        """Kill the driver's Python ("driver"), its Java ("java"), all of it ("all"), or a task's Python ("worker").

        Returns:
            Whether there was one to kill.
        """
        assert self.process is not None
        there = self.processes()
        if whom == "driver":
            victims = [self.process.pid]
        elif whom == "all":
            victims = [pid for pid, _ in there]
        else:
            found = [pid for pid, words in there if self.is_a(whom, words)]
            victims = [chance.choice(found)] if found else []
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if whom in ("driver", "all", "java"):
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"the driver did not end within {STOP_S} s of the death of {whom}") from None
        return bool(victims)

    def processes(self) -> list[tuple[int, list[str]]]:
        """All of its processes, with their command lines."""
        return list(marked(f"{MARK}={self.mark}"))

    def is_a(self, whom: str, words: list[str]) -> bool:
        """Whether a process with this command line is such a victim."""
        return words[0].endswith("java") if whom == "java" else "pyspark.worker" in words

    def close(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(STOP_S)

    def end(self) -> None:
        """Leave nothing of it."""
        if self.runs:
            self.kill("all", random.Random(0))

    def attempts(self) -> frozenset[str]:
        """Names of the directories that attempts of tasks have made for the present micro-batch."""
        try:
            return frozenset(os.listdir(self.table / "_staging" / "tasks"))
        except OSError:
            return frozenset()

    def wait_for_a_task(self, limit_s: float) -> bool:
        """Wait until a task begins; False if none did."""
        before, until = self.attempts(), time.monotonic() + limit_s
        while time.monotonic() < until and self.runs:
            now = self.attempts()
            if now - before:
                return True
            before = now
            time.sleep(0.001)
        return False


def marked(mark: str) -> Iterator[tuple[int, list[str]]]:
    """All processes with a mark in their environment, with their command lines.

    (A task's Python whose parent was killed goes on, as nobody's descendant.)
    """
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if mark.encode() in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
                    yield int(name), words
            except OSError:
                continue
