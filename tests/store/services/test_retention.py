"""Retention: which file goes when, by which rule; what a reader holds; the write stop; a log line for each."""

import errno
import logging
import os
import time
from pathlib import Path

import pytest

from flintmq.message import Message, PutMessageStatus
from flintmq.store.message_store import MessageStore
from tests.support.engine import FILE_SIZE, KEYS, message, open_small, put_all
from tests.support.faults import Faulty

HOUR = 3_600_000


class Disk(Faulty):
    """A disk as full, and a clock as late, as a test says; nobody waits."""

    def __init__(self, *, used=50, now=None):
        super().__init__()
        self.used = used
        self.clock = now if now is not None else at_hour(12)
        self.slept = []
        self.ticks = None
        self.began = self.clock

    def disk_used(self, path):
        return self.used

    def modified_ms(self, path):
        return None if super().modified_ms(path) is None else at_hour(12)  # all files were last written at noon

    def sleep(self, seconds):
        self.slept.append(seconds)

    def monotonic(self):
        if self.ticks is not None:
            return self.ticks
        return super().monotonic() + (self.clock - self.began) / 1000  # time passes on both clocks


def at_hour(hour):
    return int(time.mktime((2026, 3, 1, hour, 30, 0, 0, 0, -1)) * 1000)


def filled(root, disk, files=6, **keys):
    """A store with so many log files, all of which are on disk, as queues and index are."""
    store = open_small(root, disk, **keys)
    number = 0
    while len(store._parts.files.files) < files:
        put_all(store, 1, number, size=700)
        number += 1
    store.flush()
    assert store.wait_dispatched(60)
    store._parts.checkpointer.write()
    return store


def log_files(store):
    """Numbers of the log's files on disk; without those that are made ahead."""
    found = sorted(int(name) // FILE_SIZE for name in os.listdir(Path(store.root, "commitlog")))
    return [number for number in found if number * FILE_SIZE <= store._parts.files.last.start]


@pytest.mark.parametrize(
    ("hour", "later", "kept"),
    [(12, 0, 0), (12, 96 * HOUR, 0), (4, 72 * HOUR, 0), (4, 88 * HOUR, 5), (3, 87 * HOUR, 0), (5, 89 * HOUR, 0)],
)
def test_old_files_go_in_the_hour_of_delete_when(tmp_path, hour, later, kept):
    """At 04:xx and not else, after 72 h and not before; never the last one."""
    disk = Disk()
    with filled(tmp_path, disk) as store:
        disk.clock = at_hour(12) + later + (hour - time.localtime((at_hour(12) + later) / 1000).tm_hour) * HOUR
        store._parts.retention.clean_once()
        wanted = [5] if kept and disk.clock - at_hour(12) >= 72 * HOUR else list(range(6))
        assert log_files(store) == wanted and store._parts.files.min_offset == wanted[0] * FILE_SIZE


@pytest.mark.parametrize("years", [10, -10, 0.001])
def test_a_clock_that_jumps_deletes_nothing(tmp_path, years, caplog):
    """04:10 in ten years, for a moment or for good: nothing goes by age within a day; by a full disk it does."""
    disk = Disk()
    disk.ticks = 100.0
    with filled(tmp_path, disk, deleteWhen="00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23",
                fileReservedTime=1) as store:  # fmt: skip
        noon = disk.clock
        disk.clock = noon + int(years * 365 * 24 * HOUR)
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6 and caplog.text.count("the clock jumped by") == 1
        disk.clock = noon
        disk.ticks += 60
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6
        disk.clock = noon + int(years * 365 * 24 * HOUR)  # and again, for good
        disk.ticks += 60
        store._parts.retention.clean_once()
        disk.ticks += 86_399
        disk.clock += 86_399_000
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6 and caplog.text.count("the clock jumped by") == 2
        disk.ticks += 2
        disk.clock += 2000
        store._parts.retention.clean_once()
        assert len(log_files(store)) == (6 if years < 0 else 1), "a clock that stands for a day is believed"
        disk.used, disk.clock = 86, noon + 5 * HOUR
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 1


def test_several_hours_and_their_own_time(tmp_path):
    disk = Disk()
    with filled(tmp_path, disk, deleteWhen="03;x;12", fileReservedTime=24) as store:
        disk.clock = at_hour(12) + 24 * HOUR - 1
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6
        disk.clock += 1
        store._parts.retention.clean_once()
        assert log_files(store) == [5]


@pytest.mark.parametrize(
    ("used", "later", "files", "full"),
    [(75, 100, 6, False), (76, 71, 6, False), (76, 73, 1, False), (85, 0, 6, False), (86, 0, 1, False),
     (90, 0, 1, False), (91, 0, 1, True)],
)  # fmt: skip
def test_disk_ratios(tmp_path, used, later, files, full):
    disk = Disk()
    with filled(tmp_path, disk) as store:
        disk.used, disk.clock = used, at_hour(12) + later * HOUR
        store._parts.retention.clean_once()
        assert len(log_files(store)) == files and store._parts.retention.full == full


def test_no_forced_cleaning_where_it_is_off(tmp_path):
    disk = Disk(used=95)
    with filled(tmp_path, disk, cleanFileForciblyEnable=False) as store:
        store._parts.retention.clean_once()
        assert len(log_files(store)) == 6 and store._parts.retention.full


def test_the_write_stop_ends_where_forced_cleaning_does(tmp_path):
    disk = Disk(used=91)
    with filled(tmp_path, disk, files=2) as store:
        for used, full in ((91, True), (86, True), (85, False), (90, False)):
            disk.used = used
            store._parts.retention.clean_once()
            result = store.put(Message("T", b"x"))
            assert (result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE) == full, used
            assert (store.put_many([Message("T", b"x")])[0].status is PutMessageStatus.PUT_OK) == (not full)
            assert store.get("T", 0, store.get("T", 0, 10**9).min_offset).messages, "reading goes on"


def test_ten_at_once_with_pauses(tmp_path):
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=14) as store:
        store._parts.retention.clean_once()
        assert log_files(store) == [10, 11, 12, 13] and disk.slept == [0.1] * 9
        store._parts.retention.clean_once()
        assert log_files(store) == [13]


def test_a_line_a_deletion(tmp_path, caplog):
    caplog.set_level(logging.INFO, "flintmq.retention")
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=3) as store:
        store._parts.retention.clean_once()
    lines = [r.getMessage() for r in caplog.records if "commitlog" in r.getMessage()]
    assert lines == [
        f"deleted {tmp_path}/commitlog/{n * FILE_SIZE:020d}: disk 86 % full, last written 2026-03-01 12:30:00"
        for n in (0, 1)
    ]


def test_what_is_not_on_disk_or_not_dispatched_stays(tmp_path):
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=4) as store:
        store._parts.retention.dispatched = lambda: 2 * FILE_SIZE - 1
        store._parts.retention.clean_once()
        assert log_files(store) == [1, 2, 3]
        store._parts.retention.dispatched = lambda: 10 * FILE_SIZE
        store._parts.files.flushed_where, flushed = 3 * FILE_SIZE - 1, store._parts.files.flushed_where
        store._parts.retention.clean_once()
        assert log_files(store) == [2, 3]
        store._parts.files.flushed_where = flushed


def test_a_file_that_a_reader_holds_hangs(tmp_path):
    """It leaves the log at once; its name goes with the last hold, or after destroyMapedFileIntervalForcibly; the
    reader's bytes stay as they are; files behind it wait, since a gap would be damage."""
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=4) as store:
        first = store._parts.files.files[0]
        assert first.hold()
        disk.ticks = 1000.0
        store._parts.retention.clean_once()
        assert store._parts.files.min_offset == 3 * FILE_SIZE and log_files(store) == [0, 1, 2, 3]
        assert (store._parts.files.find(0) is None and not first.hold()) or first.release() is None
        disk.ticks += 119
        store._parts.retention.clean_once()
        assert log_files(store) == [0, 1, 2, 3]
        disk.ticks += 2
        store._parts.retention.clean_once()
        assert log_files(store) == [3]
        assert bytes(first.view[4:8]) == b"\xda\xa3\x20\xa7", "still mapped for who holds it"
        first.release()
        assert not first.is_held


def test_the_last_hold_lets_a_file_go(tmp_path):
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=3) as store:
        first = store._parts.files.files[0]
        first.hold()
        store._parts.retention.clean_once()
        first.release()
        store._parts.retention.clean_once()
        assert log_files(store) == [2]


def test_a_kill_while_a_file_hangs(tmp_path):
    """What hangs is there again after a start, and is deleted then."""
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=3) as store:
        first = store._parts.files.files[0]
        first.hold()
        store._parts.retention.clean_once()
    first.release()
    disk.used = 50
    with open_small(tmp_path, disk) as store:
        assert store._parts.files.min_offset == 0 and store.get("T", 0, 0).messages
        disk.used = 86
        store._parts.retention.clean_once()
        assert log_files(store) == [2]


def test_a_file_that_cannot_be_deleted(tmp_path):
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=3) as store:
        disk.refuse("unlink", "commitlog", errno.EACCES, times=1)
        with pytest.raises(OSError):
            store._parts.retention.clean_once()
        store._parts.retention.clean_once()
        assert log_files(store) == [2]


def test_a_store_cleans_by_itself(tmp_path):
    disk = Disk(used=86)
    store = MessageStore(tmp_path, config=KEYS | {"cleanResourceInterval": 10}, effects=disk)
    store._parts.housekeeping._cleaning.stop()
    job = store._parts.housekeeping._cleaning._jobs[0]
    assert (
        50 < job.due - disk.monotonic() <= 60 and job.interval == 0.01 and job.step == store._parts.retention.clean_once
    )
    store.close()


def test_a_file_stays_until_the_units_of_its_records_are_on_disk(tmp_path, monkeypatch):
    """Found by the explorer, seeds 1073742443 and 1073742451: after a power cut nobody could make them again, and the
    queue began again below what consumers had committed."""
    disk = Disk()
    with open_small(tmp_path, disk) as store:
        monkeypatch.setattr(store._parts.checkpointer, "write", lambda: None)
        put_all(store, 30, size=700)
        store.flush()
        assert store.wait_dispatched(60)
        disk.used = 86
        store._parts.retention.clean_once()
        assert log_files(store) == list(range(len(store._parts.files.files)))
        monkeypatch.undo()
        store._parts.checkpointer.write()
        assert store._parts.small.mark.dispatched == store._parts.log.end
        store._parts.retention.clean_once()
        assert log_files(store) == [store._parts.files.last.start // FILE_SIZE]


def test_put_reopen_put_while_the_beginning_goes(tmp_path):
    """Offsets go on where they were, also of a queue whose messages have all gone."""
    disk = Disk()
    with filled(tmp_path, disk, files=5) as store:
        high = store.get("T", 0, 10**9).max_offset
        disk.used = 86
        store._parts.retention.clean_once()
    disk.used = 50
    with open_small(tmp_path, disk) as store:
        low = store.get("T", 0, 0).min_offset
        assert 0 < low < high
        assert store.put(message(77)).queue_offset == high
        assert store.wait_dispatched(60)
        assert [m.queue_offset for m in store.get("T", 0, low).messages] == list(range(low, high + 1))


def test_of_several_log_disks_the_emptiest_decides(tmp_path):
    """RocketMQ writes on where there is room, so one full disk of two deletes nothing and refuses nothing."""

    class Two(Disk):
        def disk_used(self, path):
            return 95 if path.endswith("full") else 20

    disk, paths = Two(), f"{tmp_path}/full,{tmp_path}/free"
    for path in paths.split(","):
        os.mkdir(path)
    with filled(tmp_path / "s", disk, storePathCommitLog=paths) as store:
        before = [file.path for file in store._parts.files.files]
        store._parts.retention.clean_once()
        assert [file.path for file in store._parts.files.files] == before and not store._parts.retention.full
        assert store.put(Message("T", b"x")).status is PutMessageStatus.PUT_OK


def test_a_file_leaves_the_log_under_the_put_lock(tmp_path, monkeypatch):
    """A put that begins a file replaces the same list."""
    disk, held = Disk(used=86), []
    with filled(tmp_path, disk, files=4) as store:
        files, lock = store._parts.files, store._parts.log.lock
        drop = files.drop_first

        def dropping():
            held.append(lock.locked())
            return drop()

        monkeypatch.setattr(files, "drop_first", dropping)
        store._parts.retention.clean_once()
        assert held == [True] * 3


def test_each_name_is_gone_for_good_before_the_next_one_goes(tmp_path):
    """A power cut may bring names back: a later one without an earlier one would be a gap."""
    disk = Disk(used=86)
    with filled(tmp_path, disk, files=4) as store:
        disk.calls.clear()
        store._parts.retention.clean_once()
        calls = [(call, path) for call, path in disk.calls if "commitlog" in path and call in ("unlink", "sync_dir")]
        assert [call for call, _ in calls] == ["unlink", "sync_dir"] * 3
