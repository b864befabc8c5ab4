"""A store in role SLAVE that gets a master's log as bytes: what Java wrote is what is there, and what is read."""

import errno
import random
import shutil
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path
from typing import Any, Self

import pytest

from flintmq.errors import (
    DamagedStreamError,
    ReplicationError,
    StoreAccessError,
    StoreError,
    UsageError,
)
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.store.append.raw_log import RawLog
from flintmq.store.layout import followed
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from tests.compat.replication import GoldenMaster, queue_units
from tests.compat.stores import Golden
from tests.ha.conftest import master as master
from tests.support.faults import Faulty, unclean
from tests.support.threads import within


def open_slave(root: Path, master: GoldenMaster, **more: Any) -> MessageStore:
    """A store that follows; the file that says so is written as a follower does."""
    root.mkdir(exist_ok=True)
    effects = more.get("effects", Faulty())
    if not followed.is_followed(str(root), effects):
        followed.write(str(root), followed.Followed("127.0.0.1:1", 0, master.file_size), effects)
    return MessageStore(root, config=master.config | {"brokerRole": "SLAVE"} | more.pop("keys", {}), **more)


def send(raw: RawLog, log: bytes, until: int, step: int = 32768) -> None:
    """Append the master's bytes up to a log offset, in pieces that end where a file does."""
    if raw.begin is None:
        raw.begin_at(0)
    while raw.received < until:
        at = raw.received
        size = min(step, until - at, raw.file_size - at % raw.file_size)
        raw.append_raw(at, log[at : at + size])


def test_a_batch_topic_is_known_by_its_first_record(tmp_path: Path, golden: Callable[[str], Golden]):
    """Nobody gives the type of the topic; the queues are RocketMQ's, and config/ has it for the next master."""
    store = golden("batch")
    log = b"".join(file.read_bytes() for file in sorted((store.path / "commitlog").iterdir()))
    end = store.rows[-1]["physical_offset"] + store.rows[-1]["size"]
    keys = store.config | {"brokerRole": "SLAVE"}
    with MessageStore(tmp_path, config=keys) as slave:
        send(slave.raw, log, end)
        assert slave.wait_dispatched(60)
        slave._parts.housekeeping.save_once()
        assert {name for name, topic in read_config(str(tmp_path)).topics.items() if topic.queue_type == "BatchCQ"} == {
            "BatchTopic"
        }
    for kind in ("batchconsumequeue", "consumequeue"):
        files = {path.relative_to(store.path): path for path in (store.path / kind).rglob("0*") if path.is_file()}
        assert files
        for name, path in files.items():
            if any(data := path.read_bytes()):
                assert (tmp_path / name).read_bytes() == data, name
    assert not (tmp_path / "consumequeue" / "BatchTopic").exists()


def log_bytes(root: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((root / "commitlog").iterdir()))


@pytest.mark.parametrize("step", [97, 32768, 1 << 20])
def test_a_log_that_came_in_pieces_is_the_masters(tmp_path: Path, master: GoldenMaster, step: int):
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, len(master.log), step)
        assert store.raw.end == store.raw.received == len(master.log)
        assert store.raw.last_record == master.records[-1][0]
        assert store.raw.last_time == master.rows[-1]["store_timestamp"]
        assert store.wait_dispatched(60)
        found = [(m.physical_offset, m.topic, m.body) for m in store]
    assert [offset for offset, _, _ in found] == [row["physical_offset"] for row in master.rows]
    assert log_bytes(tmp_path).rstrip(b"\0") == master.log.rstrip(b"\0")
    assert queue_units(tmp_path) == master.queue_units()


def test_nothing_of_a_record_is_visible_before_its_last_byte(tmp_path: Path, master: GoldenMaster):
    ends = [at + size for at, size in master.records[:40]]
    with open_slave(tmp_path, master) as store:
        raw = store.raw
        raw.begin_at(0)
        for at in range(ends[-1]):
            raw.append_raw(at, master.log[at : at + 1])
            assert raw.end == max((end for end in ends if end <= at + 1), default=0)
        with store.view() as view:
            assert sum(1 for _ in view.messages()) == 40


def test_a_blank_is_visible_once_the_file_is_full(tmp_path: Path, master: GoldenMaster):
    last = max(at + size for at, size in master.records if at < master.file_size)
    assert last < master.file_size, "this file ends with a blank"
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, master.file_size - 1)
        assert store.raw.end == last
        send(store.raw, master.log, master.file_size)
        assert store.raw.end == master.file_size
    with open_slave(tmp_path, master) as store:  # a clean stop just there, without a next file
        assert store.raw.end == master.file_size
        send(store.raw, master.log, len(master.log))
    assert log_bytes(tmp_path).rstrip(b"\0") == master.log.rstrip(b"\0")


def test_a_kill_at_any_place_leaves_a_prefix_that_goes_on(tmp_path: Path, master: GoldenMaster):
    chance = random.Random(master.version)
    ends = [0, *(at + size for at, size in master.records)]
    for cut in [chance.randrange(1, len(master.log)) for _ in range(12)]:
        live, dead = tmp_path / f"live{cut}", tmp_path / f"dead{cut}"
        with open_slave(live, master) as store:
            send(store.raw, master.log, cut)
            shutil.copytree(live, dead)  # what a kill would leave
        with open_slave(dead, master) as store:
            whole = max(end for end in ends if end <= cut)
            assert whole <= store.raw.end <= cut and store.raw.end == store.raw.received
            held = log_bytes(dead)
            assert held[: store.raw.end] == master.log[: store.raw.end] and not any(held[store.raw.end :])
            assert not (dead / "quarantine").exists()
            send(store.raw, master.log, len(master.log))
        assert log_bytes(dead).rstrip(b"\0") == master.log.rstrip(b"\0"), cut
        assert queue_units(dead) == master.queue_units(), cut


def log_names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "commitlog").iterdir())


def test_no_file_of_a_killed_copy_goes(tmp_path: Path, master: GoldenMaster):
    """Who reads along lists the files and opens them one by one: none may go, whatever the next start cuts off."""
    kept = 0
    for end in range(master.file_size, len(master.log), master.file_size):
        live, dead = tmp_path / f"live{end}", tmp_path / f"dead{end}"
        with open_slave(live, master) as store:
            send(store.raw, master.log, end - 1)  # a blank before the end of the file is not whole
            allocation = store._parts.log.files.allocation
            assert allocation is not None and allocation.file_at(end).start == end
            after = f"{end + master.file_size:020d}"
            assert within((live / "commitlog" / after).exists), "and the one after it"
            shutil.copytree(live, dead)
        names = log_names(dead)
        with open_slave(dead, master) as store:
            assert log_names(dead) == names and names[-1] == after
            kept += store.raw.end < end
            send(store.raw, master.log, len(master.log))
        assert log_bytes(dead).rstrip(b"\0") == master.log.rstrip(b"\0"), end
        assert queue_units(dead) == master.queue_units(), end
    assert kept > 0, "of some the log ended before its last file"


def test_after_a_power_cut_it_is_noted_what_was_certainly_on_disk(tmp_path: Path, master: GoldenMaster):
    dead, disk = tmp_path / "dead", Faulty()
    with open_slave(tmp_path / "live", master) as store:
        send(store.raw, master.log, 2 * master.file_size)
        store.raw.flush()
        store._parts.checkpointer.write()
        certain = store.raw.durable
        send(store.raw, master.log, len(master.log))
        shutil.copytree(tmp_path / "live", dead)
    process, _ = (dead / "abort").read_text().split("\n")
    (dead / "abort").write_text(f"{process}\nanother-boot/1")
    for _ in range(2):  # it stays until it was compared
        with open_slave(dead, master) as store:
            assert store.raw.end > certain > 0
        known = followed.read(str(dead), disk)
        assert known is not None and known.unsure_from == certain
    with open_slave(tmp_path / "live", master):
        pass
    known = followed.read(str(tmp_path / "live"), disk)
    assert known is not None and known.unsure_from is None


def test_what_came_of_a_record_is_zeroed_and_comes_again(tmp_path: Path, master: GoldenMaster):
    at, size = master.records[7]
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, at + size - 1)
        assert (store.raw.end, store.raw.received) == (at, at + size - 1)
        store.raw.discard()
        assert store.raw.received == at and not any(log_bytes(tmp_path)[at:])
        send(store.raw, master.log, at + size)
        assert store.raw.end == at + size
    assert log_bytes(tmp_path)[: at + size] == master.log[: at + size]


class Room:
    """The memory of a log file, which notes the pages of each store."""

    def __init__(self, view: memoryview, at: int, pages: list[tuple[int, int]]) -> None:
        self.view, self.at, self.pages = view, at, pages

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.view.release()

    def __setitem__(self, part: slice, data: memoryview) -> None:
        begin, end, _ = part.indices(len(self.view))
        self.pages.append(((self.at + begin) // PAGESIZE, (self.at + end - 1) // PAGESIZE))
        self.view[part] = data


def test_what_comes_is_stored_page_by_page(tmp_path: Path, master: GoldenMaster, monkeypatch: pytest.MonkeyPatch):
    """A kill at a page that is missing leaves a beginning of what came: a copy may store its first bytes last."""
    pages: list[tuple[int, int]] = []
    real = MappedFile.room
    with open_slave(tmp_path, master) as store, monkeypatch.context() as patch:
        patch.setattr(MappedFile, "room", lambda file, at: Room(real(file, at), at, pages))
        send(store.raw, master.log, len(master.log))
    assert len(pages) > len(master.log) // PAGESIZE and all(first == last for first, last in pages)
    assert log_bytes(tmp_path)[: len(master.log)] == master.log


def test_what_came_of_a_record_is_zeroed_from_the_back(
    tmp_path: Path, master: GoldenMaster, monkeypatch: pytest.MonkeyPatch
):
    """A kill amid it leaves the beginning of the record, and not a hole before its end."""
    at, size = max(master.records, key=lambda record: record[1])
    assert size > 3 * 512
    seen: list[bytes] = []
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, at + size - 1)
        with monkeypatch.context() as patch:
            patch.setattr(Effects, "wrote", lambda *_: seen.append(log_bytes(tmp_path)[at:].rstrip(b"\0")))
            store.raw.discard()
    assert len(seen) > 3 and seen[0] and seen[-1] == b""
    assert all(master.log[at:].startswith(left) for left in seen)


def test_a_log_may_begin_at_any_file(tmp_path: Path, master: GoldenMaster):
    begin = 2 * master.file_size
    with open_slave(tmp_path, master) as store:
        assert store.raw.begin is None
        for wrong in (begin + 500, -master.file_size):
            with pytest.raises(ReplicationError) as caught:
                store.raw.begin_at(wrong)
            assert caught.value.reason == "geometry"
        store.raw.begin_at(begin)
        send(store.raw, master.log, len(master.log))
        assert store.wait_dispatched(60)
        assert (store.raw.begin, store.raw.end) == (begin, len(master.log))
        with pytest.raises(UsageError, match="begins at"):
            store.raw.begin_at(0)
        offsets = [m.physical_offset for m in store]
    assert offsets == [row["physical_offset"] for row in master.rows if row["physical_offset"] >= begin]
    with open_slave(tmp_path, master) as store:
        assert (store.raw.begin, store.raw.end) == (begin, len(master.log))


@pytest.mark.parametrize(
    "name, place, change",
    [
        ("a body's bit", 100, 1),
        ("the magic", 5, 1),
        ("its own offset", 35, 1),
        ("a size of 0", 3, None),
    ],
)
def test_a_record_that_does_not_count_is_refused(
    tmp_path: Path, master: GoldenMaster, name: str, place: int, change: int | None
):
    at, size = next(r for r in master.records[20:] if r[1] > 200)
    log = bytearray(master.log)
    log[at + place] = 0 if change is None else log[at + place] ^ change
    with open_slave(tmp_path, master) as store:
        with pytest.raises(DamagedStreamError, match=f"offset {at} ") as caught:
            send(store.raw, bytes(log), len(log))
        assert caught.value.reason == "damaged"
        assert store.raw.end == store.raw.received == at
        assert not any(log_bytes(tmp_path)[at:])
        with pytest.raises(DamagedStreamError):
            send(store.raw, bytes(log), len(log))
    with open_slave(tmp_path, master) as store:  # the next start goes on from the last record that counts
        assert store.raw.end == at
        send(store.raw, master.log, len(master.log))


def test_a_kill_amid_damage_cuts_it_off(tmp_path: Path, master: GoldenMaster, monkeypatch: pytest.MonkeyPatch):
    at, size = next(r for r in master.records[20:] if r[1] > 200)
    log = bytearray(master.log)
    log[at + 120] ^= 1
    dead = tmp_path / "dead"
    with open_slave(tmp_path / "live", master) as store:
        send(store.raw, master.log, at)
        store.raw.flush()
        store._parts.checkpointer.write()
        monkeypatch.setattr(RawLog, "discard", lambda raw: None)  # the kill comes first
        with pytest.raises(DamagedStreamError):
            store.raw.append_raw(at, bytes(log[at : at + 30_000]))
        shutil.copytree(tmp_path / "live", dead)
        monkeypatch.undo()
    with open_slave(dead, master) as store:
        assert store.raw.end == at
        assert not any(log_bytes(dead)[at:])


def test_zeros_are_no_log(tmp_path: Path, master: GoldenMaster):
    at = master.records[5][0]
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, at)
        with pytest.raises(DamagedStreamError):
            store.raw.append_raw(at, bytes(500))
        assert store.raw.end == at


def test_a_blank_that_does_not_end_the_file_is_damage(tmp_path: Path, master: GoldenMaster):
    at = master.records[5][0]
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, at)
        with pytest.raises(DamagedStreamError, match="blank"):
            store.raw.append_raw(at, (100).to_bytes(4, "big") + (0xCBD43194).to_bytes(4, "big") + bytes(92))


def test_only_the_next_bytes_of_one_file_are_taken(tmp_path: Path, master: GoldenMaster):
    with open_slave(tmp_path, master) as store:
        raw = store.raw
        raw.begin_at(0)
        raw.append_raw(0, master.log[:1000])
        for offset, size in ((999, 1), (1001, 1), (0, 1000), (1000, master.file_size - 999)):
            with pytest.raises(UsageError):
                raw.append_raw(offset, master.log[offset : offset + size])
        assert raw.received == 1000
        assert raw.read(0, raw.end) == master.log[: raw.end]
        with pytest.raises(UsageError, match="no bytes"):
            raw.read(raw.end, 1)
    with pytest.raises(UsageError, match="closed"):
        raw.append_raw(raw.received, master.log[raw.received : raw.received + 1])


def test_a_slave_takes_no_puts_and_a_master_no_raw_bytes(tmp_path: Path, master: GoldenMaster):
    with open_slave(tmp_path / "slave", master) as store:
        assert store.put(Message("T", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    with MessageStore(tmp_path / "master", dev=True) as store, pytest.raises(UsageError, match="SLAVE"):
        _ = store.raw


def test_flushed_under_sync_flush(tmp_path: Path, master: GoldenMaster):
    with open_slave(tmp_path, master, keys={"flushDiskType": "SYNC_FLUSH"}) as store:
        send(store.raw, master.log, 3 * master.file_size)
        store.raw.flush()
        assert store.raw.durable == store.raw.end > 2 * master.file_size
        assert store.wait_dispatched(60)


def test_a_file_that_cannot_be_made_is_an_error_and_what_came_stays(tmp_path: Path, master: GoldenMaster):
    disk = Faulty()
    second = f"{master.file_size:020}"
    with open_slave(tmp_path, master, effects=disk) as store:
        disk.refuse("create", second, errno.ENOSPC)
        with pytest.raises(StoreAccessError, match="cannot be made"):
            send(store.raw, master.log, len(master.log))
        assert store.raw.end == store.raw.received == master.file_size
        disk.rules.clear()
        send(store.raw, master.log, len(master.log))
    assert log_bytes(tmp_path).rstrip(b"\0") == master.log.rstrip(b"\0")


def test_a_failed_sync_ends_it(tmp_path: Path, master: GoldenMaster):
    disk = Faulty()
    with unclean(), open_slave(tmp_path, master, effects=disk) as store:
        send(store.raw, master.log, 1000)
        disk.refuse("sync", "commitlog")
        with pytest.raises(StoreError, match="flushed"):
            store.raw.flush()
        with pytest.raises(StoreError, match="restart"):
            store.raw.append_raw(1000, master.log[1000:2000])


def test_a_store_that_was_opened_as_a_master_says_so(tmp_path: Path, master: GoldenMaster):
    disk = Faulty()
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, len(master.log))
    known = followed.read(str(tmp_path), disk)
    assert known is not None and known.mastered_at is None
    with MessageStore(tmp_path, config=master.config) as store:
        assert store.put(Message("T0", b"mine", queue_id=0)).status is PutMessageStatus.PUT_OK
    with MessageStore(tmp_path, config=master.config):
        pass
    known = followed.read(str(tmp_path), disk)
    assert known is not None and known.mastered_at == len(master.log)


def test_the_log_is_cut_where_it_is_asked(tmp_path: Path, master: GoldenMaster):
    with open_slave(tmp_path, master) as store:
        send(store.raw, master.log, len(master.log))
    cut, _ = master.records[len(master.records) // 2]
    with open_slave(tmp_path, master, cut_at=cut) as store:
        assert store.raw.end == cut
        assert [m.physical_offset for m in store] == [
            r["physical_offset"] for r in master.rows if r["physical_offset"] < cut
        ]
        send(store.raw, master.log, len(master.log))
    assert log_bytes(tmp_path).rstrip(b"\0") == master.log.rstrip(b"\0")
    assert queue_units(tmp_path) == master.queue_units()
    kept = sorted(int(file.name.split("-")[0]) for file in (tmp_path / "quarantine").iterdir())
    assert kept == [row["physical_offset"] for row in master.rows if row["physical_offset"] >= cut]
