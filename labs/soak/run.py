"""The soak: `make soak MINUTES=30`: puts, gets, readers, roll-over, retention, restarts, random kills, small files.

    python -m labs.soak.run --minutes 30 [--seed 1] [--report docs/internals/reliability.md]

The writer is a process of its own: it opens the store, puts from two threads, reads back by `get` and `query`, cleans,
and after a while is stopped cleanly or killed; the next one goes on. Four readers in processes of their own follow the
log, walk it by both ways in, look up queues, keys and times, and verify that what they are given counts; they live as
long as the soak. Each process tells its memory, descriptors, maps and threads every few seconds. At the end stand
`verify` and the durability contract with the ledger of everything that was sent.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.testing.contract import check_contract, read_book
from labs.soak.processes import KEYS, READERS
from labs.torture import figures, report
from labs.torture.awake import Awake

SAMPLE_S = 5.0
START_S = 20.0  # a process imports, and meets everything for the first time
FIGURES = ("memory_kib", "descriptors", "maps", "threads")
SLACK = {"memory_kib": 48 << 10, "descriptors": 24, "maps": 48, "threads": 4}  # more at the end than early on


@dataclass
class Sample:
    """What one process holds at a moment."""

    at: float
    who: str
    memory_kib: int
    descriptors: int
    maps: int
    threads: int


def sample(pid: int, who: str, at: float) -> Sample | None:
    """Look at a process; None if it has just ended."""
    folder = Path(f"/proc/{pid}")
    try:
        words = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        maps = len((folder / "maps").read_text().splitlines())
        descriptors = len(os.listdir(folder / "fd"))
        # Pages of files are the system's to take back; what leaks is a process's own memory.
        memory = int(words["RssAnon"].split()[0])
        return Sample(at, who, memory, descriptors, maps, int(words["Threads"]))
    except (OSError, KeyError, ValueError):
        return None


@dataclass
class Outcome:
    """What a soak gave. `wrong` must be empty."""

    seconds: float = 0
    starts: int = 0
    kills: int = 0
    stops: int = 0
    samples: list[Sample] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    contract: str = ""
    acknowledged: int = 0
    expired_files: int = 0
    wrong: list[str] = field(default_factory=list)


class Soak:
    """One run in one folder; `longest` life of a writer in seconds."""

    def __init__(self, folder: Path, seed: int, longest: float = 30) -> None:
        self.longest = longest
        self.root, self.ledger, self.notes = folder / "store", folder / "ledger", folder / "notes"
        self.notes.mkdir(parents=True)
        self.chance = random.Random(seed)
        self.seed, self.found = seed, Outcome()

    def spawn(self, kind: str, number: int) -> subprocess.Popen[bytes]:
        """Start a process; what it has to say goes to a file of its own."""
        words = [
            sys.executable,
            "-m",
            "labs.soak.processes",
            kind,
            str(self.root),
            str(self.ledger),
            str(number),
        ]
        with (self.notes / f"{kind}-{number}").open("wb") as out:
            return subprocess.Popen([*words, str(self.seed)], stdout=out, stderr=subprocess.STDOUT)

    def run(self, seconds: float) -> Outcome:
        """Live for so long, then check."""
        clock = Awake(1)
        writer = self._start()
        while not (self.root / "config").is_dir() and writer.poll() is None:
            time.sleep(0.05)
        readers = {kind: self.spawn(kind, n) for n, kind in enumerate(READERS)}
        due, now = SAMPLE_S, clock()
        end_of_life = now + self._life()
        try:
            while now < seconds:
                time.sleep(0.05)
                now = clock()
                if writer.poll() is not None:
                    self.found.wrong.append(f"the writer ended by itself: {self._said('writer', self.found.starts)}")
                    break
                if now >= due:
                    due += SAMPLE_S
                    self._sample(now, {"writer": writer, **readers})
                if now >= end_of_life:
                    self._end(writer)
                    writer, end_of_life = self._start(), now + self._life()
        finally:
            self._end(writer, kill=False)
            for kind, reader in readers.items():
                self._stop_reader(kind, reader)
        self.found.seconds = clock()
        self._check()
        return self.found

    def _life(self) -> float:
        return min(self.chance.choice((0.3, 1, 3, 8, 20)) * self.chance.uniform(0.5, 1.5), self.longest)

    def _start(self) -> subprocess.Popen[bytes]:
        self.found.starts += 1
        return self.spawn("writer", self.found.starts)

    def _end(self, writer: subprocess.Popen[bytes], kill: bool | None = None) -> None:
        """End a writer's life: mostly by kill -9."""
        kill = self.chance.random() < 0.7 if kill is None else kill
        writer.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            status = writer.wait(60)
        except subprocess.TimeoutExpired:
            writer.kill()
            self.found.wrong.append("a writer did not stop within a minute")
            return
        self.found.kills += kill
        self.found.stops += not kill
        if not kill and status not in (0, -signal.SIGTERM):  # the signal may come before the program is ready for it
            self.found.wrong.append(f"a writer stopped with {status}: {self._said('writer', self.found.starts)}")

    def _stop_reader(self, kind: str, reader: subprocess.Popen[bytes]) -> None:
        if reader.poll() is None:
            reader.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            reader.wait(60)
        if reader.poll() is None:
            reader.kill()
        said = self._said(kind, READERS.index(kind))
        last = said.splitlines()[-1] if said else ""
        if reader.returncode != 0 or not last.isdigit() or not int(last):
            self.found.wrong.append(f"reader {kind} ended with {reader.returncode}: {said[-500:]}")
        else:
            self.found.counts[kind] = int(last)

    def _said(self, kind: str, number: int) -> str:
        return (self.notes / f"{kind}-{number}").read_text(errors="replace")[-1500:]

    def _sample(self, at: float, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        for who, process in processes.items():
            one = sample(process.pid, who, at)
            if one is not None:
                self.found.samples.append(one)

    def _check(self) -> None:
        """Verify, the contract, and whether anything grew."""
        found = verify(self.root, StoreConfig.from_keys(KEYS))
        self.found.wrong += [f"verify: {d.code} {d.file} {d.position}" for d in found.defects[:5]]
        book = read_book(self.ledger)
        book.expired = found.log_begin
        told = check_contract(self.root, book, KEYS)
        self.found.acknowledged = sum(answer["outcome"] == "ok" for answer in book.answers.values())
        self.found.expired_files = found.log_begin // int(KEYS["mappedFileSizeCommitLog"])
        self.found.contract = str(told)
        self.found.wrong += [f"contract: {name} {count}; {told.notes[:3]}" for name, count in told.wrong.items()]
        self.found.wrong += grown(self.found.samples, self.found.seconds)


def grown(
    samples: list[Sample],
    seconds: float,
    names: Sequence[str] = READERS,
    slack: Mapping[str, int] = SLACK,
    of: Callable[[Iterable[int]], int] = max,
) -> list[str]:
    """Figures of readers that are higher in the last fifth of the time than in the second one, beyond their slack.

    The writers' lives are short; they are in the table only. `of` is what counts of a fifth; with `min` it is what
    stays, where a moment's work takes much.
    """
    wrong = []
    for who in names:
        own = [s for s in samples if s.who == who]
        early = [s for s in own if 0.2 <= s.at / seconds < 0.4 and s.at >= START_S]
        late = [s for s in own if s.at / seconds >= 0.8]
        for name in slack if early and late else ():
            before, after = (of(getattr(s, name) for s in part) for part in (early, late))
            if after > before + slack[name]:
                wrong.append(f"{who}: {name} grew from {before} to {after}")
    return wrong


def fifths(
    samples: list[Sample], seconds: float, who: str, name: str, of: Callable[[Iterable[int]], int] = max
) -> list[int | str]:
    """The greatest value of a figure of a process in each fifth of the time; a dash where nobody looked."""
    found: list[int | str] = []
    for n in range(5):
        part = [s for s in samples if s.who == who and n <= 5 * s.at / seconds < n + 1]
        found.append(of(getattr(s, name) for s in part) if part else "-")
    return found


def series(found: Outcome, begun: str) -> figures.Series:
    """What the run has counted, and the greatest value of each process's figures in each fifth of the time."""
    told = {
        "minutes": round(found.seconds / 60, 1), "starts": found.starts, "kills": found.kills,
        "clean stops": found.stops, "messages acknowledged": found.acknowledged,
        "log files expired": found.expired_files, "wrong": len(found.wrong), "checked by readers": found.counts,
    }  # fmt: skip
    rows: list[list[Any]] = []
    for who in ("writer", *READERS):
        for name in FIGURES:
            rows.append([who, name.replace("_kib", ", KiB"), *fifths(found.samples, found.seconds, who, name)])
    columns = ["process", "figure", "first fifth", "second", "third", "fourth", "last"]
    return figures.Series(columns, rows, [report.commit()], told, run=begun)


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-soak-"))
    found = Soak(folder, words.seed).run(words.minutes * 60)
    print(*figures.shown("soak", series(found, begun)), "", found.contract, *found.wrong, sep="\n")
    (folder / "samples.json").write_text(json.dumps([vars(s) for s in found.samples]))
    if found.wrong:
        print(f"kept in {folder}")
        return 1
    shutil.rmtree(folder)
    if words.report is not None:
        figures.record(words.report, "soak", series(found, begun))
    return 0


if __name__ == "__main__":
    sys.exit(main())
