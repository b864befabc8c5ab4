"""Which index files are known to be on disk as a whole, also where the clock was set back while they were filled."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import index
from flintmq.format.flintmq_mark import Indexed
from flintmq.storage.filesystem import REAL
from flintmq.store.index.index_service import known_whole
from flintmq.store.index.reader import discover
from flintmq.testing import damage
from tests.store.index.test_durable_point import NEVER, left, marked
from tests.support.crashed import BEGIN, Clock
from tests.support.engine import KEYS, check_derived, open_small, put_all, records
from tests.support.faults import unclean

CONFIG = StoreConfig.from_keys(KEYS)
FULL = 32
Times: TypeAlias = "tuple[int, int, int]"  # store times of the first and the last item, count
SOUND: list[Times] = [(10, 20, FULL), (20, 30, FULL), (31, 40, FULL), (40, 45, 7)]


def header(begin: int, end: int, count: int) -> index.Header:
    return index.Header(begin, end, 0, 100, 8, count)


def whole(root: Path, files: list[Times], on_disk: int, named: int | None = None) -> int:
    """How many of these files are known to be whole; `named` is the number of the one that the mark names."""
    (root / "index").mkdir()
    for number, times in enumerate(files):
        data = index.HEADER.pack(header(*times))
        path = root / "index" / f"{20231114221320000 + number}"
        path.write_bytes(data.ljust(index.file_size(8, 32), b"\0"))
    indexed = None if named is None else Indexed(100, 20231114221320000 + named, header(0, 0, 1))
    return known_whole(discover(str(root), CONFIG, REAL), on_disk, indexed)


@pytest.mark.parametrize(
    ("files", "on_disk", "known"),
    [
        (SOUND, 0, 0),
        (SOUND, 20, 0),  # the second one may end in this millisecond, too
        (SOUND, 21, 1),
        (SOUND, 31, 2),
        (SOUND, 1000, 3),  # the last one is not full
        ([*SOUND[:3], (40, 45, FULL)], 1000, 4),
        ([(10, 20, FULL), (20, 30, 7), (31, 40, FULL)], 1000, 3),  # made when files were shorter
        ([(0, 0, 0)], 1000, 0),
        ([(10, 20, FULL), (20, 5, FULL), (31, 40, FULL)], 1000, 1),  # the clock was set back in the second one
        ([(10, 20, FULL), (19, 30, FULL), (31, 40, FULL)], 1000, 1),  # between the first and the second one
        ([(10, 9, FULL), (11, 12, FULL)], 1000, 0),
        ([], 1000, 0),
    ],
)
def test_times_tell_which_files_were_synced_as_long_as_they_go_up(
    tmp_path: Path, files: list[Times], on_disk: int, known: int
):
    assert whole(tmp_path, files, on_disk) == known


@pytest.mark.parametrize(("named", "known"), [(0, 0), (1, 1), (3, 3), (4, 0), (9, 0)])
def test_the_mark_tells_it_whatever_the_times_say(tmp_path: Path, named: int, known: int):
    assert whole(tmp_path, SOUND, 31, named) == known


def set_back(root: Path, to: Path, clock: Clock, stop: str) -> tuple[Path, Path]:
    """A store whose second index file was filled after the clock was set back, as a stop leaves it; its two first index
    files. The mark and the checkpoint are older than that file's items."""
    with open_small(root, clock, **NEVER) as store:
        put_all(store, 40)
        marked(store)
        clock.clock = BEGIN - 10_000_000
        put_all(store, 40, first=40)
        left(store, to, stop)
    first, second, _ = sorted((to / "index").iterdir())
    ends = [index.HEADER.unpack(path.read_bytes()).end_timestamp for path in (first, second)]
    assert ends[1] < ends[0]
    return first, second


def test_a_file_that_was_filled_after_the_clock_was_set_back_is_not_taken_for_one_that_was_synced(tmp_path: Path):
    """Found by the explorer, seed 47597: it was full, and ended before a file that was synced long ago."""
    clock, copy = Clock(), tmp_path / "copy"
    _, second = set_back(tmp_path / "s", copy, clock, "power cut")
    damage.zero(second, index.item_position(20, 8), 200)  # items that never arrived
    with open_small(copy, clock) as store:
        assert store.wait_dispatched(60) and len(records(copy)) == 80
        assert [len(store.query("T", f"k{n}")) for n in range(80)] == [1] * 80
    check_derived(copy)


def test_after_a_kill_such_a_file_is_synced_before_the_mark_goes_on(tmp_path: Path):
    clock, copy = Clock(), tmp_path / "copy"
    first, second = set_back(tmp_path / "s", copy, clock, "kill")
    with open_small(copy, clock, **NEVER) as store:
        put_all(store, 5, first=80)
        marked(store)
        assert [clock.count("sync", str(path)) for path in (first, second)] == [0, 1]


@pytest.mark.parametrize("when", ["at a checkpoint", "at the close"])
def test_what_could_not_be_synced_is_asked_of_the_disk_by_the_next_start(tmp_path: Path, when: str):
    """Found by the explorer, seed 1073742223: the page cache showed the items, no later sync wrote them, and a power
    cut took what the mark then counted."""
    disk = Clock()
    with unclean(), open_small(tmp_path, disk, **NEVER) as store:
        put_all(store, 10)
        marked(store)
        disk.refuse("sync", "index", times=1)
        put_all(store, 10, first=10)
        assert store.wait_dispatched(60)
        if when == "at a checkpoint":
            store.flush()
            with pytest.raises(OSError, match="Input/output"):
                store._parts.index.mark.settle(store._parts.dispatch.reached, store._parts.log.end, closing=True)
            store._parts.failure.set("as the checkpoint does")
    [newest] = (tmp_path / "index").iterdir()
    assert disk.refused == [("sync", str(newest))]
    disk.calls.clear()
    with open_small(tmp_path, disk) as store:
        assert any("10 records were dispatched again" in line for line in store.recovered.decisions)
        asked = {path for call, path in disk.calls if call == "drop_cache"}
        assert asked >= {disk.refused[0][1], str(tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}")}
    check_derived(tmp_path)
