"""The extension of a running queue: where it goes on after a start, and what a unit's tags are (store format 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.format import consume_queue_ext
from flintmq.format.consume_queue import Unit
from flintmq.storage.effects import Effects
from flintmq.store.queues import ExtQueue, QueueName

if TYPE_CHECKING:
    from flintmq.store.consume_queues import RunningQueue


def resume(
    root: str, name: QueueName, queue: RunningQueue, offset: int, effects: Effects, *, cut: bool = False
) -> None:
    """Let the extension go on behind what the unit before `offset` points at.

    Args:
        root: of the store.
        name, queue: whose extension; nothing is done for a queue without one.
        offset: queue offset of the unit that is written next.
        effects: the disk.
        cut: nothing may stand behind that place: later files go, the rest is zeroed (upstream leaves it there, D25).

    Raises:
        OSError: the disk refused.
    """
    if queue.writer.ext is None:
        return
    ext = ExtQueue.of(root, name, effects)
    position = ext.files[0].start if ext.files else 0
    for near in (offset - 1, offset):
        code = unit.tags_code if near >= 0 and (unit := next(iter(queue.units(near, 1)), None)) is not None else 0
        found = ext.unit(code)
        if found is not None:
            size = consume_queue_ext.EXT_UNIT.size_of(found) if near < offset else 0
            position = consume_queue_ext.position(code) + size
            break
    queue.writer.ext.position = position
    for file in ext.files if cut else ():
        keep = min(max(position - file.start, 0), file.size)
        if keep == 0 and file.start > ext.files[0].start:
            queue.writer.ext.files.files.forget(file.path)
            effects.unlink(file.path)
        elif keep < file.size:
            fd = effects.open_write(file.path)
            try:
                if any(effects.pread(fd, file.size - keep, keep)):
                    effects.pwrite(fd, bytes(file.size - keep), keep)
            finally:
                effects.close(fd)


def tags_code(unit: Unit, ext: ExtQueue | None) -> int | None:
    """What the tags field of a unit holds or points at; None if it points at nothing, which every filter lets pass.

    Source: upstream CqUnit.getValidTagsCodeAsLong.
    """
    if ext is None or not consume_queue_ext.is_address(unit.tags_code):
        return unit.tags_code
    found = ext.unit(unit.tags_code)
    return None if found is None else found.tags_code
