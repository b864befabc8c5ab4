"""The append side of the log: bytes against the reference codec, queue offsets, roll-over, refusals, the clock."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import record
from flintmq.kernels.write.fast_append import AppendTarget, Topic
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog, LogState
from tests.support.engine import FILE_SIZE, open_small, records
from tests.support.faults import Faulty
from tests.support.interrupts import interrupted_at

LOCAL = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
NOW = 1_700_000_000_000


class Log:
    """A commit log in a directory, with its disk and clock in a test's hands."""

    def __init__(self, root: Path, host: str = "127.0.0.1:10911", state: LogState | None = None, **keys: Any) -> None:
        self.root, self.effects = root, Faulty()
        self.effects.clock = NOW
        config = StoreConfig.from_keys({"mappedFileSizeCommitLog": FILE_SIZE} | keys)
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(self.files, config, state or LogState(0, 0, {}), host)

    def put(self, topic: str = "T", body: bytes = b"hello", **rest: Any) -> PutResult:
        result = self.log.append(Message(topic, body, **rest))
        with self.log.lock:  # else other threads' puts go on meanwhile
            self.log.check_invariants()
        return result

    def records(self) -> list[record.Record]:
        self.files.close()
        return records(self.root)


def test_a_record_has_every_field_of_the_message(tmp_path: Path):
    log = Log(tmp_path)
    result = log.put(
        "Topic", b"body", tags="a", keys="k", properties={"p": "v"}, queue_id=3, flag=-7, sys_flag=0x301,
        reconsume_times=2, prepared_transaction_offset=77, born_timestamp=123,
    )  # fmt: skip
    wanted = record.Record(
        record.MAGIC_V1, record.crc(b"body"), 3, -7, 0, 0, 0x301, 123, LOCAL, NOW, LOCAL, 2, 77, b"body", b"Topic",
        b"p\x01v\x02KEYS\x01k\x02TAGS\x01a\x02",
    )  # fmt: skip
    assert log.records() == [wanted]
    assert result == PutResult(PutMessageStatus.PUT_OK, 0, 0, wanted.size, NOW, LOCAL)
    assert result.outcome is Outcome.OK
    assert result.offset_msg_id == "7F00000100002A9F0000000000000000"
    assert (tmp_path / "commitlog" / ("0" * 20)).read_bytes() == record.encode(wanted).ljust(FILE_SIZE, b"\0")


def test_an_ipv6_host_sets_both_flags(tmp_path: Path):
    log = Log(tmp_path, host="[2001:db8::1]:10911")
    result = log.put(sys_flag=1)
    [found] = log.records()
    host = bytes.fromhex("20010db8000000000000000000000001") + (10911).to_bytes(4, "big")
    assert (found.sys_flag, found.born_host, found.store_host) == (0x31, host, host)
    assert result.offset_msg_id == host.hex().upper() + "0" * 16


def test_topics_of_more_than_127_bytes_make_v2_records(tmp_path: Path):
    log = Log(tmp_path)
    for topic in ("t" * 127, "%RETRY%" + "t" * 121, "%DLQ%" + "主" * 60):
        assert log.put(topic).status is PutMessageStatus.PUT_OK
    assert [r.magic for r in log.records()] == [record.MAGIC_V1, record.MAGIC_V2, record.MAGIC_V2]


def test_queue_offsets_count_up_by_queue_from_where_the_log_ended(tmp_path: Path):
    log = Log(tmp_path, state=LogState(0, 0, {(b"T", 1): 41}))
    places = [("T", 0), ("T", 1), ("U", 0), ("T", 0), ("T", 1), ("T", 0)]
    assert [log.put(t, queue_id=q).queue_offset for t, q in places] == [0, 41, 0, 1, 42, 2]
    assert log.log.next_offsets == {(b"T", 0): 3, (b"T", 1): 43, (b"U", 0): 1}
    assert [r.queue_offset for r in log.records()] == [0, 41, 0, 1, 42, 2]


@pytest.mark.parametrize(("bits", "counted"), [(0, True), (4, False), (8, True), (12, False)])
def test_prepared_and_rolled_back_records_take_no_queue_offset(tmp_path: Path, bits: int, counted: bool):
    log = Log(tmp_path)
    messages = [Message("T", b"x", sys_flag=flag) for flag in (0, bits, 0)]
    found = [result.queue_offset for result in log.log.append_many(messages, delivered=True)]
    assert found == ([0, 1, 2] if counted else [0, 0, 1])
    assert [r.queue_offset for r in log.records()] == ([0, 1, 2] if counted else [0, 0, 1])


def test_a_file_ends_with_a_blank_record_and_the_next_one_goes_on(tmp_path: Path):
    log = Log(tmp_path)
    results = [log.put(body=bytes([n]) * 500) for n in range(20)]
    size = results[0].size
    per_file = (FILE_SIZE - 8) // size
    wanted = [(n // per_file) * FILE_SIZE + n % per_file * size for n in range(20)]
    assert [r.physical_offset for r in results] == wanted
    assert log.log.end == wanted[-1] + size
    found = log.records()
    assert [r.body[0] for r in found] == list(range(20)) and [r.queue_offset for r in found] == list(range(20))
    end_of_first = (tmp_path / "commitlog" / ("0" * 20)).read_bytes()[per_file * size :]
    rest = FILE_SIZE - per_file * size
    assert end_of_first == rest.to_bytes(4, "big") + bytes.fromhex("cbd43194") + bytes(rest - 8)


def test_a_record_that_leaves_eight_bytes_is_followed_by_an_eight_byte_blank(tmp_path: Path):
    log = Log(tmp_path)
    overhead = log.put(body=b"").size
    exact = log.put(body=bytes(FILE_SIZE - 2 * overhead - 8))
    assert exact.physical_offset + exact.size == FILE_SIZE - 8
    assert log.log.end == FILE_SIZE - 8
    assert log.put().physical_offset == FILE_SIZE
    assert (tmp_path / "commitlog" / ("0" * 20)).read_bytes()[-8:] == bytes.fromhex("00000008cbd43194")
    assert len(log.records()) == 3


def test_what_is_refused_leaves_no_trace(tmp_path: Path):
    log = Log(tmp_path, maxMessageSize="1000")
    log.put()
    before, positions = dict(log.log.next_offsets), (log.log.end, len(log.files.files))
    too_long = {"p": "v" * 32765}
    for refused, status in [
        (log.put(body=bytes(1001)), PutMessageStatus.MESSAGE_ILLEGAL),
        (log.put("t" * 128), PutMessageStatus.MESSAGE_ILLEGAL),
        (log.put("a/b"), PutMessageStatus.MESSAGE_ILLEGAL),
        (log.put(tags="a\x01"), PutMessageStatus.MESSAGE_ILLEGAL),
        (log.put(properties=too_long), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (log.put(properties_bytes=b"p" * FILE_SIZE), PutMessageStatus.MESSAGE_ILLEGAL),  # D8: no file can hold it
        (log.put(properties_bytes=b"p\x01\0\x02"), PutMessageStatus.MESSAGE_ILLEGAL),
    ]:
        assert refused == PutResult(status)
        assert refused.outcome is Outcome.FAILED and refused.offset_msg_id == ""
    assert (log.log.next_offsets, (log.log.end, len(log.files.files))) == (before, positions)
    assert len(log.records()) == 1


def test_a_full_disk_is_a_status_and_passes(tmp_path: Path):
    log = Log(tmp_path)
    log.effects.refuse("allocate", error=errno.ENOSPC, times=2)
    for _ in range(2):
        assert log.put() == PutResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)
    assert log.put().queue_offset == 0
    log.effects.refuse("allocate", f"{FILE_SIZE:020d}", error=errno.ENOSPC, times=1)
    results = [log.put(body=bytes(500)) for _ in range(12)]
    failed = [r for r in results if r.status is not PutMessageStatus.PUT_OK]
    assert failed == [PutResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)], "at the roll-over, once"
    assert [r.queue_offset for r in log.records()] == list(range(12))


@pytest.mark.parametrize("call", ["create", "sync", "sync_dir", "map_write"])
def test_a_file_that_cannot_be_made_is_a_status(tmp_path: Path, call: str):
    log = Log(tmp_path)
    log.effects.refuse(call, "commitlog", times=1)
    assert log.put().status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
    assert log.put().status is PutMessageStatus.PUT_OK
    assert len(log.records()) == 1


def test_store_times_never_step_back_unless_the_clock_was_set(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    log = Log(tmp_path, state=LogState(0, NOW, {}))
    hour = 3_600_000
    clocks = [NOW - 5, NOW + 10, NOW + 9, NOW + 10 - hour + 1, NOW + 20]
    told = []
    for clock in clocks:
        log.effects.clock = clock
        told.append(log.put().store_timestamp)
    assert told == [NOW, NOW + 10, NOW + 10, NOW + 10, NOW + 20]
    with caplog.at_level(logging.WARNING):
        for clock in (NOW + 20 - hour, NOW + 21 - hour):
            log.effects.clock = clock
            assert log.put().store_timestamp == clock
    assert len(caplog.records) == 1
    assert [r.store_timestamp for r in log.records()] == [*told, NOW + 20 - hour, NOW + 21 - hour]


def test_the_born_time_is_the_store_s_where_the_message_has_none(tmp_path: Path):
    log = Log(tmp_path)
    log.put()
    log.put(born_timestamp=0)
    assert [r.born_timestamp for r in log.records()] == [NOW, 0]


def test_the_crc_property_covers_the_record(tmp_path: Path):
    log = Log(tmp_path, enabledAppendPropCRC="true")
    log.put(tags="a")
    [found] = log.records()
    head, tail = found.properties[:-20], found.properties[-20:]
    assert head == b"TAGS\x01a\x02" and tail.startswith(b"__CRC32#\x01")
    assert found == record.append_crc_property(found._replace(properties=head))


@pytest.mark.parametrize("rolls_over", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interrupt_inside_a_put_takes_no_offset_twice_and_no_record_apart(
    tmp_path: Path, rolls_over: bool, error: type[BaseException]
):
    """SIGINT may fall anywhere in the main thread, and the user, or another thread, goes on putting.

    So may a handler's TimeoutError, which is an OSError like those of the disk: it reaches the caller all the same.
    """
    step, told = 0, list[PutResult]()
    while True:
        log = Log(tmp_path / f"{step}")
        while rolls_over and log.log.end < FILE_SIZE - 600:
            log.put(body=bytes(400))
        log.put(body=b"before")
        body = b"interrupted" * (60 if rolls_over else 1)
        if not interrupted_at(step, lambda log=log, body=body: told.append(log.put(body=body)), error=error):
            break
        assert not log.log.lock.locked(), step
        results = [log.put(body=b"after%d" % n) for n in range(3)]
        found = log.records()
        assert [r.queue_offset for r in found] == list(range(len(found))), step
        places = {r.physical_offset: r for r in found}
        for n, result in enumerate(results):
            assert places[result.physical_offset].body == b"after%d" % n, step
            assert places[result.physical_offset].queue_offset == result.queue_offset, step
        last = found[-1]
        assert log.log.end == last.physical_offset + last.size, step
        step += 1
    assert step > 10
    assert {result.status for result in told} == {PutMessageStatus.PUT_OK}


def test_a_log_goes_on_where_it_ended(tmp_path: Path):
    first = Log(tmp_path)
    ends = [first.put(body=bytes(n * 10)) for n in range(5)]
    first.files.close()
    end = ends[-1].physical_offset + ends[-1].size
    again = Log(tmp_path, state=LogState(end, NOW + 3, {(b"T", 0): 5}))
    again.files.load([(str(tmp_path / "commitlog" / ("0" * 20)), 0)], end)
    result = again.put()
    assert (result.physical_offset, result.queue_offset, result.store_timestamp) == (end, 5, NOW + 3)
    assert len(again.records()) == 6


def test_the_senders_host_is_stored(tmp_path: Path):
    """Raw bytes by hand: address, then the port in four bytes; an IPv6 address sets the flag of the born host alone."""
    with open_small(tmp_path / "s") as store:
        four = store.put(Message("T", b"a", born_host="10.1.2.3:456"))
        six = store.put(Message("T", b"b", born_host="[2001:db8::5]:70"))
        own = store.put(Message("T", b"c"))
        bad = store.put(Message("T", b"d", born_host="localhost:1"))
        found = {m.physical_offset: m for m in store}
    assert found[four.physical_offset].fields.born_host == bytes([10, 1, 2, 3, 0, 0, 1, 200])
    six_raw = bytes.fromhex("20010db8000000000000000000000005") + bytes([0, 0, 0, 70])
    assert found[six.physical_offset].fields.born_host == six_raw
    assert [found[r.physical_offset].sys_flag for r in (four, six, own)] == [0, 0x10, 0]
    assert found[own.physical_offset].born_host == "127.0.0.1:10911"
    assert (bad.status, len(found)) == (PutMessageStatus.MESSAGE_ILLEGAL, 3)


def test_a_full_disk_is_told_once_and_again_when_it_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flintmq")
    effects = Faulty()
    with open_small(tmp_path, effects) as store:
        for turn in range(2):
            for call in ("create", "allocate"):
                effects.refuse(call, "commitlog/", error=errno.ENOSPC)
            results = [store.put(Message("T", bytes(300))) for _ in range(60)]
            assert [r.status for r in results[-20:]] == [PutMessageStatus.CREATE_MAPPED_FILE_FAILED] * 20
            effects.rules.clear()
            assert store.put(Message("T", bytes(300))).status is PutMessageStatus.PUT_OK
            told = [r for r in caplog.records if "commit log file" in r.message or "no space" in r.message]
            over = [r for r in caplog.records if "accepted again" in r.message]
            made = [r for r in caplog.records if r.message.startswith("the log file at offset")]
            assert len(told) == len(over) == turn + 1 and len(made) <= turn + 1


def spoil_two_tables(log: CommitLog) -> None:
    log.appender.topics["T"] = Topic(b"T")


def spoil_old_target(log: CommitLog) -> None:
    log.appender.target = AppendTarget()
    log.appender.target.size = 100
    log.appender.target.wrote = 0  # uncompiled it has no other


BROKEN: list[tuple[str, Callable[[CommitLog], object]]] = [
    ("an end of its own", lambda log: setattr(log.appender, "end", log.end - 1)),
    ("an end behind all", lambda log: setattr(log.appender, "end", log.end + 1)),
    ("flushed behind the end", lambda log: setattr(log.files, "flushed_where", log.end + 1)),
    ("shut for good", lambda log: setattr(log.appender, "held", True)),
    ("a queue before its begin", lambda log: setattr(log.appender.topics["T"].places[0], "next", -1)),
    ("begun in a file that is gone", lambda log: setattr(log.appender, "begun", SimpleNamespace(file=None))),
    ("two tables", spoil_two_tables),
    ("a target that is no file of the log", spoil_old_target),
    ("written in a file before the last", lambda log: setattr(log.files.files[0], "wrote", 100)),
]


@pytest.mark.parametrize(("what", "spoil"), BROKEN, ids=[what for what, _ in BROKEN])
def test_the_invariants_notice_a_broken_log(tmp_path: Path, what: str, spoil: Callable[[CommitLog], object]):
    log = Log(tmp_path)
    while len(log.files.files) < 2:
        log.put(body=bytes(1000))
    log.log.check_invariants()
    spoil(log.log)
    with pytest.raises(AssertionError):
        log.log.check_invariants()
