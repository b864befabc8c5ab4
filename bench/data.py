"""The stores that are measured: made by write_store in a scratch directory, kept in the page cache."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

from harness import Context

from flintmq import Message, MessageStore
from flintmq.testing import Written, write_store

# Bytes of a record beyond its body, with write_store's own topics, tags and one key.
OVERHEAD = 176
SIZES = {"100B": 100, "1KB": 1024}
TOPICS = ("Orders", "Payments", "Shipments", "Events")


def store(context: Context, name: str, body_bytes: int, mib: int | None = None, **options: Any) -> Written:
    """A store with a log of about this many MiB, random bodies; made at the first call."""
    if name not in context.stores:
        log_bytes = (mib or context.mib) << 20
        path = context.scratch / name
        context.say(f"  making {name}: {log_bytes >> 20} MiB of log with {body_bytes} B bodies")
        context.stores[name] = write_store(
            path,
            max(1000, log_bytes // (body_bytes + OVERHEAD)),
            body_bytes=body_bytes,
            bodies="random",
            **options,
        )
    found: Written = context.stores[name]
    warm(found)
    return found


def sized(context: Context, size: str) -> Written:
    """The store of the reading lines with bodies of "100B" or "1KB"."""
    return store(context, f"read-{size}", SIZES[size])


def orders(context: Context) -> tuple[Path, int]:
    """A store of JSON messages, as many as 1,000 a MiB of `mib`: four topics with two queues each; their number."""
    count, path = context.mib * 1000, context.scratch / "orders"
    if not path.exists():
        context.say(f"  making orders: {count} messages of JSON")
        with MessageStore(path, unique_keys=False) as opened:
            for n in range(count):
                body = b'{"id": %d, "customer": "c%06d", "amount": %d.5, "note": "a \\"plain\\" note"}' % (
                    n,
                    n % 9973,
                    n,
                )
                opened.put(Message(TOPICS[n % 4], body, "TagA", keys=f"k{n}", queue_id=n // 4 % 2))
    return path, count


def files(written: Written) -> list[tuple[Path, int]]:
    """Each log file, and how many bytes of it hold records."""
    found = []
    for file in sorted((written.path / "commitlog").iterdir()):
        used = min(file.stat().st_size, written.max_offset - int(file.name))
        if used > 0:
            found.append((file, used))
    return found


def warm(written: Written) -> None:
    """Read the log once, so that it lies in the page cache."""
    buffer = bytearray(4 << 20)
    for file, used in files(written):
        fd = os.open(file, os.O_RDONLY)
        try:
            for at in range(0, used, len(buffer)):
                os.preadv(fd, [buffer], at)
        finally:
            os.close(fd)


class Memcpy:
    """Copies the same bytes from mapped files into memory that was touched before: the measure of the reading lines.

    The files are mapped each time, as a scan with access="map" does: filling the page tables is a fifth of what either
    takes.
    """

    def __init__(self, written: Written) -> None:
        self.files = files(written)
        self.target = memoryview(bytearray(max(used for _, used in self.files)))
        self()

    def __call__(self) -> None:
        for file, used in self.files:
            fd = os.open(file, os.O_RDONLY)
            self.target[:used] = memoryview(mmap.mmap(fd, file.stat().st_size, prot=mmap.PROT_READ))[:used]
            os.close(fd)
