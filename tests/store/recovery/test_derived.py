"""store/recovery/derived: queues and index made again beside the reading of the log are those that were there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from flintmq import Message
from flintmq.errors import CorruptStoreError
from flintmq.format import checkpoint, consume_queue, flintmq_mark
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules, UnitBlock
from flintmq.store.index.index_service import RecoveredIndex
from flintmq.store.recovery import derived as module
from tests.support import crashed
from tests.support.engine import open_small, tree
from tests.support.small_logs import FILE_SIZE, SIZE, log_of, make


@pytest.mark.parametrize("least", [0, 1 << 60], ids=["on two threads", "on one"])
@pytest.mark.parametrize("lost", [("consumequeue", "index"), ("consumequeue/T0",), ("index",)], ids="+".join)
def test_what_was_lost_is_made_again_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, lost: tuple[str, ...]
):
    monkeypatch.setattr(module, "BESIDE_BYTES", least)
    monkeypatch.setattr("flintmq.store.dispatch.dispatcher.ENOUGH_UNITS", 16)  # many blocks
    with open_small(tmp_path) as store:
        for n in range(300):
            store.put(Message(f"T{n % 3}", bytes(200), tags="paid", keys=f"k{n}", queue_id=n % 2))
        store.wait_dispatched()
    kept = tree(tmp_path, "consumequeue", "index")
    assert len(kept) > 10
    for name in lost:
        shutil.rmtree(tmp_path / name)
    (tmp_path / "abort").write_bytes(b"1")
    open_small(tmp_path).close()
    assert tree(tmp_path, "consumequeue", "index") == kept


BEGIN = FILE_SIZE  # of a log whose first file has expired
END = BEGIN + 6 * SIZE


def a_log(root: Path) -> LogFiles:
    """Six records, queue offsets 10 to 15."""
    data = b"".join(make(BEGIN + n * SIZE, 1000 + n, queue_offset=10 + n) for n in range(6))
    return log_of(root, data, first=BEGIN)


def at(number: int) -> int:
    return BEGIN + number * SIZE


class Noted:
    """Stands for queues and what loads them, and notes what they are given."""

    def __init__(self, loaded: int, refuses: int = 0) -> None:
        self.loaded, self.refuses = loaded, refuses
        self.taken: list[int] = []
        self.bound: int | None = None  # how many units were there by the end of loading
        self.asked: tuple[Any, ...] = ()
        self.offsets: dict[tuple[bytes, int], int] = {}

    def loader(self, *asked: Any, deletions: Any, unsure: bool) -> "Noted":
        assert deletions == {}
        self.asked, self.unsure, self.rewound = asked, unsure, {}
        return self

    def load(self, log_end: int) -> int:
        self.end = log_end
        return self.loaded

    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        return self.offsets

    def replay_from(self, block: UnitBlock, _: Dispatcher, met: set[int], rewound: dict[str, Any]) -> bool:
        assert rewound is self.rewound
        self.refuses -= 1
        return self.refuses >= 0

    def take(self, block: UnitBlock, _: Dispatcher) -> None:
        self.taken += [n - 10 for _, first, last in block.queues for n in block.offsets[first:last]]

    def finish(self) -> None:
        self.bound = len(self.taken)


class Items:
    """Stands for an index."""

    def __init__(self, **found: Any) -> None:
        self.found = RecoveredIndex(at(5), 0, None, marked=False, had_files=True)._replace(**found)
        self.complete = False
        self.items: list[int] = []
        self.times: list[int] = []
        self.recovered: tuple[int, int] | None = None  # the log's end and begin

    def recover(self, log_end: int, small: Any, log_begin: int) -> RecoveredIndex:
        self.recovered = log_end, log_begin
        return self.found

    def confirm_complete(self) -> None:
        self.complete = True

    def insert(self, hashes: Any, offsets: Any, times: Any, count: int) -> None:
        assert len(hashes) >= count and list(times[:count]) == [1000 + (n - BEGIN) // SIZE for n in offsets[:count]]
        self.items += offsets[:count]

    def begin(self, time: int) -> None:
        self.times.append(time)


class Small:
    """Stands for the small files, and notes how far the mark covers units."""

    def __init__(self, noted: list[int]) -> None:
        self.mark, self.noted = self, noted

    def with_units_below(self, position: int) -> int:
        return position

    def retreat(self, position: int) -> None:
        self.noted.append(position)


def load_derived(
    files: LogFiles,
    queues: Noted,
    index: Items | None,
    dispatcher: Dispatcher,
    end: int,
    begin: int,
    lowered: list[int] | None = None,
    report: Callable[[str], None] = lambda text: None,
    **more: Any,
) -> int:
    small = Small([] if lowered is None else lowered)
    with patch.object(module, "QueueLoader", Noted.loader):
        return module.DerivedLoader(files, queues, index, dispatcher, small, report).load(end, begin, **more)


@pytest.mark.parametrize(
    ("queues_to", "rewrite_from", "lost", "keys_to", "start"),
    [
        (700, 900, False, None, 700),
        (900, 700, False, None, 700),
        (900, 700, True, None, 500),  # a queue that lost its files shows no end
        (700, 900, False, 800, 700),
        (700, 900, False, 600, 600),
        (700, 900, False, 500, 500),
        (700, 900, False, 100, 500),  # keys of records that have expired
        (700, 900, False, -1, 500),
        (700, 900, True, 600, 500),
        (500, 900, False, 600, 500),
    ],
)
def test_dispatch_starts_where_units_or_keys_are_missing_first(
    queues_to: int, rewrite_from: int, lost: bool, keys_to: int | None, start: int
):
    assert module.dispatch_start(500, queues_to, rewrite_from, lost=lost, keys_to=keys_to) == start


def test_dispatch_does_not_start_before_the_log():
    with pytest.raises(AssertionError):
        module.dispatch_start(500, 499, 900, lost=False, keys_to=None)


@pytest.mark.parametrize(
    ("clean", "told", "first"),
    [
        (True, {}, 4),  # a clean stop leaves an index that says all there is
        (True, {"end_offset": at(1)}, 4),
        (True, {"had_files": False, "end_offset": at(1)}, 2),
        (True, {"removed_from": at(2)}, 2),
        (True, {"removed_from": at(5)}, 4),
        (True, {"removed_from": 0}, 0),
        (False, {}, 4),
        (False, {"end_offset": at(1)}, 2),  # behind the last record that is in it
        (False, {"end_offset": END}, 4),  # no record there
        (False, {"end_offset": 0}, 0),
        (False, {"end_offset": BEGIN - 1}, 0),
        (False, {"end_offset": BEGIN}, 1),
        (False, {"end_offset": 0, "known_to": at(3)}, 3),  # of which the mark knows more
        (False, {"end_offset": at(2), "known_to": at(1)}, 3),
        (False, {"end_offset": at(1), "removed_from": 0}, 2),
        (None, {}, 4),  # no index
    ],
)
def test_records_are_dispatched_again_from_where_queues_or_index_lack_them(
    tmp_path: Path, clean: bool | None, told: dict[str, Any], first: int
):
    files, index = a_log(tmp_path), None if clean is None else Items(**told)
    for loaded, begin in ((at(4), at(5)), (at(5), at(4))):
        queues, lowered = Noted(loaded), []
        if index is not None:
            index.items.clear(), index.times.clear()
        dispatcher = Dispatcher(DispatchRules(()))
        count = load_derived(files, queues, index, dispatcher, END, begin, lowered, clean=bool(clean))
        assert (count, queues.taken) == (6 - first, [*range(first, 6)]) and queues.bound == 6 - first
        assert (
            lowered == [loaded] and (queues.asked[0], queues.end) == (BEGIN, END) and queues.unsure is not bool(clean)
        )
        if index is not None:
            assert index.items == [at(n) for n in range(first, 6)] and index.times == [1005]
            assert index.complete is (not clean or not index.found.had_files) and index.recovered == (END, BEGIN)


def test_what_the_mark_says_of_the_index_makes_it_complete(tmp_path: Path):
    index = Items(marked=True)
    rules = Dispatcher(DispatchRules(()))
    load_derived(a_log(tmp_path), Noted(END), index, rules, END, END, clean=True)
    assert index.complete is True


def test_queues_that_lost_files_or_more_than_was_read_are_made_again_from_the_log_s_begin(tmp_path: Path):
    files, rules = a_log(tmp_path), Dispatcher(DispatchRules(()))
    queues, lowered, told = Noted(at(4)), [], []
    queues.offsets = {(b"T", 0): 15, (b"A", 1): 3}
    ends = {(b"T", 0): 16, (b"A", 1): 3, (b"B", 2): 1, (b"C", 3): 1, (b"D", 4): 1}
    more: dict[str, Any] = {"lowered": lowered, "report": told.append}
    assert load_derived(files, queues, None, rules, END, at(4), ends=ends, **more) == 6
    assert lowered == [BEGIN]
    assert told == ["4 queues lost files (T/0, B/2, C/3); their units are rebuilt from the log"]
    queues, lowered[:] = Noted(at(4), refuses=1), []
    assert load_derived(files, queues, None, rules, END, at(5), ends={}, **more) == 6
    assert (lowered, queues.taken, len(told)) == ([at(4), BEGIN], [*range(6)], 1)
    queues = Noted(BEGIN, refuses=9)
    assert load_derived(files, queues, None, rules, END, END) == 6, "from the begin on nothing is missing"
    queues, index = Noted(at(4), refuses=1), Items()
    assert load_derived(files, queues, index, rules, END, END, clean=True) == 6
    assert index.items == [at(n) for n in range(6)], "the index gets what the queues get"


@pytest.mark.parametrize(("compared", "checks"), [(0, False), (at(4), False), (at(4) + 1, True), (END, True)])
def test_checksums_are_compared_where_nobody_did_so_before(tmp_path: Path, compared: int, checks: bool):
    data = bytearray((tmp_path / a_log(tmp_path).files[0].path).read_bytes())
    data[5 * SIZE + 89] ^= 1  # in the last one's body
    files = log_of(tmp_path, bytes(data), first=BEGIN)
    queues, rules = Noted(at(4)), Dispatcher(DispatchRules(()))
    if checks:
        with pytest.raises(CorruptStoreError, match="CRC"):
            load_derived(files, queues, None, rules, END, END, compared=compared)
    else:
        assert load_derived(files, queues, None, rules, END, END, compared=compared) == 2


@pytest.mark.parametrize(("compared", "checks"), [(BEGIN, False), (BEGIN + 1, True)])
def test_a_second_pass_from_the_begin_compares_checksums_too(tmp_path: Path, compared: int, checks: bool):
    data = bytearray((tmp_path / a_log(tmp_path).files[0].path).read_bytes())
    data[SIZE + 89] ^= 1  # in the second one's body, which the first pass does not read
    files = log_of(tmp_path, bytes(data), first=BEGIN)
    queues, rules = Noted(at(4), refuses=1), Dispatcher(DispatchRules(()))
    if checks:
        with pytest.raises(CorruptStoreError, match="CRC"):
            load_derived(files, queues, None, rules, END, END, compared=compared)
    else:
        assert load_derived(files, queues, None, rules, END, END, compared=compared) == 6


def test_what_it_is_not_told_counts_as_an_unclean_stop_and_no_checksums_compared(tmp_path: Path):
    rules = Dispatcher(DispatchRules(()))
    data = bytearray(make(0, 1000, queue_offset=10))
    data[89] ^= 1  # in its body
    assert load_derived(log_of(tmp_path / "log", bytes(data)), Noted(0), None, rules, SIZE, 0) == 1
    index = Items(end_offset=at(1))
    assert load_derived(a_log(tmp_path), Noted(at(4)), index, rules, END, END) == 4, "behind the last key"
    assert index.complete is True


@pytest.mark.parametrize("first", [3, 4])
def test_a_thread_beside_where_there_is_enough_to_read_and_blocks_across_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
):
    besides: list[bool] = []
    each_block = module.each_block

    def noted(blocks: Any, take: Any, beside: bool) -> bool:
        besides.append(beside)
        return each_block(blocks, take, beside=beside)

    monkeypatch.setattr(module, "each_block", noted)
    monkeypatch.setattr(module, "BESIDE_BYTES", 3 * SIZE)
    monkeypatch.setattr(module, "PIECE_BYTES", SIZE)
    queues, index = Noted(at(first)), Items()
    load_derived(a_log(tmp_path), queues, index, Dispatcher(DispatchRules(())), END, END, clean=True)
    assert besides == [first == 3] and queues.taken == [*range(first, 6)]
    assert index.times == [1005], "one block, though of several pieces"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((b"T", 0, 12, at(2)), True),
        ((b"T", 0, 13, at(2)), False),
        ((b"T", 1, 12, at(2)), False),
        ((b"U", 0, 12, at(2)), False),
        ((b"T", 0, 12, at(2) + 1), False),
        ((b"T", 0, 15, at(5)), True),
        ((b"T", 0, 16, END), False),
    ],
)
def test_whether_a_unit_s_record_stands_where_it_says(tmp_path: Path, asked: tuple[Any, ...], answer: bool):
    queues = Noted(END)
    files, rules = a_log(tmp_path), Dispatcher(DispatchRules(()))
    load_derived(files, queues, None, rules, END, END)
    assert queues.asked[1](*asked) is answer
    load_derived(files, queues, None, rules, at(5), at(5))  # its last record is behind the end
    assert queues.asked[1](*asked) is (answer and asked[3] < at(5))


def test_torn_units_above_the_mark_do_not_hide_what_stands_below_it(tmp_path: Path):
    """Found by the explorer, seed 47601: retention had deleted the first log file, and the search for the queue's first
    message met a unit that a power cut had torn and that led to there."""
    kept = crashed.make(tmp_path, count=20, size=600)
    first, marked, torn = 5, kept[9].physical_offset, 10
    assert kept[first].physical_offset == crashed.FILE_SIZE
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    time = kept[9].store_timestamp
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(time, time)))
    (tmp_path / "flintmq.mark").write_bytes(flintmq_mark.encode(marked, time, dispatched_offset=marked))
    (tmp_path / "abort").write_text("1\nanother-boot")
    path, place = tmp_path / "consumequeue" / "T" / "0" / f"{torn // 10 * 200:020d}", torn % 10 * 20
    unit = consume_queue.UNIT.pack(consume_queue.Unit(0, kept[torn].size, 0))
    data = path.read_bytes()
    path.write_bytes(data[:place] + unit + data[place + 20 :])
    with open_small(tmp_path, messageIndexEnable=False) as store:  # its keys would have the whole log read
        assert store.get("T", 0, first).messages[0].queue_offset == first
        assert store._parts.queues.find(b"T", 0).bounds(0) == (first, 20)
    assert path.read_bytes() == data
