"""Explains checkpoints, FlintMQ's mark, texts, and files that FlintMQ does not read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any, Final

from flintmq.errors import FlintError
from flintmq.forensics.explain.file_kinds import CHECKPOINT, TEXTS
from flintmq.forensics.explain.lines import Line, Remark, blame, field_lines, text_of
from flintmq.forensics.explain.source import FileLook
from flintmq.format import checkpoint, flintmq_mark, timer
from flintmq.format.layout import Layout

MOST_TEXT: Final = 1 << 16  # bytes read of one line of a text


def page(look: FileLook) -> Iterator[Line]:
    """Yield lines for a checkpoint or timer checkpoint: its numbers, and zeros after them."""
    own, size = look.place.kind == CHECKPOINT, look.source.size
    layout: Layout[Any] = checkpoint.CHECKPOINT if own else timer.TIMER_CHECK
    due = checkpoint.FILE_SIZE if own else timer.TIMER_CHECK_SIZE
    problem = f"the file has {size} bytes where {due} are due"
    lines = list(field_lines(layout, look.source.read(layout.size, 0), 0, ""))
    for line in lines:
        if isinstance(line.value, int) and line.value < 0 and line.name != "master_flushed_offset":
            lines = blame(lines, line.offset, "below 0")
    yield from blame(lines, max(size - 1, 0), problem) if size < due else lines
    if size > layout.size:
        end = min(size, due)
        zeros = look.source.zeros_until(layout.size, end) == end
        text = "zeros" if zeros else "not all zeros; never read"
        yield look.range(layout.size, end, "rest", end - layout.size, text, "fills the page")
    yield from look.bytes(due, size, "excess", "after the page", problem)


def mark(look: FileLook) -> Iterator[Line]:
    """Yield lines for FlintMQ's durable mark, and check it against the checkpoint."""
    due, size = flintmq_mark.MARK.size, look.source.size
    data, remarks = look.source.read(due, 0), {}
    if len(data) == due:
        found = flintmq_mark.MARK.unpack(data)
        computed = zlib.crc32(data[: flintmq_mark.MARK.offset("checksum")])
        remarks = {
            "magic": Remark("", None if found.magic == flintmq_mark.MAGIC else "not the magic of a mark"),
            "version": Remark("", None if found.version == flintmq_mark.VERSION else "a version that is not known"),
            "checksum": Remark("as computed") if computed == found.checksum else Remark("", f"computed 0x{computed:X}"),
        }
        look.found.append(("counts", _counts(look, found)))
    lines = list(field_lines(flintmq_mark.MARK, data, 0, "", remarks))
    yield from (
        lines if size == due else blame(lines, max(size - 1, 0), f"the file has {size} bytes where {due} are due")
    )
    yield from look.bytes(due, size, "excess", "after the mark")


def _counts(look: FileLook, found: flintmq_mark.Mark) -> str:
    path = os.path.join(os.path.dirname(look.source.path), "checkpoint")
    try:
        beside = look.source.effects.read_file(path, checkpoint.FILE_SIZE)
        time = checkpoint.decode(beside).physic_timestamp if beside is not None else None
    except (FlintError, OSError):
        time = None
    if time is None:
        return "not known: there is no checkpoint beside it"
    return "yes, the checkpoint has its time" if found.holds(time) else "no: another program wrote the checkpoint since"


def text(look: FileLook) -> Iterator[Line]:
    name, source, size = os.path.basename(look.source.path), look.source, look.source.size
    if name in TEXTS:
        look.found.append(("meaning", TEXTS[name]))
    at = number = shown = 0
    while at < size:
        data = source.read(MOST_TEXT, at)
        data = data[: data.find(b"\n") + 1 or len(data)]
        if look.at is None or look.at < at + len(data):
            if shown >= max(look.limit, 1):
                yield from look.bytes(at, size, "rest", "further lines")
                return
            if look.at is not None and at and not shown:
                yield look.range(0, at, "before", number, f"{number} lines", "earlier lines")
            told = text_of(data.removesuffix(b"\n"))
            yield Line(at, len(data), "", f"line {number + 1}", told, told, "", None, data)
            shown += 1
        at, number = at + len(data), number + 1


def other(look: FileLook) -> Iterator[Line]:
    what = look.place.how.rpartition(": ")[2] if ": " in look.place.how else "another program"
    yield from look.bytes(0, look.source.size, "bytes", f"a file of {what}, which FlintMQ does not read", counted=False)
