"""Explains checkpoints, FlintMQ's mark, texts, and files that FlintMQ does not read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any, Final

from flintmq.errors import FlintError
from flintmq.forensics.explain.file_kinds import CHECKPOINT, MARK
from flintmq.forensics.explain.lines import SHOWN_BYTES, Line, Remark, blame, field_lines, text_of
from flintmq.forensics.explain.source import FileLook
from flintmq.format import checkpoint, flintmq_mark, timer
from flintmq.format.layout import Layout

MOST_TEXT: Final = 1 << 16  # bytes read of one line of a text
_TEXTS: Final = {
    "abort": "there while a store runs: process, boot of the machine, mounting; left over, the stop was not clean",
    "abort.bak": "the content of an earlier abort; nobody reads it",
    "lock": "locked by a running store; the content means nothing",
    "flintmq.follow": "of a copy that flintmq follow keeps: whose log it is, and where it begins",
    "flintmq.following": "how far the follower was at one moment, for those who watch; nothing depends on it",
    "flintmq.queues": "where each queue ended at the last clean stop: topic, queue, queue offset",
    "flintmq.puts": "how far replays and streaming queries have put",
    "flintmq.copied": "of a copy on object storage: what was copied, and when it was whole",
    "flintmq.copying": "of a copy on object storage: who makes it; the copy is not whole without flintmq.copied",
    "epochFileCheckpoint": "epochs of replication; FlintMQ does not read them",
    "brokerIdentity": "identity of a broker in a cluster with controllers; FlintMQ does not read it",
    "salvage.jsonl": "what salvage kept and lost: old places and new",
    "copy.jsonl": "what a copy of some messages took: old places and new",
    "journal.json": "what a salvage in place changed, so that it can be finished and undone",
}


def page(look: FileLook) -> Iterator[Line]:
    """Yield lines for a checkpoint or timer checkpoint: its numbers, and zeros after them."""
    own = look.place.kind == CHECKPOINT
    layout: Layout[Any] = checkpoint.CHECKPOINT if own else timer.TIMER_CHECK
    due = checkpoint.FILE_SIZE if own else timer.TIMER_CHECK_SIZE
    size = look.source.size
    data = look.source.read(layout.size, 0)
    found = list(field_lines(layout, data, 0, ""))
    for line in found:
        if isinstance(line.value, int) and line.value < 0 and line.name != "master_flushed_offset":
            found = blame(found, line.offset, "below 0")
    if size < due:
        found = blame(found, max(size - 1, 0), f"the file has {size} bytes where {due} are due")
    yield from found
    if size > layout.size:
        end = min(size, due)
        zeros = look.source.zeros_until(layout.size, end) == end
        text = "zeros" if zeros else "not all zeros; never read"
        yield look.range(layout.size, end, "rest", end - layout.size, text, "fills the page")
    if size > due:
        problem = f"the file has {size} bytes where {due} are due"
        yield look.range(due, size, "excess", size - due, f"{size - due} bytes", "after the page", problem)


def mark(look: FileLook) -> Iterator[Line]:
    """Yield lines for FlintMQ's durable mark, and check it against the checkpoint."""
    data = look.source.read(flintmq_mark.MARK.size, 0)
    remarks = {}
    if len(data) == flintmq_mark.MARK.size:
        found = flintmq_mark.MARK.unpack(data)
        computed = zlib.crc32(data[: flintmq_mark.MARK.offset("checksum")])
        right = computed == found.checksum
        remarks = {
            "magic": Remark("", None if found.magic == flintmq_mark.MAGIC else "not the magic of a mark"),
            "version": Remark("", None if found.version == flintmq_mark.VERSION else "a version that is not known"),
            "checksum": Remark("as computed" if right else "", None if right else f"computed 0x{computed:X}"),
        }
        look.found.append(("counts", _counts(look, found)))
    lines = list(field_lines(flintmq_mark.MARK, data, 0, "", remarks))
    if look.source.size != flintmq_mark.MARK.size:
        why = f"the file has {look.source.size} bytes where {flintmq_mark.MARK.size} are due"
        lines = blame(lines, max(look.source.size - 1, 0), why)
    yield from lines
    if look.source.size > flintmq_mark.MARK.size:
        begin, size = flintmq_mark.MARK.size, look.source.size
        yield look.range(begin, size, "excess", size - begin, f"{size - begin} bytes", "after the mark")


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
    """Yield a line for each line of a text."""
    name = os.path.basename(look.source.path)
    if name in _TEXTS:
        look.found.append(("meaning", _TEXTS[name]))
    source, size, at, number = look.source, look.source.size, 0, 0
    shown = 0
    while at < size:
        data = source.read(MOST_TEXT, at)
        end = data.find(b"\n") + 1 or len(data)
        beyond = look.at is not None and at + end <= look.at
        if shown >= max(look.limit, 1) and not beyond:
            yield look.range(at, size, "rest", size - at, f"{size - at} bytes", "further lines")
            return
        if not beyond:
            if look.at is not None and at and not shown:
                yield look.range(0, at, "before", number, f"{number} lines", "earlier lines")
            whole = data[:end].removesuffix(b"\n")
            yield Line(
                at,
                end,
                "",
                f"line {number + 1}",
                text_of(whole),
                text_of(whole),
                "",
                None,
                data[: min(end, SHOWN_BYTES)],
            )
            shown += 1
        at, number = at + end, number + 1


def other(look: FileLook) -> Iterator[Line]:
    """Yield a line for a file that FlintMQ does not read."""
    if look.source.size:
        what = look.place.how.rpartition(": ")[2] if ": " in look.place.how else "another program"
        meaning = f"a file of {what}, which FlintMQ does not read"
        yield look.range(0, look.source.size, "bytes", None, f"{look.source.size} bytes", meaning)


def of(look: FileLook) -> Iterator[Line]:
    """Yield lines for a checkpoint, timer checkpoint or mark."""
    return mark(look) if look.place.kind == MARK else page(look)
