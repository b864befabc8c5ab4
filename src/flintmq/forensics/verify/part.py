"""One part of a verification: its request, and the accumulated state of the walk.

A part that continues from a state knows all that the parts before it knew, so together they find the same as one run. A
part that begins at an offset without a state (`Part.begin`) judges as if the log before it had expired: units that
point there are left out. A part ends with the block of the log (8 MiB at most) that reaches its end or uses up its
time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flintmq.errors import UsageError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.index_check import IndexCheck, KeyBlock
from flintmq.forensics.verify.index_cursor import IndexItems
from flintmq.forensics.verify.log_check import LogCheck, check_spares, head_at
from flintmq.forensics.verify.queue_set import QueueSet
from flintmq.format.index import PEER_533, PEER_540
from flintmq.format.record import MAGIC_BLANK
from flintmq.format.record_view import FIXED_SIZE, magic_at
from flintmq.store.commitlog.files import LogFile, LogFiles
from flintmq.store.commitlog.resync import next_record
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.dispatch.dispatcher import Dispatcher

SAVE_SECONDS = 10.0
"""Interval of saving the state during a part."""

AT_END, OUT_OF_TIME = "end", "time"
"""Reasons why a part stopped before the log's end."""


@dataclass(frozen=True)
class Part:
    """The part of a store to verify; all of it by default.

    Attributes:
        begin: first log offset; the part begins with the first intact record there or later.
        end: last log offset; the block of the log that reaches it is checked whole.
        max_seconds: end after this time.
        resume: path of the file that keeps the state: a run continues from it, and leaves it there unless it reaches
            the log's end. Not in the store, which is never written.

    Raises:
        UsageError: (on creation) impossible numbers.
    """

    begin: int | None = None
    end: int | None = None
    max_seconds: float | None = None
    resume: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if (self.begin or 0) < 0 or (self.end is not None and self.end <= (self.begin or 0)):
            raise UsageError(
                f"from {self.begin or 0} to {self.end}: the end must be after the beginning; neither may be negative"
            )
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise UsageError(f"a time of {self.max_seconds} seconds: give more than 0")

    def first(self, log: LogFiles) -> int | None:
        """Return the log offset of the first record; None for the log's begin.

        Raises:
            UsageError: there is no intact record there or later.
        """
        if self.begin is None or self.begin <= log.min_offset:
            return None
        found = next_record(log, self.begin)
        if found is None:
            files = f"its files have offsets from {log.min_offset} up to {log.limit}"
            raise UsageError(f"--from {self.begin}: there is no intact record there or later; {files}")
        return found

    def watch(self) -> Callable[[int], str | None]:
        """Start the clock; return a function of a log offset that returns why to stop, or None."""
        started = time.monotonic()

        def stop(position: int) -> str | None:
            if self.end is not None and position >= self.end:
                return AT_END
            return OUT_OF_TIME if self.max_seconds and time.monotonic() - started >= self.max_seconds else None

        return stop


@dataclass
class VerifyPass:
    """The accumulated state of one verification, which a later run can resume.

    Attributes:
        findings, ground: see Ground.
        walk: the walk; it may be iterated once.
        log, queues, index: check the records, their units and their keys; `index` is None if the store has no index.
        items: the index files, in log order.
        dispatcher: makes units and keys.
        begin: log offset where the part begins; None for the log's begin.
        last: log offset of the last record taken.
    """

    ground: Ground
    walk: LogWalk
    log: LogCheck
    queues: QueueSet
    index: IndexCheck | None
    items: list[IndexItems]
    dispatcher: Dispatcher
    begin: int | None = None
    last: int | None = None

    @property
    def findings(self) -> Findings:
        """The findings so far."""
        return self.ground.findings

    @property
    def position(self) -> int:
        """Log offset to continue from."""
        return self.walk.position

    def begin_at(self, offset: int) -> None:
        """Begin at a record, as if the log before it had expired."""
        assert self.last is None and self.queues.count == 0  # what was taken is not judged again
        self.begin = self.queues.begin = self.ground.log_begin = self.log.end = offset
        self.walk.continue_at(offset)
        if self.index is not None:
            self.items[:] = [items for items in self.items if items.header.end_physical_offset >= offset]
            self.index = IndexCheck(self.items, self.ground)

    def take(self, piece: Piece) -> None:
        """Check one piece of the walk."""
        assert piece.count > 0
        assert piece.base + piece.positions[0] >= self.log.end  # records come in log order, each once
        self.log.take(piece)
        self.last = piece.base + piece.positions[piece.count - 1]
        self.dispatcher.follow(PEER_540 if self.index is not None and self.index.tags else PEER_533)
        for block in self.dispatcher.blocks(piece):
            self.queues.take(block, self.dispatcher)
            if self.index is not None:
                keys = block.key_hashes, block.key_offsets, block.key_times, block.keys
                self.index.expect(KeyBlock(piece, block.last_offset, *keys))

    def pass_blank(self, file: LogFile) -> None:
        """Skip the end-of-file record, if there is one at the position."""
        if magic_at(head_at(self.walk.log, file, self.position - file.start)) == MAGIC_BLANK:
            self.walk.continue_at(file.start + max(file.size, self.walk.log.file_size))

    def finish(self) -> None:
        """Judge what is left after the log's end."""
        self.log.finish()
        check_spares(self.walk.log, self.log.end, self.ground)
        self.queues.finish()
        if self.index is not None:
            self.index.finish(self.log.end)

    def stop(self) -> None:
        """End with this part: report what was held back, without judging anything after it."""
        self.log.finish()
        self.queues.stop()
        if self.index is not None:
            self.index.stop()

    # -- to continue later ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            "position": self.position,
            "last_time": self.walk.last_time,
            "begin": self.begin,
            "last": [self.last, self._head(self.last)],
            "lost": self.ground.lost.state(),
            "findings": self.findings.state(),
            "log": self.log.state(),
            "queues": self.queues.state(self.dispatcher),
            "index": self.index.state() if self.index is not None else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`, before anything is taken.

        Raises:
            UsageError: the log is another one, or was truncated or has expired there.
        """
        assert self.last is None  # what was taken would be counted twice
        last, head = state["last"]
        if last is not None and self._head(last) != head:
            raise UsageError(
                f"the last record that was checked, at log offset {last}, is gone: this is another log, or it was "
                "truncated or deleted there; remove the state to begin again"
            )
        if state["begin"] is not None:
            self.begin_at(state["begin"])
        self.walk.continue_at(state["position"], state["last_time"])
        self.last = last
        self.ground.lost.restore(state["lost"])
        self.log.restore(state["log"])
        self.queues.restore(state["queues"], self.dispatcher)
        if self.index is not None:
            self.index.restore(state["index"], self.items)
        # Last, because opening the files has found again what the state holds already.
        self.findings.restore(state["findings"])

    def _head(self, offset: int | None) -> str | None:
        """Return the first bytes of a record in hex; None if its file is gone."""
        file = self.walk.log.find(offset) if offset is not None else None
        if file is None or offset is None:
            return None
        return head_at(self.walk.log, file, offset - file.start, FIXED_SIZE).hex()
