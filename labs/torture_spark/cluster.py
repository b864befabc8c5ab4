"""The kill run of a cluster: `make torture-cluster KILLS=300`. It goes on where it was stopped.

    python -m labs.torture_spark.cluster --kills 300 [--seconds S] [--state FOLDER] [--report FILE]

Two stores are written by RocketMQ and one by FlintMQ; one stream carries them into a Delta or an Iceberg table. To the
kills of labs/torture_spark/loop.py this adds: a broker whose directory leaves and returns, retention that
deletes the first log files once they are exported, and at random moments a read of history and now, which must be the
logs: no row twice, none missing, none foreign.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator

from flintmq.errors import FlintError
from flintmq.frames.scan import scan_arrow
from labs.torture_spark.actors import Writer
from labs.torture_spark.check import COLUMNS, Row, Verdict, check_table, count, row, rows
from labs.torture_spark.loop import Round, main, wanted_of, writer_of
from labs.torture_spark.past import Past
from labs.torture_spark.writer import KEYS

NAME = "torture-cluster"
BROKERS = {"broker-a": "5.3.3", "broker-b": "5.5.0", "代理-c": "flintmq"}
KINDS = (("delta", "cluster"), ("iceberg", "cluster"))
COUNTED = ("left", "returned", "expired files", "moments", "rows of moments", "moments without a table")


class ClusterRound(Round):
    """Three stores, one table, and who is at work on them."""

    max_offsets = (1000, 3000, 10_000)

    def _stores(self) -> str:
        return str(self.folder / "{broker}" / "store")

    def _engage(self, by: str) -> None:
        self.writers: dict[str, Writer] = {}
        self.pasts: dict[str, Past] = {}
        self.away = self.folder / "away"
        for broker, version in BROKERS.items():
            place = self.folder / broker
            place.mkdir(exist_ok=True)
            self.writers[broker] = writer_of(version, place)
            self.pasts[broker] = Past(place / "store", self.folder / "past" / broker)
        if self._gone():
            self._return()

    def _gone(self) -> str:
        """The broker that left, if one did."""
        return next((path.name for path in self.away.glob("*")), "")

    def _return(self) -> None:
        broker = self._gone()
        self.pasts[broker].store = self.folder / broker / "store"
        (self.away / broker).rename(self.pasts[broker].store)
        self.state.add(self.kind, "returned")

    def _start_writer(self) -> None:
        for broker in BROKERS:
            self.writers[broker].start(f"{self._life()}.{broker}")

    def _kill_a_writer(self, chance: random.Random) -> None:
        """Kill one, and bring it back; sometimes files expire before, or it leaves, or the one that left returns."""
        broker = chance.choice(list(BROKERS))
        if (gone := self._gone()) and (broker == gone or chance.random() < 0.7):
            self._return()
            self.writers[gone].start(f"{self._life()}.{gone}")
            return
        self.writers[broker].kill()
        if not gone and chance.random() < 0.3:
            self.away.mkdir(exist_ok=True)
            (self.folder / broker / "store").rename(self.away / broker)
            self.pasts[broker].store = self.away / broker
            self.state.add(self.kind, "left")
            return
        if chance.random() < 0.7:
            self._expire(broker)
        self.writers[broker].start(f"{self._life()}.{broker}")

    def _expire(self, broker: str) -> None:
        """Delete the first log files, but two, if the table has all of their messages."""
        past = self.pasts[broker]
        if not count(self.exporter.table):
            return
        there = {found[3] for found in rows(self.exporter.table, broker)}
        waiting = [found[3] for found in past.look() if found[3] not in there]
        past.keep()
        for file in sorted((past.store / "commitlog").iterdir())[:-2]:
            if int(file.name) + KEYS["mappedFileSizeCommitLog"] > min(waiting, default=sys.maxsize):
                break
            file.unlink()
            self.state.add(self.kind, "expired files")

    def _kill(self, chance: random.Random) -> bool:
        done = super()._kill(chance)
        if chance.random() < 0.3:
            self._moment()
        return done

    def _moment(self) -> None:
        """Read history and now, and compare with the logs before and after."""
        if not count(self.exporter.table):
            self.state.add(self.kind, "moments without a table")
            return
        present = {broker: past for broker, past in self.pasts.items() if broker != self._gone()}
        before = {broker: past.look() for broker, past in present.items()}
        try:
            there = self._union()
        except FlintError as error:
            raise AssertionError(f"a moment of {list(present)}: {error}: {self._last_words()}") from None
        assert there.keys() <= BROKERS.keys(), f"unknown brokers: {there.keys()}"
        for broker, past in self.pasts.items():
            found, after = there.get(broker, Counter()), past.look()
            wrong = {
                "doubled": sum(number - 1 for number in found.values()),
                "missing": (before.get(broker, Counter()) - found).total(),
                "foreign": len(found.keys() - after.keys()),
            }
            assert not any(wrong.values()), f"a moment of {broker}: {wrong}: {self._last_words()}"
            self.state.add(self.kind, "rows of moments", found.total())
        self.state.add(self.kind, "moments")
        self.save()

    def _union(self) -> dict[str, Counter[Row]]:
        """The rows of history and now, by broker."""
        found: dict[str, Counter[Row]] = {}
        reader = scan_arrow(self._stores(), [*COLUMNS, "broker"], history=self.exporter.table, set=KEYS)
        for batch in reader:
            columns = batch.to_pydict()
            for broker, *values in zip(columns["broker"], *(columns[name] for name in COLUMNS), strict=True):
                found.setdefault(broker, Counter())[row(*values)] += 1
        return found

    def _close_writers(self) -> int:
        if self._gone():
            self._return()
        for writer in self.writers.values():
            writer.close()
        return sum(wanted_of(past.whole()) for past in self.pasts.values())

    def _verdicts(self) -> Iterator[Verdict]:
        self._moment()
        for broker, past in self.pasts.items():
            yield check_table(past.whole(), self.exporter.table, self.writers[broker].acknowledged(), broker)

    def _dismiss(self) -> None:
        for writer in self.writers.values():
            writer.kill()


if __name__ == "__main__":
    sys.exit(main(NAME, ClusterRound, KINDS, COUNTED))
