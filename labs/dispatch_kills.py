"""kill -9 a dispatch at random moments while its log is written, and compare the end with a local rebuild.

    python -m labs.dispatch_kills --kills 100 [--seed 1] [--folder artifacts/dispatch]

A writer puts messages into a store with dispatch="external"; `flintmq spark dispatch` follows, into the store itself
or into another directory. The driver, one of its Python workers, or the writer is killed at a moment drawn from the
seed, and started again where it died. After every tenth kill and at the end the writer stops, a run with --once does
the rest, and every byte of queues and index is compared. A difference ends the program with 1 and keeps the folder.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from flintmq.message import Message
from flintmq.storage.files.lock import is_live
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.dispatch.dispatching import differing

KEYS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 3000,
    "enableLmq": True,
    "enableMultiDispatch": True,
}
KINDS = ("driver", "worker", "worker", "driver", "writer")
BURST, PAUSE_S = 40, 0.03  # of the writer: about a thousand messages a second
PATIENCE_S = 120.0


def write(root: str, seed: int) -> None:
    """The writer: put messages until SIGTERM, or for ten minutes."""
    stop: list[int] = []
    signal.alarm(600)
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    chance = random.Random(seed)
    with MessageStore(root, KEYS, dispatch="external", unique_keys=False) as store:
        while not stop:
            for _ in range(BURST):
                number = chance.randrange(1000)
                light = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"} if number % 10 == 0 else {}
                store.put(
                    Message(
                        f"topic{number % 5}",
                        b"x" * (20 + number % 300),
                        tags=f"t{number % 7}",
                        keys=f"k{number} m{number % 50}",
                        queue_id=number % 4,
                        properties=light,
                    )
                )
            time.sleep(PAUSE_S)


def children(pid: int) -> dict[int, list[int]]:
    """Processes below one that we started: process -> its children."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(name))
    found, todo = {}, [pid]
    while todo:
        one = todo.pop()
        found[one] = parents.get(one, [])
        todo += found[one]
    return found


def workers(driver: int) -> list[int]:
    """The driver's Python workers: children of Spark's Python daemon, which is a child of Java."""
    below = children(driver)
    return [
        worker for java in below.get(driver, []) for daemon in below.get(java, []) for worker in below.get(daemon, [])
    ]


class Run:
    """One store and one directory, the processes that work on them, and what was killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.root = folder / "store"
        self.into = self.root if seed % 2 else folder / "into"
        self.killed: Counter[str] = Counter()
        self.writer: subprocess.Popen[bytes] | None = None
        self.driver: subprocess.Popen[bytes] | None = None

    def start_writer(self) -> None:
        """Start it, and wait until it has the store open."""
        seed = self.chance.randrange(1 << 30)
        self.writer = subprocess.Popen([sys.executable, "-m", __spec__.name, "--write", str(self.root), str(seed)])
        end = time.monotonic() + PATIENCE_S
        while not is_live(str(self.root)) and time.monotonic() < end:
            time.sleep(0.05)

    def start_driver(self, *more: str) -> None:
        """Start `flintmq spark dispatch`; half of the times Spark tries a failed task again."""
        master = self.chance.choice(("local[2]", "local[2,4]"))
        sets = [word for key, value in KEYS.items() for word in ("--set", f"{key}={str(value).lower()}")]
        self.driver = subprocess.Popen(
            [sys.executable, "-m", "flintmq", "spark", "dispatch", str(self.root), "--out", str(self.into),
             "--interval", "0", "--master", master, *sets, *more],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "driver.log").open("ab"),
        )  # fmt: skip

    def state(self) -> tuple[int, int]:
        """What changes with every commit."""
        try:
            found = (self.into / ".flintmq-dispatch" / "state.json").stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns

    def wait_for_a_commit(self) -> None:
        """Until the driver has committed once more, or has ended."""
        before, end = self.state(), time.monotonic() + PATIENCE_S
        while self.state() == before and time.monotonic() < end:
            if self.driver is None or self.driver.poll() is not None:
                return
            time.sleep(0.01)

    def kill(self, kind: str) -> None:
        """Kill one process at a random moment, and start again what is gone."""
        if self.writer is None:
            self.start_writer()
        if self.driver is None or self.driver.poll() is not None:
            self.start_driver()
        assert self.driver is not None and self.writer is not None
        if self.chance.random() < 0.9:  # else amid its start
            self.wait_for_a_commit()
        time.sleep(self.chance.uniform(0, 0.8))
        if kind == "writer":
            self._end(self.writer)
            self.start_writer()
        elif kind == "driver" and self.driver.poll() is None:
            self._end(self.driver)
        elif kind == "worker":
            end = time.monotonic() + PATIENCE_S
            while not (found := workers(self.driver.pid)) and self.driver.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if not found:
                return
            try:
                os.kill(self.chance.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it has ended meanwhile: nobody is killed
                return
        else:
            return
        self.killed[kind] += 1

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def check(self) -> list[str]:
        """Let the writer and the driver stop, do the rest, and compare; the names of files that differ."""
        if self.writer is not None:
            self.writer.terminate()
            assert self.writer.wait(PATIENCE_S) == 0
            self.writer = None
        if self.driver is not None and self.driver.poll() is None:
            self.driver.terminate()
            self.driver.wait(PATIENCE_S)
        for _ in range(3):
            self.start_driver("--once")
            assert self.driver is not None
            if self.driver.wait(PATIENCE_S) == 0:
                break
        else:
            return [f"dispatch ended with {self.driver.returncode}; see {self.folder / 'driver.log'}"]
        local = self.folder / "local"
        shutil.rmtree(local, ignore_errors=True)
        rebuild(str(self.root), str(local), StoreConfig.from_keys(KEYS))
        return differing(self.into, local)

    def close(self) -> None:
        """End what still runs."""
        for process in (self.writer, self.driver):
            if process is not None and process.poll() is None:
                self._end(process)


def kills(
    folder: Path, count: int, seed: int, kinds: Sequence[str] = KINDS, told: bool = False
) -> tuple[Counter[str], list[str]]:
    """Kill so many times; what was killed, and names of files that differ from a rebuild's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run, wrong = Run(folder, seed), []
    try:
        while run.killed.total() < count and not wrong:
            before = run.killed.total()
            run.kill(kinds[before % len(kinds)])
            if run.killed.total() % 10 == 0 and run.killed.total() > before:
                wrong = run.check()
                if told:
                    print(f"{run.killed.total()} kills {dict(run.killed)}: {wrong or 'byte-identical'}", flush=True)
        return run.killed, wrong or run.check()
    finally:
        run.close()


def main() -> int:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(set(KINDS)), help="kill only these; all kinds in turn otherwise")
    parser.add_argument("--folder", type=Path, default=Path("artifacts/dispatch"))
    parser.add_argument("--write", nargs=2, metavar=("STORE", "SEED"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.write:
        write(words.write[0], int(words.write[1]))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    killed, wrong = kills(words.folder, words.kills, words.seed, [words.only] if words.only else KINDS, True)
    size = sum(path.stat().st_size for path in (words.folder / "store" / "commitlog").iterdir())
    print(f"{killed.total()} kills {dict(killed)}, {size >> 20} MiB of log: {wrong or 'byte-identical to a rebuild'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
