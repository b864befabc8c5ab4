"""What bounds P11: all columns of a log against memcpy of it, with everything left out that could be left out.

    python experiments/columns_bound.py STORE [ROUNDS]

Three cases take turns; printed are medians in ns a record, and ratios to memcpy of the log:

    validate    the walk alone, from the mapped log
    bound       the walk, and the bytes of all columns written once into fresh batches, copied from one ready batch that
                stays in the cache: no byte of a record is looked at a second time, nothing is parsed or converted
    scan        scan_arrow, all columns
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable

import pyarrow as pa

from flintmq import scan_arrow
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import LogWalk


def ready(store: str) -> tuple[memoryview, float]:
    """The bytes of all columns of one batch, and how many a record takes."""
    batch = next(iter(scan_arrow(store, access="map")))
    parts = []
    for column in batch.columns:
        parts += [buffer for buffer in column.buffers() if buffer is not None]
    # Slices of one allocation: take what the columns use, not what the allocation holds.
    used = min(batch.nbytes, parts[0].parent.size if parts[0].parent else batch.nbytes)
    return memoryview(bytes(memoryview(parts[0].parent or parts[0])[:used])), batch.nbytes / batch.num_rows


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    log = LogFiles.discover([os.path.join(store, "commitlog")])
    template, row_bytes = ready(store)
    maps = []
    for file in log.files:
        with open(file.path, "rb") as opened:
            maps.append(memoryview(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)))
    records, used = 0, 0
    for piece in LogWalk(log, access="map"):
        records, used = records + piece.count, piece.base + piece.end - log.min_offset
    target = memoryview(bytearray(used))

    def memcpy() -> None:
        left = used
        for view in maps:
            part = min(left, len(view))
            target[:part] = view[:part]
            left -= part

    def validate() -> None:
        for _ in LogWalk(log, access="map"):
            pass

    def bound() -> None:
        room = at = 0
        batch = memoryview(b"")
        for piece in LogWalk(log, access="map"):
            left = int(piece.count * row_bytes)
            while left:
                if at == room:
                    batch, room, at = memoryview(pa.allocate_buffer(len(template))).cast("B"), len(template), 0
                part = min(left, room - at)
                batch[at : at + part] = template[at : at + part]
                at, left = at + part, left - part

    def scan() -> None:
        for _ in scan_arrow(store, access="map"):
            pass

    cases: dict[str, Callable[[], None]] = {"memcpy": memcpy, "validate": validate, "bound": bound, "scan": scan}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            begin = time.perf_counter()
            case()
            if turn:
                times[name].append(time.perf_counter() - begin)
    base = statistics.median(times["memcpy"])
    print(f"{records} records, {used / records:.0f} bytes of log and {row_bytes:.0f} bytes of columns each")
    for name, found in times.items():
        middle = statistics.median(found)
        print(f"{name:9} {middle / records * 1e9:6.1f} ns a record, {base / middle:.2f} of memcpy")


if __name__ == "__main__":
    main()
