"""The kill run of the streaming export: `make torture-spark KILLS=300`. It goes on where it was stopped.

    python -m labs.torture_spark.loop --kills 300 [--seconds S] [--state FOLDER] [--report FILE]

While somebody writes a store, `flintmq spark export --stream` carries it into a table; a task's Python, the driver (its
Python, its Java, or both) and the writer are killed at random and started again from what they left. After
PER_ROUND kills the writer stops, the export catches up, and the table is compared with the log; the next round has a
new store, another table or another writer. A round that is wrong is kept, and ends the program with 1.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labs.torture import figures, report
from labs.torture_spark.actors import Engine, Exporter, Oracle, Writer
from labs.torture_spark.check import Verdict, check_table, count, queued, records
from tests.interop.java import Java, home

PER_ROUND = 12
KINDS = (("delta", "flintmq"), ("parquet", "flintmq"), ("delta", "5.3.3"), ("parquet", "5.4.0"))
VICTIMS = {"worker": 12, "writer": 6, "driver": 2, "java": 1, "all": 1}  # how often each
ENDING = ("driver", "java", "all")  # whose death ends the driver
STUCK_S = 120  # without a new row: then an export that is behind does not catch up any more
FIGURES = tuple(Verdict.__dataclass_fields__)


@dataclass
class State:
    """What a run remembers of itself, in one file.

    Attributes:
        seed: of everything that is random.
        kills: so far.
        begun: tells this run from others.
        round: number of the present round; in_round: kills in it so far; starts: of its writer.
        sums: per kind of round: kills of each victim, and the figures of the checks.
    """

    seed: int = 1
    kills: int = 0
    round: int = 0
    in_round: int = 0
    starts: int = 0
    begun: str = field(default_factory=figures.begun)
    sums: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, kind: str, name: str, number: int = 1) -> None:
        """Count something of a kind of round."""
        sums = self.sums.setdefault(kind, {})
        sums[name] = sums.get(name, 0) + number


class Round:
    """One store, one table, and who is at work on them."""

    max_offsets = (100, 300, 3000)  # of a micro-batch
    exporting = Exporter

    def __init__(self, state: State, folder: Path, kind: tuple[str, str], save: Any) -> None:
        self.state, self.folder, self.save = state, folder, save
        to, by = kind
        self.kind = f"{to}, {by}"
        folder.mkdir(parents=True, exist_ok=True)
        chance = random.Random(f"{state.seed}/{state.round}")
        max_offsets = chance.choice(self.max_offsets)
        partition_by = chance.choice(("topic_name,date", "topic_name,date", "date", "none"))
        self.exporter = self.exporting(folder, self._stores(), to, max_offsets, partition_by)
        self._engage(by)

    @property
    def victims(self) -> dict[str, int]:
        """Who is killed, and how often each."""
        return VICTIMS

    def _stores(self) -> str:
        """What the export reads."""
        return str(self.folder / "store")

    def _engage(self, by: str) -> None:
        """Get hold of whoever writes."""
        self.writer = writer_of(by, self.folder)

    def live(self, kills: int, until: float) -> bool:
        """Kill until so many kills are done in all, or it is late; whether the round is through and right."""
        state = self.state
        try:
            self.exporter.start()
            if state.in_round < PER_ROUND and state.kills < kills:
                self._start_writer()
            while state.in_round < PER_ROUND and state.kills < kills:
                if time.monotonic() > until:
                    return False
                if self._kill(random.Random(f"{state.seed}/{state.kills}/{state.starts}")):
                    state.kills, state.in_round = state.kills + 1, state.in_round + 1
                    self.save()
            return self._finish(until)
        finally:
            self.exporter.end()
            self._dismiss()

    def _dismiss(self) -> None:
        """Leave no writer."""
        self.writer.kill()

    def _start_writer(self) -> None:
        self.writer.start(self._life())

    def _life(self) -> str:
        """The name of a writer's next life."""
        self.state.starts += 1
        self.save()
        return f"{self.state.seed}.{self.state.round}.{self.state.starts}"

    def _kill_a_writer(self, chance: random.Random) -> None:
        self.writer.kill()
        self._start_writer()

    def _kill(self, chance: random.Random) -> bool:
        """Kill somebody at some moment, and bring them back. False if they were not there."""
        whom = chance.choices(list(self.victims), list(self.victims.values()))[0]
        if whom in ("writer", *ENDING) and chance.random() < 0.25:  # while it starts, too
            time.sleep(chance.uniform(0, 4))
        else:
            at_work = self.exporter.wait_for_a_task(30)
            time.sleep(chance.uniform(0, 0.3) if chance.random() < 0.7 else chance.uniform(0, 2))
            self.state.add(self.kind, "in a task", int(at_work))
        if not self.exporter.runs:
            self.state.add(self.kind, "gave up")
            self.exporter.start()
            return False
        if whom == "writer":
            self._kill_a_writer(chance)
        elif not self.exporter.kill(whom, chance):
            return False
        elif whom in ENDING:
            self.exporter.start()
        self.state.add(self.kind, whom)
        self.state.add(self.kind, "kills")
        return True

    def _finish(self, until: float) -> bool:
        """Stop the writer, let the export catch up, compare; False if it is late before."""
        wanted, table = self._close_writers(), self.exporter.table
        there, moved = 0, time.monotonic()
        while there < wanted and time.monotonic() < moved + STUCK_S:
            if time.monotonic() > until:
                return False
            if not self.exporter.runs:
                self.state.add(self.kind, "gave up")
                self.exporter.start()
            time.sleep(0.5)
            before, there = there, count(table)
            moved = moved if there == before else time.monotonic()
        assert self.exporter.runs, self._last_words()
        code = self.exporter.close()
        assert code in (0, -signal.SIGTERM), f"exit code {code}: {self._last_words()}"  # the latter while it starts
        for found in self._verdicts():
            for name, number in asdict(found).items():
                self.state.add(self.kind, name, number)
            assert not found.wrong, f"{found}: {self._last_words()}"
        return True

    def _close_writers(self) -> int:
        """End all writing; how many messages the table must have then."""
        self.writer.close()
        return wanted_of(self.folder / "store")

    def _verdicts(self) -> Iterator[Verdict]:
        """What the comparison of each store with the table found."""
        yield check_table(self.folder / "store", self.exporter.table, self.writer.acknowledged())

    def _last_words(self) -> str:
        return f"{self.folder}: {(self.folder / 'export.err').read_text()[-600:]}"


def wanted_of(store: Path) -> int:
    """How many messages of a closed store have a queue unit."""
    return sum(1 for _ in queued(store, {r.physical_offset: r for r in records(store)}))


def writer_of(by: str, folder: Path) -> Writer:
    """FlintMQ's engine, or a version of the Java store, that writes `store` in a folder."""
    return Engine(folder) if by == "flintmq" else Oracle(folder, Java(by, built(by)))


def built(version: str) -> Path:
    """The Java store's directory; only asked for where there is one."""
    place, why = home(version)
    assert place is not None, why
    return place


def kinds() -> list[tuple[str, str]]:
    """The kinds of rounds that can be had here."""
    return [kind for kind in KINDS if kind[1] == "flintmq" or home(kind[1])[0] is not None]


def run(
    folder: Path, kills: int, seed: int = 1, seconds: float = 1e9, say: Any = print, make: type[Round] = Round,
    possible: Sequence[tuple[str, str]] = (),
) -> State | None:  # fmt: skip
    """Go on with the run in a folder until so many kills are done; None if the time was up before.

    Raises:
        AssertionError: a round ended wrong; it is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, until = folder / "state.json", time.monotonic() + seconds
    state = State(**json.loads(file.read_text())) if file.exists() else State(seed)

    def save() -> None:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(state)))
        new.replace(file)

    possible = possible or kinds()
    while state.kills < kills or state.in_round:
        kind = possible[state.round % len(possible)]
        place = folder / f"round{state.round}"
        if not make(state, place, kind, save).live(kills, until):
            return None
        state.round, state.in_round, state.starts = state.round + 1, 0, 0
        save()
        shutil.rmtree(place)
        say(f"{state.kills} kills, {state.round} rounds; the last: {kind[0]}, {kind[1]}", flush=True)
    return state


def series(state: State, more: Sequence[str] = ()) -> figures.Series:
    """What the run has counted; `more`: further things than kills and what the checks found."""
    names = ("kills", *VICTIMS, "in a task", "gave up", *more, *FIGURES)
    rows = [[kind, *(sums.get(name, 0) for name in names)] for kind, sums in sorted(state.sums.items())]
    return figures.Series(["table, writer", *names], rows, [report.commit()], {"seed": state.seed}, state.begun)


def main(
    name: str = "torture-spark", make: type[Round] = Round, possible: Sequence[tuple[str, str]] = (),
    more: Sequence[str] = (),
) -> int:  # fmt: skip
    """Run, and write the table of this name when all kills are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("build", name))
    parser.add_argument("--report", type=Path)
    words = parser.parse_args()
    try:
        state = run(words.state, words.kills, words.seed, words.seconds, make=make, possible=possible)
    except AssertionError as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    if state is None:
        print(f"time is up; the same command goes on ({words.state})")
        return 3
    found = series(state, more)
    print(*figures.shown(name, found), sep="\n")
    if words.report is not None:
        figures.record(words.report, name, found)
        shutil.rmtree(words.state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
