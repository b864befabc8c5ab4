"""A part of a verification: what is asked for, and everything that the walk through the log carries along.

A part that goes on from a state has all that the parts before it knew, so they find together what one run finds. A part
that begins at an offset without one (`Part.begin`) judges as if the log before it had expired: what points there
is left out. A part ends with the block of the log (8 MiB at most) that reaches its end or uses up its time.
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
"""How often a state is saved on the way."""

AT_END, OUT_OF_TIME = "end", "time"
"""Why a part stopped before the log's end."""


@dataclass(frozen=True)
class Part:
    """What part of a store is verified; all of it unless something is given.

    Attributes:
        begin: log offset from which on; the first record that counts there or behind is the first one looked at.
        end: log offset up to which; the block of the log that reaches it is looked at whole.
        max_seconds: end after this time.
        resume: path of the file that keeps the state: a run goes on from there, and leaves it there if it does not
            come to the log's end. Not in the store, which is never written.

    Raises:
        UsageError: (when made) numbers that cannot be.
    """

    begin: int | None = None
    end: int | None = None
    max_seconds: float | None = None
    resume: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if (self.begin or 0) < 0 or (self.end is not None and self.end <= (self.begin or 0)):
            raise UsageError(
                f"from {self.begin or 0} to {self.end}: the end must lie behind the begin, and both from 0 on"
            )
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise UsageError(f"a time of {self.max_seconds} seconds: give more than 0")

    def first(self, log: LogFiles) -> int | None:
        """Log offset of the record to begin with; None for the log's begin.

        Raises:
            UsageError: no record counts there or behind.
        """
        if self.begin is None or self.begin <= log.min_offset:
            return None
        found = next_record(log, self.begin)
        if found is None:
            files = f"its files have offsets from {log.min_offset} up to {log.limit}"
            raise UsageError(f"--from {self.begin}: no record of the log counts there or behind; {files}")
        return found

    def watch(self) -> Callable[[int], str | None]:
        """Begin to measure the time. Gives what tells, for a log offset that is reached, why to stop there, or None."""
        started = time.monotonic()

        def stop(position: int) -> str | None:
            if self.end is not None and position >= self.end:
                return AT_END
            return OUT_OF_TIME if self.max_seconds and time.monotonic() - started >= self.max_seconds else None

        return stop


@dataclass
class VerifyPass:
    """What a walk through the log carries along, all of which a later part can go on with.

    Attributes:
        findings, ground: see Ground.
        walk: the walk; it may be iterated once.
        log, queues, index: what looks at the records, their units and their keys; no index where none is made.
        items: the index files, in log order.
        dispatcher: makes units and keys.
        begin: log offset where the part begins that is looked at; None for the log's begin.
        last: log offset of the last record that was taken.
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
        """What was found so far."""
        return self.ground.findings

    @property
    def position(self) -> int:
        """Log offset to go on from."""
        return self.walk.position

    def begin_at(self, offset: int) -> None:
        """Look at the log from a record on, as if what lies before had expired."""
        self.begin = self.queues.begin = self.ground.log_begin = self.log.end = self.walk.position = offset
        if self.index is not None:
            self.items[:] = [items for items in self.items if items.header.end_physical_offset >= offset]
            self.index = IndexCheck(self.items, self.ground)

    def take(self, piece: Piece) -> None:
        """Look at one piece of the walk."""
        self.log.take(piece)
        self.last = piece.base + piece.positions[piece.count - 1]
        self.dispatcher.follow(PEER_540 if self.index is not None and self.index.tags else PEER_533)
        for block in self.dispatcher.blocks(piece):
            self.queues.take(block, self.dispatcher)
            if self.index is not None:
                keys = block.key_hashes, block.key_offsets, block.key_times, block.keys
                self.index.expect(KeyBlock(piece, block.last_offset, *keys))

    def pass_blank(self, file: LogFile) -> None:
        """Go on behind the end-of-file record, if one stands at the position."""
        if magic_at(head_at(self.walk.log, file, self.position - file.start)) == MAGIC_BLANK:
            self.walk.position = file.start + max(file.size, self.walk.log.file_size)

    def finish(self) -> None:
        """The log has ended: judge what is left."""
        self.log.finish()
        check_spares(self.walk.log, self.log.end, self.ground)
        self.queues.finish()
        if self.index is not None:
            self.index.finish(self.log.end)

    def stop(self) -> None:
        """The part has ended, and no other goes on from it: tell what was held back, judge nothing behind it."""
        self.log.finish()
        self.queues.stop()
        if self.index is not None:
            self.index.stop()

    # -- to go on later --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All of it, for JSON."""
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
        """Go on from what `state` gave, with nothing taken yet.

        Raises:
            UsageError: the log is another one, or has been cut or expired there.
        """
        last, head = state["last"]
        if last is not None and self._head(last) != head:
            raise UsageError(
                f"the record at log offset {last}, the last one that was looked at, is not there any more: the log is "
                "another one, or has been cut or deleted up to there"
            )
        if state["begin"] is not None:
            self.begin_at(state["begin"])
        self.walk.position, self.walk.last_time, self.last = state["position"], state["last_time"], last
        self.ground.lost.restore(state["lost"])
        self.log.restore(state["log"])
        self.queues.restore(state["queues"], self.dispatcher)
        if self.index is not None:
            self.index.restore(state["index"], self.items)
        self.findings.restore(state["findings"])  # at last: what the files alone give has been told

    def _head(self, offset: int | None) -> str | None:
        """The begin of a record, in hex; None if its file is gone."""
        file = self.walk.log.find(offset) if offset is not None else None
        if file is None or offset is None:
            return None
        return head_at(self.walk.log, file, offset - file.start, FIXED_SIZE).hex()
