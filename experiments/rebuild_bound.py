"""What bounds P10: rebuild of queues and index, taken apart.

    python experiments/rebuild_bound.py STORE [ROUNDS]

Each case does what the one before it does and one thing more, on one thread, from the mapped log in the page cache.
The kernels work on arrays that are used again, so nothing of the store's objects, and no file, is in the first three.
Printed are the least wall clock and the least processor time of the rounds, in ms.

    validate   kernels.read.walk: the walk that rebuild needs, checksums of bodies included
    derive     and units and keys of each record, kernels.read.derive
    insert     and the units sorted by queue, and the keys put into the slots and items of an index file in memory
    write      and the bytes of all queue and index files, made before, written once into new files and synced
    rebuild    flintmq's own, with its second thread, by `access="map"`

`write` is the bound: what is left out of it is Python, the positions of units, file names and directories.
"""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import RESULTS, rebuild
from flintmq.format import index
from flintmq.kernels.read import derive as derive_kernel
from flintmq.kernels.read import group_units, walk
from flintmq.kernels.write import index_insert as index_kernel
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.walk import PIECE_BYTES, LogWalk
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules

SLOTS, WINDOW = 5_000_000, 1 << 17  # maxHashSlotNum; items of a window that is used again and again


class Kernels:
    """The kernels over a whole log, with arrays that are used again."""

    def __init__(self, store: str) -> None:
        self.log = LogFiles.discover([os.path.join(store, "commitlog")])
        self.dispatcher = Dispatcher(DispatchRules.of(StoreConfig()))
        for piece in islice(LogWalk(self.log), 8):  # makes the queues known
            for _ in self.dispatcher.blocks(piece):
                pass
        self.positions = memoryview(bytearray(8 << 16)).cast("q")
        self.memory = bytearray(index.file_size(SLOTS, WINDOW))

    def run(self, steps: int) -> int:
        """1: validate, 2: and derive, 3: and sort and insert. Gives the number of records."""
        records = 0
        for file in self.log.files:
            start, data = file.start, map_file(Path(file.path))  # anew, as rebuild maps it
            at, reason, time_ms = 0, walk.END, 0
            while reason == walk.END and at < len(data):
                count, at, reason, time_ms = walk.walk(
                    data, at, len(data), len(data), at + PIECE_BYTES, start, time_ms, 1 << 24, 3, self.positions
                )
                records += count
                if steps > 1:
                    self.derive(data, start, count, steps > 2)
        return records

    def derive(self, data: memoryview, base: int, count: int, insert: bool) -> None:
        d, given = self.dispatcher, self.dispatcher.given
        if not count:
            return
        done, why, made, keys = derive_kernel.derive(
            data, base, self.positions, 0, count, d.queues.slots, d.queues.table, d.queues.names, d.delays, d.flags,
            d.unit_queue, d.unit_offset, d.unit_time, d.unit_bytes, 0,
            given.key_hashes, given.key_offsets, given.key_times, 0,
        )  # fmt: skip
        assert (done, why) == (count, derive_kernel.DONE), "a log of plain records, as the bench has them"
        if insert:
            starts = array("q", bytes(8 * (len(d.queues.keys) + 1)))
            group_units.group(
                d.unit_queue, d.unit_offset, d.unit_time, d.unit_bytes, made, starts, given.offset, given.time,
                given.bytes,
            )  # fmt: skip
            self.memory[32:40] = bytes(8)  # the window begins anew; the slots stay
            index_kernel.insert(
                self.memory, SLOTS, 20_000_000, given.key_hashes, given.key_offsets, given.key_times, 0, keys, 0
            )


def map_file(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def written(folder: Path) -> list[bytes]:
    """What a rebuild wrote: the bytes of each file, the zeros at the end of slots and items left out."""
    return [path.read_bytes().rstrip(b"\0") for path in sorted(folder.rglob("*")) if path.is_file()]


def write_all(files: list[bytes], folder: Path) -> None:
    for number, data in enumerate(files):
        fd = os.open(folder / str(number), os.O_CREAT | os.O_WRONLY)
        view = memoryview(data)
        for at in range(0, len(view), 1 << 20):
            os.pwrite(fd, view[at : at + (1 << 20)], at)
        os.fdatasync(fd)
        os.close(fd)


def clocks() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    kernels = Kernels(store)
    scratch = Path(tempfile.mkdtemp(dir=os.path.dirname(os.path.abspath(store))))
    rebuild(store, str(scratch / "once"))
    files = written(scratch / "once")

    def write() -> None:
        kernels.run(3)
        write_all(files, scratch / "out")

    cases: dict[str, Callable[[], object]] = {
        "validate": lambda: kernels.run(1),
        "derive": lambda: kernels.run(2),
        "insert": lambda: kernels.run(3),
        "write": write,
        "rebuild": lambda: rebuild(store, str(scratch / "out"), access="map"),
    }
    least: dict[str, tuple[float, float]] = dict.fromkeys(cases, (9e9, 9e9))
    for turn in range(rounds + 1):
        for name, case in cases.items():
            shutil.rmtree(scratch / "out", ignore_errors=True)
            (scratch / "out").mkdir()
            wall, cpu = clocks()
            case()
            wall, cpu = clocks()[0] - wall, clocks()[1] - cpu
            if turn:
                least[name] = min(least[name][0], wall), min(least[name][1], cpu)
    shutil.rmtree(scratch)
    records = kernels.run(1)
    print(f"{records} records, {sum(map(len, files)) >> 20} MiB made, of {', '.join(RESULTS)}")
    for name, (wall, cpu) in least.items():
        print(
            f"{name:9} {wall * 1e3:6.1f} ms wall, {cpu * 1e3:6.1f} ms processor, {cpu / records * 1e9:5.0f} ns a record"
        )


if __name__ == "__main__":
    main()
