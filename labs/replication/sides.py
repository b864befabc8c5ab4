"""The two sides as processes: a master of Java or of FlintMQ, and `flintmq follow`.

python -m labs.replication.sides STORE PORT      # a master: lines `SEED COUNT` on stdin
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from labs.interop.live import KEYS, QUEUES, TOPICS, LiveJava
from labs.torture_spark.actors import ROOT, end, spawn
from tests.interop.relay import free_port

FILE_SIZE = int(KEYS["mappedFileSizeCommitLog"])
STOP_S, ANSWER_S = 60, 60


class Master(Protocol):
    """Who has the log first. Each start is a life of its own, at the same port."""

    port: int

    def start(self) -> None:
        """Open the store, and listen."""

    def fill(self, seed: int, count: int) -> None:
        """Put so many messages; EOFError or OSError if it was killed."""

    def finish(self) -> tuple[int, dict[tuple[str, str], list[int]]]:
        """Stop it cleanly; the end of its log, and (topic, key) -> log offsets of some keys."""

    def stop(self) -> None:
        """Stop it cleanly."""

    def kill(self) -> None:
        """`kill -9`."""


def some_keys() -> list[tuple[str, str]]:
    """Keys that Java's `gen` and the master of FlintMQ use."""
    return [(topic, f"k{n}") for topic in TOPICS for n in range(0, 500, 45)]


class JavaMaster:
    """A real RocketMQ store."""

    def __init__(self, version: str, store: Path) -> None:
        self.version, self.store, self.port = version, store, free_port()
        self.java: LiveJava | None = None

    def start(self) -> None:
        self.java = LiveJava(self.version, self.store, self.port)

    def fill(self, seed: int, count: int) -> None:
        self._living.fill(seed, count)

    def finish(self) -> tuple[int, dict[tuple[str, str], list[int]]]:
        java = self._living
        java("dispatch")
        found = {(t, k): sorted(java("query", topic=t, key=k, max=1000)["physical_offsets"]) for t, k in some_keys()}
        last = java.end
        java.stop()
        return last, found

    def stop(self) -> None:
        self._living.stop()

    def kill(self) -> None:
        if self.java is not None:
            self.java.kill()

    @property
    def _living(self) -> LiveJava:
        assert self.java is not None
        return self.java


class FlintMaster:
    """FlintMQ with a listener, in a process of its own."""

    version = "FlintMQ"

    def __init__(self, store: Path) -> None:
        self.store, self.port = store, free_port()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", __name__, str(self.store), str(self.port)]
        with self.store.with_name("master.err").open("a") as errors:
            paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )  # fmt: skip
        self._line()

    def fill(self, seed: int, count: int) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(f"{seed} {count}\n")
        self.process.stdin.flush()
        self._line()

    def finish(self) -> tuple[int, dict[tuple[str, str], list[int]]]:
        self.stop()
        with open_store(self.store, set=KEYS) as view:
            found = {(t, k): sorted(m.physical_offset for m in view.query(t, k, limit=1000)) for t, k in some_keys()}
            return view.max_physical_offset, found

    def stop(self) -> None:
        assert self.process is not None and self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        assert self.process.wait(STOP_S) == 0, self.store.with_name("master.err").read_text()[-1000:]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _line(self) -> str:
        assert self.process is not None and self.process.stdout is not None
        got = self.process.stdout.readline()
        if not got:
            raise EOFError("the master ended: " + self.store.with_name("master.err").read_text()[-1000:])
        return got


class Load:
    """Puts all the while, in a thread; its master may be killed under it."""

    def __init__(self, master: Master, chance: random.Random) -> None:
        self._master, self._chance, self._stopping = master, random.Random(chance.random()), threading.Event()
        self.killed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load; what is under way is answered, or its master is dead."""
        self._stopping.set()
        self._thread.join(ANSWER_S)
        assert not self._thread.is_alive(), "the master does not answer"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._master.fill(self._chance.randrange(1 << 30), self._chance.randrange(5, 120))
                self._stopping.wait(self._chance.uniform(0, 0.2))
        except (OSError, EOFError, ValueError):
            self.killed = True


class FollowerProcess:
    """`flintmq follow`, run again and again.

    Args:
        folder: for what it says.
        words: of the command line.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.out, self.errors = folder / "follow.out", folder / "follow.err"
        self.words = ["-m", "flintmq", "follow", *words, "--json"]
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        self.out.write_bytes(b"")
        self.process = spawn([sys.executable, *self.words], self.out, self.errors)
        self.starts += 1

    def events(self) -> list[dict[str, Any]]:
        """What this life has said."""
        lines = self.out.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith(b"{")]

    def wait(self, event: str, seconds: float, end: int = 0) -> bool:
        """Wait for an event, with at least that end; False if time is up or the process has ended."""
        limit = time.monotonic() + seconds
        while True:
            running = self.running
            if any(one["event"] == event and (one.get("end") or 0) >= end for one in self.events()):
                return True
            if not running or time.monotonic() > limit:
                return False
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            end(self.process)

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self.wait("opened", STOP_S), self.said()
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(STOP_S) == 0, self.said()

    def said(self) -> str:
        """The end of what it said, for a failure."""
        return f"{self.events()[-5:]} {self.errors.read_text(errors='replace')[-1000:]}"


def main(root: str, port: str) -> None:
    """A master of FlintMQ: puts what each line of stdin asks for, until its end."""
    with MessageStore(root, config=KEYS, ha_listen=("127.0.0.1", int(port))) as store:
        print("ready", flush=True)
        for line in sys.stdin:
            seed, count = map(int, line.split())
            chance = random.Random(seed)
            for _ in range(count):
                body, keys = chance.randbytes(chance.randrange(900)), f"k{chance.randrange(500)}"
                put = Message(chance.choice(TOPICS), body, keys=keys, queue_id=chance.randrange(QUEUES))
                assert store.put(put).status.name == "PUT_OK"
            print(count, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
