"""Replays into an existing store: the driver puts messages in order, each exactly once.

See `exactly_once.py`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from flintmq.errors import StoreError, UsageError
from flintmq.spark.jobs.replay.exactly_once import WriterIds, WriterTail, messages_of, noted, put_all
from flintmq.spark.jobs.replay.refusals import checked, place
from flintmq.spark.jobs.replay.rows import RowRules, SourceRow, messages, rows_after
from flintmq.store.message_store import MessageStore

ROWS_AT_ONCE = 1000
SAVE_ROWS, SAVE_SECONDS = 65_536, 1.0  # progress is written after this many rows or seconds
LONGEST_SLEEP_S = 0.5


@dataclass
class Position:
    """The progress of a replay into a store, as recorded in the ledger.

    `anchor`: the last record of the store's log that the replay put, as `exactly_once.noted` returns it.
    """

    after: SourceRow | None  # the last row of the source that was replayed; None: none yet
    log_end: int
    rows: int = 0  # messages replayed in total
    running: bool = False  # the replay had not ended: records after log_end may be its own
    anchor: dict[str, int] | None = None

    @classmethod
    def read(cls, ledger: WriterIds, writer_id: str) -> Position | None:
        value = ledger.get(writer_id)
        if value is None:
            return None
        after = value["after"]
        after = None if after is None else SourceRow(*after)
        return cls(after, value["log_end"], value["rows"], value["running"], value.get("anchor"))

    def write(self, ledger: WriterIds, writer_id: str) -> None:
        ledger.set(writer_id, asdict(self))


class Pace:
    """Delays messages according to their store times.

    `factor`: how much faster than they were stored; None: as fast as possible.
    """

    def __init__(self, factor: float | None) -> None:
        self.factor = factor
        self._first: tuple[float, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Pace:
        """Parse the value of `--speed`: original, xN or max."""
        if text == "max":
            return cls(None)
        match = re.fullmatch(r"x([0-9]{1,9}(?:\.[0-9]{1,9})?)", text)
        factor = 1.0 if text == "original" else float(match[1]) if match else 0.0
        if factor <= 0:
            raise UsageError(f"speed {text[:40]!r} is not one of: original, xN (such as x10 or x0.5), max")
        return cls(factor)

    def wait(self, store_ms: int) -> float:
        """Return the seconds until the turn of a message stored at that time; 0 for the first."""
        if self.factor is None:
            return 0.0
        if self._first is None:
            self._first = time.monotonic(), store_ms
        began, first = self._first
        return began + (store_ms - first) / 1000 / self.factor - time.monotonic()


def put_rows(
    store: MessageStore,
    ledger: WriterIds,
    writer_id: str,
    batches: Iterable[pa.RecordBatch],
    rules: RowRules,
    pace: Pace,
    left_out: Counter[str],
    must_go_on: bool = False,
) -> tuple[Position, int, int]:
    """Put the rows of a source that are not replayed yet.

    Durability: everything, on return.

    Args:
        store: has just been opened, and nothing was put since.
        batches: rows of the source in order, from the one on that was replayed last (its log offset).
        rules: select the rows that are messages; all rows were checked before (`refusals.py`).
        must_go_on: the row that was replayed last has to be among the rows.

    Returns:
        (where it ended, messages put now, messages of the last run that were in the log already).

    Raises:
        StoreError: the store refused a message; run the replay again after fixing the cause. Or the store's log has no
            more what was put before.
    """
    end = store.recovered.state.end
    ledger.check(writer_id, end, store.config)
    at = Position.read(ledger, writer_id) or Position(None, end)
    tail = WriterTail(store.root, at.log_end if at.running else end, end, store.config)
    # Written before the first put, so that the next run knows from where on to look for this run's messages.
    if not at.running:
        at.log_end, at.running = end, True
        at.write(ledger, writer_id)
    writer = _RowWriter(store, ledger, writer_id, at, tail, pace)
    for batch in rows_after(batches, at.after, must_go_on):
        rows = checked(batch, rules, left_out) if rules.skip_refused else messages(batch, rules, left_out)
        for first in range(0, rows.num_rows, ROWS_AT_ONCE):
            writer.put_rows(rows.slice(first, ROWS_AT_ONCE))
    at.running = False
    writer.save()
    return at, writer.put, writer.found


class _RowWriter:
    def __init__(
        self, store: MessageStore, ledger: WriterIds, writer_id: str, at: Position, tail: WriterTail, pace: Pace
    ) -> None:
        self.store, self.ledger, self.writer_id = store, ledger, writer_id
        self.at, self.tail, self.pace = at, tail, pace
        self.put = self.found = 0
        self.end = max(at.log_end, store.recovered.state.end)
        self.last: int | None = None  # log offset of the last message put
        self._unsaved, self._saved = 0, time.monotonic()

    def put_rows(self, rows: pa.RecordBatch) -> None:
        """Put the rows that are not in the store yet, each in its turn."""
        given = messages_of(rows)
        begin = 0
        while begin < len(given) and not self.tail.over and self.tail.holds(given[begin]):
            begin += 1
        self.found += begin
        self._done(rows, begin, begin)
        times: Any = rows.column("store_timestamp").cast(pa.int64()).fill_null(0).to_numpy() // 1000
        while begin < len(given):
            end = self._turn(times, begin)
            names = (place(rows, row) for row in range(begin, end))
            last = put_all(self.store, given[begin:end], names)
            self.end, self.last = last.physical_offset + last.size, last.physical_offset
            self.put += end - begin
            self._done(rows, end, end - begin)
            begin = end
            self._save_in_time()

    def _turn(self, times: Any, begin: int) -> int:
        """Wait for the turn of row `begin`; return the end of the rows whose turn has come."""
        if self.pace.factor is None:
            return len(times)
        while (rest := self.pace.wait(int(times[begin]))) > 0:
            time.sleep(min(rest, LONGEST_SLEEP_S))
            self._save_in_time()
        end = begin + 1
        while end < len(times) and self.pace.wait(int(times[end])) <= 0:
            end += 1
        return end

    def _done(self, rows: pa.RecordBatch, end: int, count: int) -> None:
        if count:
            self.at.after = SourceRow.of(rows, end - 1)
            self.at.rows += count
            self._unsaved += count

    def _save_in_time(self) -> None:
        if self._unsaved and (self._unsaved >= SAVE_ROWS or time.monotonic() - self._saved >= SAVE_SECONDS):
            self.save()

    def save(self) -> None:
        """Flush the store, then write the progress."""
        # First the messages, then the progress: a record of progress must never be ahead of the log.
        self.store.flush()
        self.at.log_end = self.end
        self.at.anchor = noted(self.store.root, self.store.config, self.last) or self.at.anchor
        try:
            self.at.write(self.ledger, self.writer_id)
        except OSError as error:
            raise StoreError(f"{self.ledger.path}: {error.strerror}; run the same again when that is fixed") from error
        self._unsaved, self._saved = 0, time.monotonic()
