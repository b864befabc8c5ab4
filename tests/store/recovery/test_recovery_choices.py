"""Recovery's choices: from where it reads and dispatches, where it cannot tell, and what `preview` says beforehand."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError
from flintmq.format import checkpoint, flintmq_mark, record
from flintmq.format.checkpoint import Checkpoint
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.end_of_log import StopFacts, Verdict
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.layout import directories
from flintmq.store.layout.mark import DurableMark
from flintmq.store.layout.small_files import StoreFiles, page_cache_id
from flintmq.store.recovery import apply
from flintmq.store.recovery.derived import DerivedLoader, begin_of_dispatch
from flintmq.store.recovery.find_end import MARGIN_MS, recovery_scan_start
from flintmq.store.recovery.preview import preview
from flintmq.testing import damage
from tests.support.crashed import Clock, killed, log_file, make, quarantined, reopened, zero
from tests.support.engine import FILE_SIZE, KEYS, check_derived, open_small, put_all, records, stored, tree
from tests.support.makers import patch

CONFIG = StoreConfig.from_keys(KEYS)


def spaced(root: Path) -> tuple[LogFiles, dict[int, int]]:
    """A log of four files whose records are 10 s apart; store time of each file's first record."""
    clock = Clock()
    with open_small(root, clock) as store:
        for n in range(14):
            clock.clock += 10_000
            put_all(store, 1, first=n, size=1000)
    firsts = {r.physical_offset: r.store_timestamp for r in records(root) if r.physical_offset % FILE_SIZE == 0}
    assert len(firsts) >= 4
    return LogFiles.discover([str(root / "commitlog")]), firsts


def test_an_unclean_stop_is_read_from_the_file_that_was_flushed_three_seconds_before_the_checkpoint(tmp_path: Path):
    files, firsts = spaced(tmp_path)
    unclean = StopFacts(clean=False)
    for start, time in firsts.items():
        before = max((s for s in firsts if s < start), default=files.min_offset)
        for physic, logics in ((time + MARGIN_MS, time + 10**6), (time + 10**6, time + MARGIN_MS)):
            assert recovery_scan_start(files, unclean, Checkpoint(physic, logics)) == start
        assert recovery_scan_start(files, unclean, Checkpoint(time + MARGIN_MS - 1, time + 10**6)) == before
    assert recovery_scan_start(files, unclean, Checkpoint()) == files.min_offset
    assert recovery_scan_start(files, StopFacts(clean=True), Checkpoint()) == max(firsts), "a clean stop: the last file"


def test_a_file_without_a_first_record_is_no_place_to_begin(tmp_path: Path):
    files, firsts = spaced(tmp_path)
    last, before = sorted(firsts)[-1], sorted(firsts)[-2]
    damage.zero(log_file(tmp_path, last)[0], 0, 100)
    assert recovery_scan_start(files, StopFacts(clean=True), Checkpoint()) == before
    late = Checkpoint(firsts[last] + 10**6, firsts[last] + 10**6)
    assert recovery_scan_start(files, StopFacts(clean=False), late) == before
    assert begin_of_dispatch(files, StopFacts(clean=False), late) == before


def test_the_mark_says_where_to_read_and_the_queues_time_where_to_dispatch(tmp_path: Path):
    files, firsts = spaced(tmp_path)
    starts = sorted(firsts)
    for mark, begin in ((0, starts[0]), (starts[2], starts[2]), (starts[2] + 5, starts[2]), (10**9, starts[-1])):
        assert recovery_scan_start(files, StopFacts(clean=False, mark=DurableMark(mark)), Checkpoint()) == begin
    facts = StopFacts(clean=False, mark=DurableMark(starts[2]))
    for logics, begin in ((firsts[starts[1]] + MARGIN_MS, starts[1]), (firsts[starts[1]] + MARGIN_MS - 1, starts[0]),
                          (10**15, starts[2]), (0, files.min_offset)):  # fmt: skip
        assert begin_of_dispatch(files, facts, Checkpoint(10**15, logics)) == begin
    assert begin_of_dispatch(files, StopFacts(clean=True, mark=DurableMark(starts[2])), Checkpoint()) == starts[2]
    gone = LogFiles(files.files[1:], files.file_size, files.max_record)
    assert recovery_scan_start(gone, StopFacts(clean=False, mark=DurableMark(0)), Checkpoint()) == starts[1], (
        "the mark's file has expired"
    )


def test_a_preview_tells_of_a_tail_that_holds_no_record(tmp_path: Path):
    kept = make(tmp_path, count=8, size=200)
    killed(tmp_path, flushed=kept[6].physical_offset)
    zero(tmp_path, kept[7].physical_offset + 100, kept[7].size - 100)
    told = preview(str(tmp_path), CONFIG)["decisions"]
    assert told == [
        "the last stop was unclean",
        "the bytes after the log's end are not a whole record and would be zeroed",
    ]
    with open_small(tmp_path, Clock()) as store:
        assert any(line.startswith("zeroed ") for line in store.recovered.decisions)
        assert store.recovered.state.end == kept[7].physical_offset


def test_what_a_preview_says_is_what_recovery_then_does(tmp_path: Path):
    kept = make(tmp_path, count=20, size=600)
    assert preview(str(tmp_path), CONFIG)["decisions"] == ["the last stop was clean", "nothing would be truncated"]
    zero(tmp_path, kept[5].physical_offset, 1200)
    killed(tmp_path, flushed=kept[2].physical_offset)
    ahead = tmp_path / "commitlog" / f"{8 * FILE_SIZE:020d}"
    last = sorted((tmp_path / "commitlog").iterdir())[-1]
    assert int(last.name) < 8 * FILE_SIZE
    for start in range(int(last.name) + FILE_SIZE, 9 * FILE_SIZE, FILE_SIZE):
        (tmp_path / "commitlog" / f"{start:020d}").write_bytes(bytes(FILE_SIZE))
    before = tree(tmp_path, ".")
    told = preview(str(tmp_path), CONFIG)
    assert tree(tmp_path, ".") == before, "it writes nothing"
    with open_small(tmp_path, Clock()) as store:
        assert told["end"] == store.recovered.state.end == kept[5].physical_offset
        assert told["verdict"] == store.recovered.verdict.value
        assert store.recovered.as_dict() == {
            "end": told["end"], "verdict": told["verdict"], "decisions": store.recovered.decisions,
        }  # fmt: skip
    decisions = told["decisions"]
    assert isinstance(decisions, list)
    count = len(quarantined(tmp_path))
    assert decisions[:2] == [
        "the last stop was unclean",
        f"{count} records after the log's end would be copied to quarantine/ and truncated",
    ]  # fmt: skip
    named = [line for line in decisions if line.endswith("would be removed")]
    assert any("which holds bytes after the log's end" in line for line in named)
    assert f"{ahead}, which holds nothing yet (it was made ahead), would be removed" in named
    assert not ahead.exists()


def test_without_dispatch_the_next_offsets_come_from_the_log_or_from_old_queues(tmp_path: Path):
    """A queue whose records have all expired goes on where its files end."""
    with open_small(tmp_path) as store:
        store.create_topic("B", 1, "BatchCQ")
        put_all(store, 5, topic="Old", size=900)
        put_all(store, 12, topic="New", size=900)
        store.put_batch([Message("B", b"x", queue_id=0), Message("B", b"y", queue_id=0)])
        store.wait_dispatched(60)
    first_new = next(r.physical_offset for r in records(tmp_path) if r.topic == b"New")
    for path in sorted((tmp_path / "commitlog").iterdir()):
        if int(path.name) + FILE_SIZE <= first_new + FILE_SIZE:
            path.unlink()
    with open_small(tmp_path, dispatch="external") as store:
        offsets = store.recovered.state.next_offsets
        assert store.recovered.verdict is Verdict.END
        assert [line.partition(":")[0] for line in store.recovered.decisions] == ["recovery after clean stop"]
    assert (offsets[b"Old", 0], offsets[b"New", 0], offsets[b"B", 0]) == (5, 12, 2)


def test_queues_without_an_index_are_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq.recovery")
    with open_small(tmp_path, messageIndexEnable=False) as store:
        put_all(store, 30, size=300)
        put_all(store, 1, topic="U")
    assert not (tmp_path / directories.INDEX).exists()
    before = tree(tmp_path, "consumequeue")
    for path in (tmp_path / "consumequeue" / "T" / "0").iterdir():
        path.unlink()
    (tmp_path / "consumequeue" / "T" / "0").rmdir()
    with open_small(tmp_path, messageIndexEnable=False) as store:
        assert [m.queue_offset for m in store.get("T", 0, 0, 32).messages] == list(range(10)), "a file at a time"
    assert tree(tmp_path, "consumequeue") == before
    assert any(
        "1 queues lost files (T/0); their units are rebuilt from the log" in r.getMessage() for r in caplog.records
    )


def test_an_index_that_is_behind_is_completed_from_its_last_record(tmp_path: Path):
    stored(tmp_path, 40, size=300, effects=Clock())
    last = sorted((tmp_path / "index").iterdir())[-1]
    last.unlink()
    (tmp_path / "abort").write_text("1")
    with open_small(tmp_path, Clock()) as store:
        store.wait_dispatched(60)
    check_derived(tmp_path)


def replaced(disk: Clock, root: Path) -> list[str]:
    """Which files were replaced or removed, in order; beginnings of names."""
    names = [Path(path).relative_to(root) for call, path in disk.calls if call in ("rename", "unlink")]
    return [str(name).removesuffix(".flintmq-new") for name in names]


def left(root: Path, how: str) -> list[record.Record]:
    """A store of 20 records in four files, as it stands after a stop."""
    kept = make(root, count=20, size=600)
    if how == "clean, without a mark":
        (root / "flintmq.mark").unlink()
    elif how.startswith("killed"):
        (root / "abort").write_text(f"1\n{page_cache_id(str(root), REAL)}" if how == "killed" else "1")
    elif how == "power cut":
        (root / "abort").write_text("1\nanother-boot")
    return kept


class ReadsOfAbort(Clock):
    """Counts them, as the last stop left it: the start itself writes another one, with this boot's id."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read_file(self, path: str, most: int) -> bytes | None:
        self.reads += Path(path).name == "abort"
        return super().read_file(path, most)


@pytest.mark.parametrize("dispatch", ["thread", "external"])
@pytest.mark.parametrize("how", ["clean", "killed", "killed, RocketMQ", "power cut"])
def test_a_start_reads_abort_once_whatever_the_stop(tmp_path: Path, how: str, dispatch: str):
    """Its facts are one answer: another read, after the first step that writes, would be of another stop."""
    left(tmp_path, how)
    disk = ReadsOfAbort()
    with open_small(tmp_path, disk, dispatch=dispatch):
        assert disk.reads == 1


MARK = ["flintmq.mark", "checkpoint"]


@pytest.mark.parametrize(
    ("how", "dispatch", "order", "believed"),
    [
        ("clean", "thread", ["abort"], True),
        ("clean, without a mark", "thread", ["flintmq.queues", *MARK, "abort"], False),
        ("killed", "thread", ["abort"], True),  # the machine has run on: what FlintMQ has said is true
        ("killed, RocketMQ's", "thread", [*MARK, "index/*", *MARK, "abort"], False),  # it may have worked on all of it
        ("clean", "external", ["flintmq.queues", "abort", *MARK, *MARK], False),  # others write them from now on
    ],
)
def test_the_order_in_which_small_files_say_less_and_more(
    tmp_path: Path, how: str, dispatch: str, order: list[str], believed: bool
):
    """At a kill between any two of these what is there must be true."""
    kept = left(tmp_path, how)
    end = kept[-1].physical_offset + kept[-1].size
    disk, marks = Clock(), []

    def note(call: str, path: str) -> None:
        if call == "rename" and path.endswith("abort.flintmq-new") and dispatch == "thread":
            marks.append(flintmq_mark.decode((tmp_path / "flintmq.mark").read_bytes()))

    disk.before = note
    store = open_small(tmp_path, disk, dispatch)
    done = [name if name.partition("/")[0] != "index" else "index/*" for name in replaced(disk, tmp_path)]
    assert done[: len(order)] == order
    mark = marks[0] if marks else flintmq_mark.decode((tmp_path / "flintmq.mark").read_bytes())
    assert mark.flushed_offset == end and mark.dispatched_offset == (end if believed else -1)
    assert (mark.indexed.offset if mark.indexed is not None else None) == (end if believed else None)
    assert store.recovered.state.next_offsets == {(b"T", 0): 20}
    store.close()


@pytest.mark.parametrize(
    ("how", "begin", "rest"),
    [
        ("clean", 12288, ["0 records were dispatched again"]),
        ("killed", 12288, ["0 records were dispatched again"]),
        (
            "killed, RocketMQ's",
            12288,
            ["1 index files that were not synced are rebuilt", "20 records were dispatched again"],
        ),
    ],
)
def test_what_recovery_tells(tmp_path: Path, how: str, begin: int, rest: list[str]):
    kept = left(tmp_path, how)
    end, stop = kept[-1].physical_offset + kept[-1].size, "clean" if how == "clean" else "unclean"
    with open_small(tmp_path, Clock()) as store:
        assert store.recovered.decisions == [
            f"recovery after {stop} stop: read from {begin}, the log ends at {end} (end of the log)", *rest,
        ]  # fmt: skip
        assert store.recovered.state.end == end and store.recovered.state.last_time == kept[-1].store_timestamp


def test_a_queue_without_files_and_messages_goes_on_where_the_list_says(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_all(store, 3, topic="Gone", size=900)
        put_all(store, 12, topic="T", size=900)
    shutil.rmtree(tmp_path / "consumequeue" / "Gone")
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with open_small(tmp_path) as store:
        assert store.recovered.state.next_offsets == {(b"Gone", 0): 3, (b"T", 0): 12}
        assert any("1 queues lost files (Gone/0)" in line for line in store.recovered.decisions)
        assert put_all(store, 1, topic="Gone")[0].queue_offset == 3


@pytest.mark.parametrize("how", ["clean", "killed", "killed, RocketMQ's", "power cut"])
def test_queues_and_index_are_made_again_with_what_recovery_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    kept = left(tmp_path, how)
    end, known = kept[-1].physical_offset + kept[-1].size, []
    indexed = []

    class Noted(DerivedLoader):
        def load(self, end: int, begin: int, **more: Any) -> int:
            known.append((self.queues, end, more["clean"], more["compared"], more["ends"]))
            return super().load(end, begin, **more)

    def removed(*asked: Any) -> int:
        indexed.append(None if asked[-1] is None else asked[-1].offset)
        return 7

    monkeypatch.setattr(apply, "DerivedLoader", Noted)
    monkeypatch.setattr(apply, "remove_unsynced", removed)
    lowered: list[int] = []
    monkeypatch.setattr(DurableMark, "with_units_below", lambda self, offset: lowered.append(offset) or self)
    with open_small(tmp_path, Clock()) as store:
        clean = how == "clean"
        read_from = end - end % FILE_SIZE
        assert known == [(store._parts.queues, end, clean, read_from, {(b"T", 0): 20})]
        assert store._parts.queues.files.unsure is False and lowered == [end]
        assert indexed == {"killed, RocketMQ's": [None], "power cut": [end]}.get(how, [])
        told = ["7 index files that were not synced are rebuilt"] * len(indexed)
        assert store.recovered.verdict is Verdict.END and store.recovered.decisions[1:-1] == told


# -- Recovery and the order of queue offsets above the durable mark: torn heads, and queues that RocketMQ began again


def test_a_queue_offset_that_is_not_the_next_one_ends_an_unflushed_log(tmp_path: Path):
    """B9: above the mark a record must carry its queue's next offset."""
    kept = make(tmp_path, count=6, size=200)
    path, position = log_file(tmp_path, kept[-1].physical_offset)
    patch(path, position, record.encode(kept[-1]._replace(queue_offset=9)))
    (tmp_path / "abort").write_text("1")
    time = kept[2].store_timestamp
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(time, time)))
    (tmp_path / "flintmq.mark").write_bytes(flintmq_mark.encode(kept[3].physical_offset, time))
    reopened(tmp_path, kept[:-1])


def test_a_queue_that_rocketmq_began_again_is_kept_whatever_stops_the_first_start(tmp_path: Path, monkeypatch):
    """RocketMQ went on behind our mark, deleted a topic, began it at 0 and was killed; our first start is killed, too,
    once `abort` is ours, and then the power fails. Of a store of ours alone such a record is a torn one."""
    kept = make(tmp_path, count=6, size=200)
    killed(tmp_path, flushed=kept[3].physical_offset)
    path, position = log_file(tmp_path, kept[4].physical_offset)
    kept[4:] = [r._replace(queue_offset=n) for n, r in enumerate(kept[4:])]
    patch(path, position, b"".join(map(record.encode, kept[4:])))
    alone = tmp_path.parent / "alone"
    shutil.copytree(tmp_path, alone)
    (alone / "abort").write_text("1\nanother-boot")
    with open_small(alone):
        assert records(alone) == kept[:4]

    def stop(self: StoreFiles) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as change:
        change.setattr(StoreFiles, "make_abort", stop)
        with pytest.raises(KeyboardInterrupt):
            open_small(tmp_path)
    (tmp_path / "abort").write_text("1\nanother-boot")
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(60) and records(tmp_path) == kept
        assert [m.body for m in store.get("T", 0, 0).messages] == [r.body for r in kept[4:]]


# -- Recovery that refuses, time and again, and what it must not take for a hole. Found by flipping bits ---------------


@pytest.mark.parametrize("peer", [True, False])
def test_damage_that_only_the_queues_lead_to_refuses_every_time(tmp_path: Path, peer: bool):
    """A clean start does not read old files, but looks for each queue's last record: here a hole in the first file.

    Units are made again from the log's begin, which refuses, and by then `abort` is there: the next start must not take
    the hole for write-back that never came, and cut all that lies behind it.
    """
    with open_small(tmp_path, Clock()) as store:
        for n in range(30):
            put_all(store, 1, first=n, queue_id=int(n == 2), size=600)
    kept = records(tmp_path)
    zero(tmp_path, kept[2].physical_offset, 1200)
    if peer:
        for name in ("checkpoint", "flintmq.mark"):
            (tmp_path / name).unlink()
    before = tree(tmp_path, "commitlog")
    for _ in range(3):
        with pytest.raises(CorruptStoreError) as caught:
            open_small(tmp_path)
        path, position = log_file(tmp_path, kept[2].physical_offset)
        assert (caught.value.file, caught.value.position) == (str(path), position)
        assert tree(tmp_path, "commitlog") == before
    assert not (tmp_path / "quarantine").exists()


def test_a_length_s_zero_at_a_sector_s_end_is_no_hole(tmp_path: Path):
    """The high byte of the properties' length is the last of its sector, and a tag holds a NUL."""
    probe = make(tmp_path / "probe", count=3, size=200)[2]
    root, text = tmp_path / "store", probe.physical_offset + probe.size - len(probe.properties)
    with open_small(root, Clock()) as store:
        put_all(store, 2, size=200)
        put_all(store, 5, first=2, size=200 + (511 - (text - 2)) % 512)
    hit = records(root)[2]
    text = hit.physical_offset + hit.size - len(hit.properties)
    assert (text - 2) % 512 == 511
    zero(root, text + hit.properties.index(1), 1)
    killed(root)
    with pytest.raises(CorruptStoreError, match="zero byte in its topic"):
        open_small(root)


@pytest.mark.parametrize("at", ["tags", "separator", "topic"])
def test_one_byte_that_is_zero_is_no_hole(tmp_path: Path, at: str):
    """Above the mark: a NUL in a record's text, whose sector did arrive, must not cost the records behind it."""
    kept = make(tmp_path, count=10, size=200)
    hit = kept[4]
    text = hit.physical_offset + hit.size - len(hit.properties)
    zero(tmp_path, {"tags": text + 2, "separator": text + hit.properties.index(1), "topic": text - 3}[at], 1)
    killed(tmp_path)
    before = tree(tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match="zero byte in its topic") as caught:
            open_small(tmp_path)
        path, position = log_file(tmp_path, hit.physical_offset)
        assert (caught.value.file, caught.value.position) == (str(path), position)
        assert tree(tmp_path) == before
