"""The queues of a running store: units at their offsets, ends checked against the log, nothing behind them."""

import os
import random
import shutil
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format.batch_queue import BatchUnit
from flintmq.format.consume_queue import PRE_BLANK, UNIT, Unit
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.live_queue import RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.load_queues import QueueLoader, RecordIsAt
from flintmq.store.consumequeue.reader import FIRST_BYTES
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules, UnitBlock
from flintmq.store.layout.queue_name import PLAIN, Queue, QueueName
from flintmq.store.message_store import MessageStore
from tests.support.engine import KEYS, open_small
from tests.support.faults import Faulty
from tests.support.threads import at_once

CONFIG = StoreConfig.from_keys({"mappedFileSizeConsumeQueue": 100})  # five units a file
PLACE = (b"T", 0)
EMPTY = Unit(0, 0, 0)


def unit(offset: int) -> Unit:
    """The unit at a queue offset: records of 50 bytes, one behind the other from 1000 on."""
    return Unit(1000 + 50 * offset, 50, offset)


END = 1 << 40


def stands(topic: bytes, queue_id: int, offset: int, physical_offset: int) -> bool:
    """A log where record n of the one queue stands at 1000 + 50 n, and nothing else."""
    return (topic, queue_id) == PLACE and physical_offset == 1000 + 50 * offset


def load(queues: ConsumeQueues, log_begin: int, log_end: int, is_at: RecordIsAt, *, unsure: bool = False) -> int:
    return QueueLoader(queues, log_begin, is_at, unsure=unsure).load(log_end)


class Setup:
    """Queues in a directory, and a block made by hand."""

    def __init__(self, root: Path) -> None:
        self.root, self.effects, self.report = root, Faulty(), Report()
        self.queues = ConsumeQueues(str(root), CONFIG, self.effects, self.report)
        self.dispatcher = Dispatcher(DispatchRules.of(CONFIG))

    def block(self, *offsets: int) -> UnitBlock:
        """Units of these queue offsets, for queue 0 of T."""
        number = self.dispatcher.queues.number(Queue(PLAIN, *PLACE))
        data = b"".join(UNIT.pack(unit(offset)) for offset in offsets)
        count = len(offsets)
        block = UnitBlock.__new__(UnitBlock)
        values = {
            "queues": [(number, 0, count)],
            "offsets": memoryview(array("q", offsets)),
            "times": array("q", [1] * count),
            "units": memoryview(data),
            "batch_units": [],
        }
        for name, value in values.items():
            object.__setattr__(block, name, value)
        return block

    def take(self, *offsets: int) -> None:
        self.queues.take(self.block(*offsets), self.dispatcher)
        self.queues.check_invariants()

    def replay(self, *offsets: int, rewound: dict[str, RunningQueue] | None = None) -> None:
        """As recovery does it."""
        block = self.block(*offsets)
        self.queues.replay_from(block, self.dispatcher, set(), {} if rewound is None else rewound)
        self.queues.check_invariants()
        self.queues.take(block, self.dispatcher)
        self.queues.check_invariants()


@pytest.fixture
def s(tmp_path: Path):
    made = Setup(tmp_path)
    yield made
    made.queues.close()


def files(root: Path) -> dict[int, list[Unit]]:
    """First queue offset of each file -> its units."""
    folder = root / "consumequeue" / "T" / "0"
    return {int(path.name) // 20: list(UNIT.iter(path.read_bytes())) for path in sorted(folder.iterdir())}


def write(root: Path, *contents: list[Unit], first: int = 0) -> None:
    """Queue files by hand, from unit `first` on."""
    folder = root / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    for number, found in enumerate(contents):
        data = b"".join(UNIT.pack(u) for u in found).ljust(100, b"\0")
        (folder / f"{(first + 5 * number) * 20:020d}").write_bytes(data)


def test_units_are_written_at_their_offsets_and_read_back(s: Setup, tmp_path: Path):
    s.take(0, 1, 2)
    s.take(*range(3, 12))
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset) == (0, 12)
    assert s.queues.next_offsets() == {PLACE: 12} and s.queues.topics() == ["T"]
    assert queue.units(0, 3) == [unit(0), unit(1), unit(2)]
    assert queue.units(3, 99) == [unit(3), unit(4)], "never across a file"
    assert queue.units(10, 99) == [unit(10), unit(11)], "never behind the end"
    assert queue.units(12, 1) == queue.units(0, 0) == []
    s.queues.close()
    assert files(tmp_path)[10] == [unit(10), unit(11), EMPTY, EMPTY, EMPTY]


def test_readers_are_told_of_arrivals_after_the_units_are_there(s: Setup, tmp_path: Path):
    seen = []
    s.queues.changed.notify_all = lambda: seen.append((s.queues.arrivals, files(tmp_path)[0][0]))
    s.take(0)
    assert seen == [(1, unit(0))]


def test_a_queue_goes_on_where_its_units_end(s: Setup, tmp_path: Path):
    write(tmp_path, [unit(n) for n in range(5)], [unit(5), unit(6)])
    assert load(s.queues, 0, END, stands) == 1000 + 50 * 7, "behind the record of the last unit"
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset, queue.writer.next) == (0, 7, 7)
    s.take(7, 8)
    s.queues.close()
    assert files(tmp_path) == {0: [unit(n) for n in range(5)], 5: [unit(5), unit(6), unit(7), unit(8), EMPTY]}


def test_units_of_records_that_are_not_there_are_cut_and_zeroed(s: Setup, tmp_path: Path):
    ghosts = [unit(6)._replace(physical_offset=9999), Unit(5000, 50, 1)]
    write(tmp_path, [unit(n) for n in range(5)], [unit(5), *ghosts], [Unit(6000, 50, 1)])
    assert load(s.queues, 0, END, stands) <= 1000 + 50 * 6
    assert s.queues.next_offsets() == {PLACE: 6}
    folder = tmp_path / "consumequeue" / "T" / "0"
    cut = [(name, os.path.basename(path)) for name, path in s.effects.calls if path.startswith(str(folder))]
    assert [one for one in cut if one[0] != "open_write"] == [
        ("pwrite", f"{100:020d}"), ("sync", f"{100:020d}"), ("unlink", f"{200:020d}"), ("sync_dir", "0"),
    ], "on disk before the log goes on: a unit that comes back would pass for one whose record has expired"  # fmt: skip
    s.queues.close()
    assert files(tmp_path) == {0: [unit(n) for n in range(5)], 5: [unit(5), EMPTY, EMPTY, EMPTY, EMPTY]}


def test_d12_an_empty_last_file_makes_no_phantom_unit(s: Setup, tmp_path: Path):
    write(tmp_path, [unit(n) for n in range(5)], [])
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    assert s.queues.next_offsets() == {PLACE: 5}
    s.take(5)
    s.queues.close()
    assert files(tmp_path)[5] == [unit(5), EMPTY, EMPTY, EMPTY, EMPTY]


def test_d12_a_queue_of_one_empty_file_begins_at_zero(s: Setup, tmp_path: Path):
    write(tmp_path, [])
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    assert s.queues.next_offsets().get(PLACE, 0) == 0
    s.take(0)
    assert s.queues.find(*PLACE).units(0, 5) == [unit(0)]


def test_a_kill_amid_the_creation_of_a_file_leaves_one_that_gets_its_size(s: Setup, tmp_path: Path):
    """Upstream refuses to start with a queue file of another size."""
    write(tmp_path, [unit(n) for n in range(5)])
    (tmp_path / "consumequeue" / "T" / "0" / f"{100:020d}").touch()
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    s.take(5)
    s.queues.close()
    assert files(tmp_path)[5] == [unit(5), EMPTY, EMPTY, EMPTY, EMPTY]


def test_d6_the_min_of_a_queue_that_began_late_survives_a_restart(tmp_path: Path):
    s = Setup(tmp_path)
    s.take(12, 13)
    assert s.queues.find(*PLACE).min_offset == 12
    s.queues.close()
    assert files(tmp_path) == {10: [PRE_BLANK, PRE_BLANK, unit(12), unit(13), EMPTY]}
    s = Setup(tmp_path)
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset) == (12, 14)
    s.queues.close()


def test_units_of_expired_records_stay_and_the_min_is_behind_them(tmp_path: Path):
    write(tmp_path, [unit(n) for n in range(5)], [unit(5), unit(6)])
    s = Setup(tmp_path)
    load(s.queues, 1000 + 50 * 3, END, stands)
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset) == (3, 7)
    s.queues.close()
    s = Setup(tmp_path)
    load(s.queues, 1000 + 50 * 7, END, lambda *_: False)
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset) == (7, 7), "all expired: the offsets are kept"
    s.queues.close()


@pytest.mark.parametrize("behind", [[], [EMPTY], [unit(4), unit(5)]])
@pytest.mark.parametrize("whole", [[unit(0), unit(1), unit(2)], [unit(0), unit(1), EMPTY]])
def test_a_unit_torn_by_a_power_cut_does_not_pass_for_an_expired_one(
    tmp_path: Path, whole: list[Unit], behind: list[Unit]
):
    """Found by the crash explorer: a queue whose first records retention took ended in a unit that led nowhere."""
    torn = Unit(0, 50, 3)  # the first eight bytes of it did not arrive; its record did not either
    write(tmp_path, (whole + [torn] + behind)[:5])
    queues = Setup(tmp_path).queues
    log = lambda *place: place[-1] < 1150 and stands(*place)  # noqa: E731  it holds the record of unit 2
    load(queues, 1100, 1150, log, unsure=True)
    found = queues.find(*PLACE)
    there = sum(u.is_written for u in whole)
    assert found is not None and found.max_offset == there
    assert files(tmp_path)[0] == whole[:there] + [EMPTY] * (5 - there)


def test_d5_a_hole_is_filled_by_what_recovery_dispatches_again(s: Setup, tmp_path: Path):
    write(tmp_path, [unit(0), unit(1), EMPTY, EMPTY, unit(4)])
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    s.replay(*range(7))
    assert s.queues.next_offsets() == {PLACE: 7}
    s.queues.close()
    assert files(tmp_path) == {0: [unit(n) for n in range(5)], 5: [unit(5), unit(6), EMPTY, EMPTY, EMPTY]}


def test_d5_a_hole_that_the_log_cannot_fill_misaligns_nothing(s: Setup, tmp_path: Path):
    s.take(0, 1)
    s.take(4, 5)
    s.queues.close()
    assert files(tmp_path) == {
        0: [unit(0), unit(1), PRE_BLANK, PRE_BLANK, unit(4)],
        5: [unit(5), EMPTY, EMPTY, EMPTY, EMPTY],
    }


def test_d14_pre_blank_units_are_no_reason_to_ignore_later_ones(s: Setup, tmp_path: Path):
    write(tmp_path, [PRE_BLANK, PRE_BLANK, PRE_BLANK])
    assert load(s.queues, 0, END, stands) < END, "2^31 - 1 bytes of a pre-blank unit are no place in the log"
    s.take(3, 4)
    assert s.queues.find(*PLACE).units(3, 2) == [unit(3), unit(4)]


def test_replaying_gives_the_same_bytes(tmp_path: Path):
    s = Setup(tmp_path)
    s.take(*range(12))
    s.queues.close()
    before = files(tmp_path)
    s = Setup(tmp_path)
    load(s.queues, 0, END, stands)
    s.queues.check_invariants()
    s.replay(*range(3, 12))
    assert s.queues.next_offsets() == {PLACE: 12}
    s.queues.close()
    assert files(tmp_path) == before


def test_d10_flush_syncs_every_file_that_was_written_since(s: Setup, tmp_path: Path):
    """D10: the checkpoint's queue time may rise only if all units of before are on disk, of closed files too."""
    s.queues.files.most = 2
    s.take(*range(23))  # five files, of which two stay open
    s.effects.calls.clear()
    s.queues.flush()
    synced = {path for name, path in s.effects.calls if name == "sync"}
    written = {str(path) for path in (tmp_path / "consumequeue" / "T" / "0").iterdir()}
    closed_before = len(written) - len(synced & written)
    assert len(written) == 5
    assert closed_before == 0, f"{closed_before} files were closed without a sync"


def test_no_put_of_a_running_store_is_denied_its_place(tmp_path: Path):
    """Threads put single messages, many, batches and columns into one queue, and into a light queue from two topics.
    Twice: the second time over what a kill left."""
    light = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
    keys = {"enableLmq": True, "enableMultiDispatch": True, "mappedFileSizeCommitLog": 1 << 16}
    root, rows = tmp_path / "0", pa.record_batch({"body": pa.array([b"row"] * 40, pa.binary())})
    counts = Counter()
    for turn in (1, 2):
        with open_small(root, **keys) as store:

            def put(store: MessageStore = store) -> None:
                for n in range(10):
                    results = [
                        store.put(Message("T", b"one", properties=light, queue_id=0)),
                        *store.put_many([Message("T", b"of many", queue_id=0)] * 3),
                        *store.put_batch([Message("T", b"of a batch", queue_id=0)] * 2),
                        store.put(Message("U", b"other", properties=light, queue_id=n % 2)),
                    ]
                    assert {r.status for r in results} == {PutMessageStatus.PUT_OK}
                    assert store.put_columns("T", rows).count == 40

            at_once(*[put] * 4)
            assert store.wait_dispatched(30)
            assert [note for note in store._parts.report.notes if note.code == "denied"] == []
            counts = Counter({place: queue.max_offset for place, queue in store._parts.queues.plain.items() if queue})
            assert counts[b"T", 0] == turn * 4 * 10 * (1 + 3 + 2 + 40) and counts[b"%LMQ%a", 0] == turn * 4 * 10 * 2
            shutil.copytree(root, tmp_path / str(turn))
        root = tmp_path / str(turn)
    with open_small(root, **keys) as store:
        assert {p: q.max_offset for p, q in store._parts.queues.plain.items() if q} == counts
        assert [note for note in store._parts.report.notes if note.code == "denied"] == []


@pytest.mark.parametrize("offsets", [(-5,), (-5, 0, 1), (100, 0, 1)], ids=str)
def test_a_queue_does_not_begin_at_an_offset_that_got_no_unit(s: Setup, offsets: tuple[int, ...]):
    """Damaged records without a place, and a queue that is begun again before anybody saw it."""
    s.take(*offsets)
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, queue.max_offset) == ((0, 2) if len(offsets) == 3 else (0, 0))
    s.take(2) if len(offsets) == 3 else s.take(0)
    assert queue.min_offset == 0


def test_a_loaded_queue_trusts_its_units_and_names_again(s: Setup, tmp_path: Path):
    """Units were torn by a power cut: the smallest offset is that of the units that were written again."""
    torn = Unit(5000, 50, 0)  # points after the log's begin, though its record is gone
    write(tmp_path, [torn, unit(1), unit(2), unit(3)])
    loader = QueueLoader(s.queues, 1000 + 50 * 2, stands, unsure=True)
    loader.load(END)
    queue = s.queues.find(*PLACE)
    assert (queue.min_offset, s.queues.files.unsure) == (0, True)
    s.replay(*range(5), rewound=loader.rewound)
    assert (queue.min_offset, queue.max_offset) == (0, 5)
    loader.finish()
    assert (queue.min_offset, queue.max_offset, s.queues.files.unsure) == (2, 5, False)
    whole = QueueLoader(s.queues, 1000 + 50 * 2, stands, unsure=False)
    s.replay(0, 1, rewound=whole.rewound)
    whole.finish()
    assert whole.rewound and queue.min_offset == 0, (
        "a queue that lacked nothing keeps its bounds if it is written again"
    )


def test_a_queue_is_written_again_from_a_smaller_offset(s: Setup):
    s.take(*range(2, 7))
    queue = s.queues.find(*PLACE)
    queue.rewind(1)
    assert (queue.min_offset, queue.max_offset, queue.writer.next) == (1, 7, 1)
    s.queues.check_invariants()
    queue.raise_minimum(9)
    assert queue.min_offset == 7, "never after the end"
    queue.raise_minimum(3)
    assert queue.min_offset == 7, "never lower"
    queue.continue_at(2, 4)
    assert (queue.min_offset, queue.max_offset, queue.writer.next) == (2, 4, 4)
    with pytest.raises(AssertionError):
        queue.rewind(5)
    with pytest.raises(AssertionError):
        queue.continue_at(4, 3)


def broken(queue: RunningQueue, **values: object) -> None:
    for name, value in values.items():
        setattr(queue, name, value)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s, q: broken(q, min_offset=8),
        lambda s, q: broken(q, min_offset=-1),
        lambda s, q: broken(q.writer, next=8),
        lambda s, q: broken(q.writer, next=-2),
        lambda s, q: broken(q.writer, file_size=110),
        lambda s, q: q.blocks.update({3: bytes(100)}),
        lambda s, q: q.blocks.update({3: bytes(41)}),
        lambda s, q: q.blocks.update({3: bytes(60)}),
        lambda s, q: broken(q, name=QueueName("T", 1)),
        lambda s, q: s.queues.plain.update({(b"T", 1): q}),
        lambda s, q: s.queues.kept.keep(q, 0, bytes(41), q.forgotten),
        lambda s, q: s.queues.kept.keep(q, 0, bytes(513 * 20), q.forgotten),
        lambda s, q: s.queues.kept._kept.update({(q, 5): 16}),
        lambda s, q: broken(s.queues.files, most=1),
        lambda s, q: s.queues.files.open.update({"again": next(iter(s.queues.files.open.values()))}),
    ],
    ids=range(15),
)  # fmt: skip
def test_the_invariants_notice_broken_queues(tmp_path: Path, spoil: Callable[[Setup, RunningQueue], None]):
    s = Setup(tmp_path)
    s.take(*range(7))
    queue = s.queues.find(*PLACE)
    assert queue.units(0, 5)
    s.queues.check_invariants()
    spoil(s, queue)
    with pytest.raises(AssertionError):
        s.queues.check_invariants()


def test_the_invariants_notice_a_broken_batch_queue(tmp_path: Path):
    queues = ConsumeQueues(str(tmp_path), CONFIG, Faulty(), Report())
    queue = queues.open_batch(b"B", 0)
    queue.writer.put(BatchUnit(0, 50, 0, 1, 0, 3))
    assert queue.writer.next == 3
    queues.check_invariants()
    queue.writer.position += 1
    with pytest.raises(AssertionError):
        queues.check_invariants()
    queue.writer.position -= 1
    queue.writer.next = -1
    with pytest.raises(AssertionError):
        queues.check_invariants()
    queues.close()


class Singly(Effects):
    """A disk that never reads a queue in one look."""

    def only_file(self, path: str, below: str, count: int) -> tuple[list[tuple[str, int]], bytes | None]:
        return self.regular_files(path, below), None


class Counted(Effects):
    """Counts the queues that one look served."""

    def __init__(self) -> None:
        self.served = 0

    def only_file(self, path: str, below: str, count: int) -> tuple[list[tuple[str, int]], bytes | None]:
        files, data = super().only_file(path, below, count)
        self.served += data is not None
        return files, data


def drawn_queue(chance: random.Random) -> tuple[int, bytes, int]:
    """First offset, bytes and size of a queue's only file: mostly sound, with odd units somewhere."""
    units = [unit(n) for n in range(chance.choice((0, 1, 2, 5, 203)))]
    odd = (EMPTY, PRE_BLANK, Unit(7, 50, 0), Unit(-1, 50, 0), Unit(1000, 0, 0), Unit(1 << 50, 50, 0), unit(400))
    for _ in range(chance.choice((0, 0, 1, 2))):
        if units:
            units[chance.choice((0, -1, chance.randrange(len(units))))] = chance.choice(odd)
    data = b"".join(UNIT.pack(one) for one in units)
    torn = chance.choice((0, 0, 0, 7, 15)) if data else 0
    return chance.choice((0, 0, 0, 100)), data[: len(data) - torn], chance.choice((60_000, 60_000, 60_010, 4000))


@pytest.mark.parametrize("seed", range(120))
def test_a_queue_that_is_read_in_one_look_is_loaded_as_any_other(seed: int, tmp_path: Path):
    """Bounds, what is truncated, and where dispatch continues; nothing follows from the way of reading."""
    chance = random.Random(seed)
    first, data, size = drawn_queue(chance)
    log_begin, unsure = chance.choice((0, 0, 1000, 1050)), chance.random() < 0.5
    found = []
    for disk in (Counted(), Singly()):
        root = tmp_path / type(disk).__name__
        folder = root / "consumequeue" / "T" / "0"
        folder.mkdir(parents=True)
        (folder / f"{first * 20:020d}").write_bytes(data)
        os.truncate(folder / f"{first * 20:020d}", max(size, len(data)))
        queues = ConsumeQueues(str(root), StoreConfig(), disk, Report())
        loader = QueueLoader(queues, log_begin, stands, unsure=unsure)
        reached = loader.load(END)
        queue = queues.find(*PLACE)
        assert isinstance(queue, RunningQueue)
        queues.check_invariants()
        left = {path.name: path.read_bytes() for path in folder.iterdir()}
        found.append((reached, queue.min_offset, queue.max_offset, queue.writer.next, loader.lacking != set(), left))
        queues.close()
    assert found[0] == found[1]


def test_a_short_queue_is_read_in_one_look(tmp_path: Path):
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(UNIT.pack(unit(0)) + UNIT.pack(unit(1)))
    os.truncate(folder / f"{0:020d}", 6_000_000)
    disk = Counted()
    queues = ConsumeQueues(str(tmp_path), StoreConfig(), disk, Report())
    assert load(queues, 0, END, stands) == 1000 + 50 * 2 and disk.served == 1
    queue = queues.find(*PLACE)
    assert queue is not None and queue.units(0, 9) == [unit(0), unit(1)]
    queues.close()


@pytest.mark.parametrize("change", ["none", "the last unit", "the first unit"])
def test_units_that_a_kill_left_whole_are_compared_and_written_once_more_by_the_flush(tmp_path: Path, change: str):
    """Every queue changed since the checkpoint: the units in its file come to the disk by one write."""
    keys = KEYS | {"mappedFileSizeConsumeQueue": "2000", "flushIntervalConsumeQueue": "60000"}
    killed = tmp_path / "killed"
    with MessageStore(tmp_path / "store", config=keys) as store:
        for number in range(6):
            store.put(Message(f"T{number % 2}", b"%d" % number))
        assert store.wait_dispatched(60)
        shutil.copytree(tmp_path / "store", killed)
    (one, two) = (killed / "consumequeue" / topic / "0" / f"{0:020d}" for topic in ("T0", "T1"))
    sound = one.read_bytes()
    if change != "none":
        at = 40 if change == "the last unit" else 0
        one.write_bytes(sound[:at] + UNIT.pack(Unit(7, 50, 0)) + sound[at + 20 :])
    disk = Faulty()
    with MessageStore(killed, config=keys, effects=disk) as store:
        assert {place: (q.min_offset, q.max_offset) for place, q in store._parts.queues.plain.items() if q} == {
            (topic, 0): (0, 3) for topic in (b"T0", b"T1")
        }
        assert [m.body for m in store.get("T0", 0, 0, max_messages=9).messages] == [b"0", b"2", b"4"]
    assert one.read_bytes() == sound
    assert disk.count("pwrite", str(two)) == 1 <= disk.count("pwrite", str(one)) <= (1 if change == "none" else 3)
    for path in (one, two):
        cut = (path, change) == (one, "the last unit")  # which is on disk before the log goes on
        assert disk.count("sync", str(path)) == 1 + cut and disk.count("sync_dir", str(path.parent)) == 1


@pytest.mark.parametrize("count", range(FIRST_BYTES // 20 - 2, FIRST_BYTES // 20 + 4))
def test_queues_about_as_long_as_what_is_read_of_them_at_first(tmp_path: Path, count: int):
    """The 205th unit crosses the end of the first page, after which a copy of the store has a hole (`cp --sparse`)."""
    keys = KEYS | {"mappedFileSizeConsumeQueue": str(20 * 1000), "mappedFileSizeCommitLog": str(1 << 20)}
    for first in (0, count):
        with MessageStore(tmp_path, config=keys) as store:
            for number in range(first, first or count):
                assert store.put(Message("T", b"%d" % number)).status is PutMessageStatus.PUT_OK
            assert store.wait_dispatched(60)
            bounds = store.get("T", 0, 0)
            assert (bounds.min_offset, bounds.max_offset) == (0, count)
            found = [m.body for at in range(0, count, 32) for m in store.get("T", 0, at, max_messages=32).messages]
            assert found == [b"%d" % number for number in range(count)]
        (path,) = (tmp_path / "consumequeue" / "T" / "0").iterdir()
        data = path.read_bytes()
        with path.open("wb") as file:
            file.write(data.rstrip(b"\0").ljust(FIRST_BYTES, b"\0"))
            file.truncate(len(data))
