"""Recovery: stores as crashes leave them, made by hand. What is cut, what is kept, what is refused."""

import shutil
from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError, LostLogError
from flintmq.format import checkpoint, record
from flintmq.message import GetMessageStatus, Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.commitlog.end_of_log import Verdict
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.layout.small_files import page_cache_id
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.apply import Recovered, Recovery, offsets_of_log
from flintmq.testing import damage
from tests.sim.disk import SimDisk
from tests.support.crashed import BEGIN, Clock, flip, killed, log_file, make, quarantined, reopened, zero
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    index_items,
    message,
    open_small,
    put_all,
    put_dispatched,
    records,
    stored,
    tree,
)


def test_a_clean_stop_leaves_nothing_to_do(tmp_path: Path):
    kept = make(tmp_path)
    before = tree(tmp_path)
    store = open_small(tmp_path)
    assert store.recovered.verdict is Verdict.END
    assert store.recovered.state.next_offsets == {(b"T", 0): 12}
    assert store.recovered.state.last_time == kept[-1].store_timestamp
    store.close()
    assert tree(tmp_path) == before
    assert not (tmp_path / "quarantine").exists()


def test_after_a_kill_everything_is_there(tmp_path: Path):
    kept = make(tmp_path)
    killed(tmp_path)
    before = tree(tmp_path)
    reopened(tmp_path, kept)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("torn", [1, 100, 200, 299])
def test_a_torn_tail_is_cut(tmp_path: Path, torn: int):
    kept = make(tmp_path)
    last = kept[-1]
    zero(tmp_path, last.physical_offset + last.size - torn, torn)
    killed(tmp_path, flushed=kept[3].physical_offset)
    reopened(tmp_path, kept[:-1])


def test_a_torn_tail_is_cut_without_a_mark_too(tmp_path: Path):
    kept = make(tmp_path)
    zero(tmp_path, kept[-1].physical_offset + 50, 500)
    for name in ("checkpoint", "flintmq.mark"):
        (tmp_path / name).unlink()
    (tmp_path / "abort").touch()
    reopened(tmp_path, kept[:-1])


def test_unordered_write_back_is_cut_at_the_hole_and_what_lies_behind_is_kept_aside(tmp_path: Path):
    """A sector never written in record 5, whole records behind it, none of them known to be flushed."""
    kept = make(tmp_path, count=20, size=600)
    hole = kept[5].physical_offset
    zero(tmp_path, hole, 512 - hole % 512 + 512)
    killed(tmp_path, flushed=kept[2].physical_offset)
    store = reopened(tmp_path, kept[:5])
    lost = quarantined(tmp_path)
    assert len(lost) >= 13 and set(lost) <= {record.encode(r) for r in kept[6:]}
    assert lost[-1] == record.encode(kept[-1])
    assert (store.recovered.verdict, store.recovered.decisions[0][:8]) == (Verdict.END, "recovery")


@pytest.mark.parametrize("boot", ["another-boot", ""], ids=["power-cut", "kill"])
def test_a_record_above_the_mark_that_is_not_whole_is_the_end_after_a_power_cut_only(tmp_path: Path, boot: str):
    """Of what was not synced a power cut may leave any byte; a kill leaves all, so there it is damage."""
    kept = make(tmp_path, count=20, size=600)
    flip(tmp_path, kept[5].physical_offset + 300)
    killed(tmp_path, flushed=kept[2].physical_offset)
    (tmp_path / "abort").write_text(f"1\n{boot or page_cache_id(str(tmp_path), REAL)}")
    if boot:
        reopened(tmp_path, kept[:5])
        assert quarantined(tmp_path) == [record.encode(r) for r in kept[6:]]
        return
    before = tree(tmp_path)
    with pytest.raises(CorruptStoreError, match="records go on at offset"):
        open_small(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("clean", [True, False])
def test_d4_a_stale_tail_is_zeroed_and_does_not_come_back(tmp_path: Path, clean: bool):
    """Ten records of one size, a cut behind the fourth, one new record: the old sixth must not follow it."""
    kept = make(tmp_path, count=10, size=200)
    size = kept[0].size
    assert {r.size for r in kept} == {size} and size * 11 < FILE_SIZE
    # As upstream leaves it: a shorter record written over the fifth, whose rest is no record; the others are older.
    path, position = log_file(tmp_path, kept[4].physical_offset)
    data = bytearray(path.read_bytes())
    for number in range(4, 10):
        at = kept[number].physical_offset
        old = kept[number]._replace(store_timestamp=BEGIN - 5000 + number)
        data[at : at + size] = record.encode(old)
    body = b"new" + bytes(195)
    new = record.encode(kept[4]._replace(body=body, body_crc=record.crc(body)))
    data[position : position + len(new)] = new
    path.write_bytes(data)
    for name in ("checkpoint", "flintmq.mark"):
        (tmp_path / name).unlink()
    if not clean:
        (tmp_path / "abort").touch()
    with open_small(tmp_path, Clock()) as store:
        assert store.recovered.verdict is Verdict.STALE_TAIL
        assert [r.body for r in records(tmp_path)] == [*(r.body for r in kept[:4]), body], "zeros behind"
        put_all(store, 1, size=200)
    assert len(quarantined(tmp_path)) == 5
    (tmp_path / "abort").touch()
    with open_small(tmp_path) as store:
        assert [m.queue_offset for m in store] == [0, 1, 2, 3, 4, 5]
    check_derived(tmp_path)


@pytest.mark.parametrize("part", ["body", "magic", "size", "topic_length"])
@pytest.mark.parametrize("clean", [True, False])
def test_d7_d23_damage_below_the_mark_refuses_and_touches_nothing(tmp_path: Path, part: str, clean: bool):
    kept = make(tmp_path)
    hit = kept[-2]
    at = {"body": 100, "magic": 5, "size": 1, "topic_length": 88 + len(hit.body)}[part]
    end = kept[-1].physical_offset + kept[-1].size
    if not clean:
        killed(tmp_path, flushed=end)
    flip(tmp_path, hit.physical_offset + at)
    before = tree(tmp_path, ".")
    for _ in range(2):
        with pytest.raises(CorruptStoreError) as caught:
            open_small(tmp_path)
        path, position = log_file(tmp_path, hit.physical_offset)
        assert (caught.value.file, caught.value.position) == (str(path), position)
        after = tree(tmp_path, ".")
        after.pop("lock", None), before.pop("lock", None)
        assert after == before, "a refused store is as it was, abort included"
    flip(tmp_path, hit.physical_offset + at)
    reopened(tmp_path, kept)


def test_d23_one_flipped_bit_in_the_middle_of_a_store_of_java_s_refuses(tmp_path: Path):
    """No mark of ours, a clean stop: valid records behind it that are not older say that this is no tail."""
    kept = make(tmp_path)
    (tmp_path / "flintmq.mark").unlink()
    flip(tmp_path, kept[-2].physical_offset + 100)
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match="CRC"):
            open_small(tmp_path)


def test_a_zeroed_sector_in_a_cleanly_stopped_store_refuses_every_time(tmp_path: Path):
    """The first attempt must not make the stop look unclean: the second one would take the hole for write-back."""
    kept = make(tmp_path, count=20, size=600)
    (tmp_path / "flintmq.mark").unlink()
    (tmp_path / "checkpoint").unlink()
    zero(tmp_path, kept[-3].physical_offset, 1024)
    for _ in range(3):
        with pytest.raises(CorruptStoreError):
            open_small(tmp_path)
        assert not (tmp_path / "abort").exists()


def test_d22_damage_that_the_body_s_checksum_does_not_see(tmp_path: Path):
    """A tail record whose topic or properties never arrived: zeros in its last sector."""
    kept = make(tmp_path, count=6, size=400)
    last = kept[-1]
    end = last.physical_offset + last.size
    torn = len(last.properties) + 2 + len(last.topic)
    zero(tmp_path, end - torn, torn)
    killed(tmp_path, flushed=kept[2].physical_offset)
    reopened(tmp_path, kept[:-1])


@pytest.mark.parametrize("torn", [3, 6])
def test_d22_properties_that_end_in_zeros_are_torn(tmp_path: Path, torn: int):
    kept = make(tmp_path, count=6, size=400)
    last = kept[-1]
    zero(tmp_path, last.physical_offset + last.size - torn, torn)
    killed(tmp_path, flushed=kept[2].physical_offset)
    reopened(tmp_path, kept[:-1])


def test_d6_the_record_at_the_boundary_of_the_queues_is_dispatched(tmp_path: Path):
    """Queues that end exactly before the last record, after a clean and after an unclean stop."""
    kept = make(tmp_path)
    folder = tmp_path / "consumequeue" / "T" / "0"
    for count in (1, 3):
        for clean in (True, False):
            last = sorted(folder.iterdir())[-1]
            used = 12 - int(last.name) // 20
            assert used == 2
            for n in range(12 - count, 12):
                path = folder / f"{n // 10 * 200:020d}"
                damage.zero(path, n % 10 * 20, 20)
            if not clean:
                (tmp_path / "abort").touch()
            reopened(tmp_path, kept)


def test_d6_a_queue_that_lost_units_while_another_one_is_further_on(tmp_path: Path):
    """Upstream compares with the largest of all queues and misses the hole."""
    with open_small(tmp_path) as store:
        for n in range(40):
            put_all(store, 1, first=n, queue_id=0 if n < 20 or n == 39 else 1, size=300)
    damage.zero(tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}", 7 * 20, 60)
    damage.zero(tmp_path / "consumequeue" / "T" / "0" / f"{400:020d}", 0, 20)
    with open_small(tmp_path) as store:
        store.wait_dispatched(60)
        assert [m.queue_offset for m in store.get("T", 0, 17).messages] == [17, 18, 19], "the units are there again"
        assert store.put(message(0)).queue_offset == 21, "and no offset is given twice"
    check_derived(tmp_path)


@pytest.mark.parametrize(
    "lost", ["consumequeue", "consumequeue/T/0", "index", "consumequeue/T", "checkpoint", "flintmq.mark"]
)
@pytest.mark.parametrize("clean", [True, False])
def test_t12_derived_data_that_is_gone_is_made_again(tmp_path: Path, lost: str, clean: bool):
    with open_small(tmp_path, Clock()) as store:
        put_all(store, 25, size=300)
        put_all(store, 15, topic="U", queue_id=1, size=300)
        put_all(store, 1, first=40)
    kept, before = records(tmp_path), tree(tmp_path)
    gone = tmp_path / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    if not clean:
        (tmp_path / "abort").touch()
    reopened(tmp_path, kept)
    assert tree(tmp_path, "consumequeue") == {k: v for k, v in before.items() if k.startswith("consumequeue")}


def test_units_and_items_behind_a_cut_are_gone(tmp_path: Path):
    """Line 5: queue units and index items of records that were cut are never served."""
    kept = make(tmp_path, count=20, size=600)
    zero(tmp_path, kept[5].physical_offset, 1200)
    killed(tmp_path, flushed=kept[2].physical_offset)
    with open_small(tmp_path, Clock()) as store:
        assert store.get("T", 0, 5).messages == []
        assert store.query("T", "k5") == store.query("T", "k19") == []
        assert [m.queue_offset for m in store.query("T", "k4")] == [4]
        put_dispatched(store, 3, first=100, size=600)
        assert [m.keys for m in store.get("T", 0, 5).messages] == ["k100", "k101", "k102"]
    check_derived(tmp_path)


def test_an_empty_file_at_the_log_s_end_is_no_damage(tmp_path: Path):
    """A kill amid the creation of the next file, at each of its steps."""
    kept = make(tmp_path)
    following = FILE_SIZE * -(-(kept[-1].physical_offset + 1) // FILE_SIZE)
    for size in (0, FILE_SIZE):
        (tmp_path / "commitlog" / f"{following:020d}").write_bytes(bytes(size))
        (tmp_path / "abort").touch()
        reopened(tmp_path, kept)


def test_a_log_that_ends_with_a_file_s_blank_record_goes_on_in_the_next_one(tmp_path: Path):
    kept = make(tmp_path, count=9, size=1000)
    last_file = sorted((tmp_path / "commitlog").iterdir())[-1]
    in_last = [r for r in kept if r.physical_offset >= int(last_file.name)]
    for with_next in (True, False):
        root = tmp_path / f"next{with_next}"
        shutil.copytree(tmp_path, root, ignore=shutil.ignore_patterns("next*"))
        (root / "commitlog" / last_file.name).unlink()
        if with_next:
            (root / "commitlog" / last_file.name).write_bytes(bytes(FILE_SIZE))
        killed(root)
        wanted = kept[: -len(in_last)]
        reopened(root, wanted)
        before = tree(root)
        reopened(root, wanted)
        assert tree(root) == before, "an empty next file neither goes nor comes"
        with open_small(root, Clock()) as store:
            assert records(root) == wanted
            [result] = put_all(store, 1, size=1000)
            assert result.physical_offset == int(last_file.name) and result.queue_offset == len(wanted)
        assert len(records(root)) == len(wanted) + 1


def test_a_log_whose_first_files_expired_and_whose_rest_is_empty_can_be_written(tmp_path: Path):
    open_small(tmp_path).close()
    (tmp_path / "commitlog" / f"{8 * FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    with open_small(tmp_path) as store:
        assert put_all(store, 1)[0].physical_offset == 8 * FILE_SIZE


@pytest.mark.parametrize("wrong", ["short", "long", "missing", "renamed", "swapped"])
def test_t9_files_that_are_not_what_they_should_be_refuse(tmp_path: Path, wrong: str):
    make(tmp_path, count=40)
    names = sorted(path.name for path in (tmp_path / "commitlog").iterdir())
    assert len(names) >= 4
    middle = tmp_path / "commitlog" / names[1]
    data = middle.read_bytes()
    if wrong == "short":
        middle.write_bytes(data[:1000])
    elif wrong == "long":
        middle.write_bytes(data + b"x")
    elif wrong == "missing":
        middle.unlink()
    elif wrong == "swapped":
        killed(tmp_path)
        middle.write_bytes((tmp_path / "commitlog" / names[0]).read_bytes())
        (tmp_path / "commitlog" / names[0]).write_bytes(data)
    else:
        middle.rename(tmp_path / "commitlog" / f"{100 * FILE_SIZE:020d}")
    before = tree(tmp_path)
    with pytest.raises(CorruptStoreError):
        open_small(tmp_path)
    assert tree(tmp_path) == before


def test_d10_units_that_were_not_flushed_with_their_records_are_written_again(tmp_path: Path):
    """The log is flushed up to its end, the queues only as far as the checkpoint's second time says."""
    stored(tmp_path, 40, size=300, effects=Clock())
    kept, before = records(tmp_path), tree(tmp_path)
    end = kept[-1].physical_offset + kept[-1].size
    killed(tmp_path, flushed=end)
    time = kept[-1].store_timestamp
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(time, kept[0].store_timestamp)))
    damage.zero(tmp_path / "consumequeue" / "T" / "0" / ("0" * 20), 3 * 20, 60)  # a page that never arrived
    reopened(tmp_path, kept)
    assert tree(tmp_path) == before


def test_units_that_never_arrived_hide_none_before_them(tmp_path: Path):
    """The log begins at its second file, and most units of a queue are lost, of records that are dispatched again: a
    bisection for the queue's first message met those, and took the one before them for expired."""
    clock = Clock()
    with open_small(tmp_path, clock, messageIndexEnable=False) as store:
        for n in range(26):  # nine in a file
            clock.clock += 1000  # units are written again from a file on that is three seconds older than the last
            store.put(Message("T", bytes(340), queue_id=0 if n in (0, 9) or n > 17 else 1))
    (tmp_path / "commitlog" / ("0" * 20)).unlink()
    kept = [r for r in records(tmp_path) if r.queue_id == 0]
    assert [r.queue_offset for r in kept] == list(range(1, 10)) and kept[1].physical_offset == 2 * FILE_SIZE
    killed(tmp_path, flushed=kept[-1].physical_offset + kept[-1].size)
    for r in kept[1:-1]:
        damage.zero(tmp_path / "consumequeue" / "T" / "0" / ("0" * 20), r.queue_offset * 20, 20)
    with open_small(tmp_path, Clock(), messageIndexEnable=False) as store:
        found = store.get("T", 0, 1, max_messages=9)
        assert found.status is GetMessageStatus.FOUND and found.min_offset == 1
        assert [m.physical_offset for m in found.messages] == [r.physical_offset for r in kept[:9]]


def test_a_store_whose_messages_have_no_keys_is_not_read_as_a_whole_at_every_start(tmp_path: Path):
    for life in range(3):
        with open_small(tmp_path) as store:
            for _ in range(40):
                store.put(Message("T", bytes(300)))
            [line] = [line for line in store.recovered.decisions if "dispatched again" in line]
            assert int(line.split()[0]) <= FILE_SIZE // 300, life
    assert len(list((tmp_path / "index").iterdir())) == 1 and index_items(tmp_path) == []
    stored(tmp_path, 1)
    assert len(list((tmp_path / "index").iterdir())) == 1 and len(index_items(tmp_path)) == 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("back_ms", [1, 1000, 3_599_999, 3_600_000, 86_400_000])
def test_t14_records_put_after_the_clock_was_set_back_are_no_stale_tail(tmp_path: Path, back_ms: int, clean: bool):
    clock = Clock()
    with open_small(tmp_path, clock) as store:
        put_all(store, 5)
        store.flush()
        clock.clock -= back_ms
        put_all(store, 5, first=5)
    kept = records(tmp_path)
    assert len(kept) == 10
    if not clean:
        (tmp_path / "abort").touch()
    reopened(tmp_path, kept)
    assert not (tmp_path / "quarantine").exists()


def test_after_a_power_cut_the_queues_are_read_from_the_disk_again(tmp_path: Path):
    """The page cache may show units that never reached it; after a kill of FlintMQ alone they are there."""
    make(tmp_path)
    for boot, times in (("another-boot", 1), (page_cache_id(str(tmp_path), REAL), 0)):
        (tmp_path / "abort").write_text(f"1\n{boot}")
        disk = Clock()
        units = tmp_path / "consumequeue" / "T" / "0"
        sizes = {str(path) for path in units.iterdir() if path.stat().st_size}
        open_small(tmp_path, disk).close()
        dropped = [path for name, path in disk.calls if name == "drop_cache" and path in sizes]
        assert len(sizes) == 2 and sorted(dropped) == sorted(sizes) * times


def on_a_disk_of_its_own(**offsets: int) -> SimDisk:
    """A store in memory, whose queue Old lost its records with the log's first files."""
    disk = SimDisk(1)
    with open_small("/sim/store", disk) as store:
        put_all(store, 5, topic="Old", size=900)
        put_all(store, 12, topic="New", size=900)
        for group, offset in offsets.items():
            store.commit_offset(group, "New", 0, offset)
        assert store.wait_dispatched(60)
    for name in disk.listdir("/sim/store/commitlog")[:2]:
        disk.unlink(f"/sim/store/commitlog/{name}")
    return disk


def test_without_dispatch_old_queues_are_looked_for_on_the_store_s_own_disk():
    with open_small("/sim/store", on_a_disk_of_its_own(), "external") as store:
        assert store.recovered.state.next_offsets == {(b"Old", 0): 5, (b"New", 0): 12}


def test_groups_are_read_from_the_store_s_own_disk():
    with open_small("/sim/store", on_a_disk_of_its_own(slow=1)) as store:
        [line] = [line for line in store.recovered.decisions if "group slow" in line]
        assert line.startswith("queue New/0 begins at offset 3, and group slow has consumed up to 1: 2 messages")


def test_without_dispatch_the_next_offsets_count_records_put_after_the_clock_was_set_back(tmp_path: Path):
    """Up to its end the log was judged before; older times there end it no more."""
    clock = Clock()
    with open_small(tmp_path, clock) as store:
        put_all(store, 5)
        clock.clock -= 86_400_000
        put_all(store, 5, first=5)
    with open_small(tmp_path, clock, "external") as store:
        assert store.recovered.state.next_offsets == {(b"T", 0): 10}


def test_a_recovery_that_is_told_nothing_accepts_no_lost_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make(tmp_path, count=20)
    max((tmp_path / "commitlog").iterdir()).unlink()
    real = Recovery.run

    def told_nothing(self: Recovery, **_: bool) -> Recovered:
        return real(self)

    monkeypatch.setattr(Recovery, "run", told_nothing)
    with pytest.raises(LostLogError):
        MessageStore(tmp_path, config=KEYS, accept_lost_log=True)


def test_offsets_of_a_log_count_records_before_its_end_only(tmp_path: Path):
    kept = make(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    files = LogFiles.discover([str(tmp_path / "commitlog")])
    for count in (1, 7, 12):
        dispatcher = Dispatcher(DispatchRules((), index=False))
        end = kept[count - 1].physical_offset + kept[count - 1].size
        assert offsets_of_log(str(tmp_path), files, dispatcher, end) == {(b"T", 0): count}


def test_small_files_of_a_lost_log_vouch_for_no_unit(tmp_path: Path):
    """A clean stop and its mark tell of a log that is gone: units of what is left are all written again."""
    make(tmp_path, count=40)
    max((tmp_path / "commitlog").iterdir()).unlink()
    damage.zero(tmp_path / "consumequeue" / "T" / "0" / ("0" * 20), 3 * 20, 20)
    with MessageStore(tmp_path, config=KEYS, effects=Clock(), unique_keys=False, accept_lost_log=True) as store:
        assert store.recovered.lost
        assert store.recovered.decisions[-2:] == [
            "2 index files that were not synced are rebuilt", "37 records were dispatched again",
        ]  # fmt: skip
        assert store.recovered.state.next_offsets == {(b"T", 0): 37}
    check_derived(tmp_path)
