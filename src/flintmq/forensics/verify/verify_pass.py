"""One pass through the log, or a part of it: each piece goes to all checks.

A pass that begins at an offset judges as if the log before it had expired: units that point there are left out. One
that ends before the log's end reports what its checks held back, and judges nothing after it.
"""

from __future__ import annotations

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.index_check import IndexCheck, KeyBlock
from flintmq.forensics.verify.index_files import index_items
from flintmq.forensics.verify.log_check import LogCheck, LogReport, check_spares, head_at
from flintmq.forensics.verify.queue_files import Disk
from flintmq.forensics.verify.queue_set import QueueSet
from flintmq.format.index import PEER_533, PEER_540
from flintmq.format.record import MAGIC_BLANK
from flintmq.format.record_view import magic_at
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk, Piece
from flintmq.store.dispatch.dispatcher import Dispatcher

PIECE_BYTES = 8 << 20


class VerifyPass:
    """The accumulated state of one verification.

    Args:
        root, config, snapshot, disk: the store.
        ground: the context of the checks.
        access: how the log is read: "pread" or "map".

    Attributes:
        walk: the walk; it may be iterated once.
        log, queues, index: check the records, their units and their keys; `index` is None if the store has no index.
        is_part: it does not begin where the log does.
    """

    def __init__(
        self, root: str, config: StoreConfig, snapshot: Snapshot, disk: Disk, ground: Ground, access: str
    ) -> None:
        self.ground, self.is_part = ground, False
        self.queues = QueueSet(root, config, snapshot.broker, disk, ground)
        self.items = list(index_items(root, config, disk, ground))
        self.walk = LogWalk(
            snapshot.log, snapshot.facts, access=access, strict=False, report=LogReport(ground),
            piece_bytes=PIECE_BYTES, ask_queues=True,
        )  # fmt: skip
        self.log = LogCheck(snapshot.log, ground, self.queues.multi_dispatch)
        self.index = IndexCheck(self.items, ground) if self.queues.rules.index else None
        self.dispatcher = Dispatcher(self.queues.rules)

    @property
    def position(self) -> int:
        """Log offset to continue from."""
        return self.walk.position

    def begin_at(self, offset: int) -> None:
        """Begin at a record, as if the log before it had expired."""
        assert self.log.records == 0 and self.queues.count == 0  # what was taken is not judged again
        self.is_part = True
        self.queues.begin = self.ground.log_begin = self.log.end = offset
        self.walk.continue_at(offset)
        if self.index is not None:
            self.items[:] = [items for items in self.items if items.header.end_physical_offset >= offset]
            self.index = IndexCheck(self.items, self.ground)

    def take(self, piece: Piece) -> None:
        assert piece.count > 0
        assert piece.base + piece.positions[0] >= self.log.end  # records come in log order, each once
        self.log.take(piece)
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
