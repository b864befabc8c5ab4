"""kernels/write/fast_append: the fast way of a put writes what the slow way and the reference write, or leaves the put
alone."""

import os
import pickle
import threading
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.config.keys import StoreConfig
from flintmq.format import record
from flintmq.format.message_id import host_text, parse_client_id, parse_host
from flintmq.kernels.write import fast_append
from flintmq.kernels.write.fast_append import QueueCounter
from flintmq.message import Message, PutMessageStatus, PutResult
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append import commit_log
from flintmq.store.append.commit_log import DEFAULT_HOST, CommitLog, LogState
from flintmq.store.append.unique_keys import UniqueKeys
from tests.compat.stores import Golden
from tests.support.faults import Faulty
from tests.support.golden_logs import records
from tests.support.threads import at_once

COMPILED = fast_append.__file__.endswith(".so")
FILE_SIZE = 1 << 20
FIELDS = ("status", "queue_offset", "physical_offset", "size", "store_timestamp", "store_host")
HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
only_compiled = pytest.mark.skipif(not COMPILED, reason="the fast way is the compiled one")


class Log:
    """A commit log that takes the fast way wherever it can, or (slow=True) never."""

    def __init__(
        self, root: Path, slow: bool = False, unique: bool = False, host: str = DEFAULT_HOST, **keys: Any
    ) -> None:
        self.root, self.effects = root, Faulty() if slow else REAL
        config = StoreConfig.from_keys({"mappedFileSizeCommitLog": FILE_SIZE} | keys)
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(
            self.files, config, LogState(0, 0, {}), host, unique=UniqueKeys(self.effects) if unique else None
        )

    @property
    def appender(self) -> fast_append.Appender:
        return self.log.appender

    def warm(self, topic: str = "T", queue_id: int = 0) -> Self:
        """The first message of a queue always goes the slow way."""
        assert self.log.append(Message(topic, b"first", queue_id=queue_id)).status is PutMessageStatus.PUT_OK
        return self

    def data(self) -> bytes:
        return bytes(self.files.files[0].view[: self.files.files[0].wrote])


@pytest.fixture
def log(tmp_path: Path):
    made = Log(tmp_path).warm()
    yield made
    made.files.close()


@only_compiled
def test_a_record_is_what_the_reference_makes(log: Log):
    at = log.log.end
    message = Message(
        "T", b"body", tags="a", keys="k1 k2", properties={"p": "v"}, flag=-7, sys_flag=0x301, reconsume_times=2,
        prepared_transaction_offset=77, born_timestamp=123,
    )  # fmt: skip
    result = log.appender.append(message)
    wanted = record.Record(
        record.MAGIC_V1, record.crc(b"body"), 0, -7, 1, at, 0x301, 123, HOST, result.store_timestamp, HOST, 2, 77,
        b"body", b"T", b"p\x01v\x02KEYS\x01k1 k2\x02TAGS\x01a\x02",
    )  # fmt: skip
    assert log.data()[at:] == record.encode(wanted)
    assert result == PutResult(PutMessageStatus.PUT_OK, 1, at, wanted.size, result.store_timestamp, HOST)
    assert (log.log.end, log.log.last_time, log.log.next_offsets) == (
        at + wanted.size, result.store_timestamp, {(b"T", 0): 2},
    )  # fmt: skip


V6 = "[2001:db8::1]:10911"
SENDERS = ["10.1.2.3:456", "255.255.255.255:-1", "[2001:db8::5]:70", "[::ffff:1.2.3.4]:2147483647"]


@only_compiled
@pytest.mark.parametrize("own", [DEFAULT_HOST, V6])
@pytest.mark.parametrize("sender", [*SENDERS, None])
@pytest.mark.parametrize("given_flags", [0, 0x10, 0x20, 0x31])
def test_the_sender_s_host_is_what_the_reference_makes(tmp_path: Path, own: str, sender: str | None, given_flags: int):
    """The flags of the hosts are those of the addresses, whatever the sender says."""
    log = Log(tmp_path, host=own).warm()
    message = Message("T", b"body", sys_flag=given_flags, born_host=sender, born_timestamp=1)
    if sender is not None:
        assert log.appender.append(message) is None, "a sender's first message goes the slow way"
        assert log.log.append(message)
    at, offset = log.log.end, log.log.next_offsets[b"T", 0]
    result = log.appender.append(message)
    born, store = parse_host(sender or own), parse_host(own)
    flags = given_flags & 1 | (0x10 if len(born) == 20 else 0) | (0x20 if len(store) == 20 else 0)
    wanted = record.Record(
        record.MAGIC_V1, record.crc(b"body"), 0, 0, offset, at, flags, 1, born, result.store_timestamp, store, 0, 0,
        b"body", b"T", b"",
    )  # fmt: skip
    assert log.data()[at:] == record.encode(wanted) and result.store_host == store
    assert log.appender.append(Message("T", b"after", born_timestamp=1)).size == len(
        record.encode(wanted._replace(born_host=store, body=b"after", sys_flag=0x30 if len(store) == 20 else 0))
    ), "the sender of the message before is forgotten"
    log.files.close()


@only_compiled
def test_more_senders_than_are_kept_are_met_anew(log: Log, monkeypatch: pytest.MonkeyPatch):
    """None is mixed up with another, and the table stays bounded."""
    monkeypatch.setattr(commit_log, "MOST_SENDERS", 3)
    begin, hosts = log.log.end, [f"10.0.{n % 7}.1:{n}" for n in range(20)] + ["nowhere", "", *SENDERS] * 2
    for host in hosts:
        for _ in range(2):
            message = Message("T", b"x", born_host=host)
            assert (log.log.append(message).status is PutMessageStatus.PUT_OK) is (":" in host)
        assert len(log.appender.senders) <= 3 and set(map(type, log.appender.senders)) == {str}
    data, stored = log.data(), []
    while begin < log.log.end:
        found = record.check(data, begin, begin, file_end=FILE_SIZE)
        stored.append(host_text(found.born_host))
        begin += found.size
    assert stored == [host_text(parse_host(host)) for host in hosts if ":" in host for _ in range(2)]


@only_compiled
def test_messages_of_clients_are_javas_bytes(golden_store: Golden, tmp_path: Path):
    """Each message of a golden store, put again: Java's record, but for the place and the time that the log gives."""
    logs: dict[str, Log] = {}
    compared = 0
    for number, (row, data, at) in enumerate(records(golden_store)):
        java = bytearray(data[at : at + row["size"]])
        whole = record.check(data, at, row["physical_offset"], max_size=len(data))
        if row["store_host"] not in logs:
            logs[row["store_host"]] = Log(tmp_path / str(number), host=row["store_host"]).warm()
        log = logs[row["store_host"]]
        topic = log.log.get_or_create_topic(whole.topic.decode())
        if topic is not None:
            topic.places.setdefault(whole.queue_id, QueueCounter(0)).next = whole.queue_offset
        begin = log.log.end
        message = Message(
            whole.topic.decode(), whole.body, queue_id=whole.queue_id, flag=whole.flag,
            sys_flag=whole.sys_flag & ~0x30, born_timestamp=whole.born_timestamp,
            reconsume_times=whole.reconsume_times, born_host=row["born_host"],
            prepared_transaction_offset=whole.prepared_transaction_offset, properties_bytes=whole.properties,
        )  # fmt: skip
        log.log.hosts_of(message)  # the sender was met before
        result = log.appender.append(message)
        if result is None:
            special = any(name in whole.properties for name in (b"DELAY", b"TIMER", b"INNER"))
            large = len(whole.body) > fast_append.MOST_BODY
            assert topic is None or special or large or whole.sys_flag & 0x84 or whole.topic == b"rmq_sys_wheel_timer"
            continue
        compared += 1
        time = 48 + len(whole.born_host)
        java[28:36] = begin.to_bytes(8, "big")
        java[time : time + 8] = result.store_timestamp.to_bytes(8, "big")
        assert log.data()[begin:] == java
    assert compared >= len(golden_store.rows) / 3 or golden_store.name.startswith(("timer", "lmq", "delay"))
    for log in logs.values():
        log.files.close()


@only_compiled
@pytest.mark.parametrize("properties", [None, {}, {"p": "v", "UNIQ_KE": "", "UNIQ_KEY2": "", "uniq_key": "x"}], ids=str)
def test_a_message_without_a_unique_key_gets_one_behind_its_properties(tmp_path: Path, properties: Any):
    log = Log(tmp_path, unique=True).warm()
    at, before = log.log.end, int(REAL.now_ms())
    result = log.appender.append(Message("T", b"body", tags="a", keys="k", wait=False, properties=properties))
    own = "".join(f"{name}\1{value}\2" for name, value in (properties or {}).items())
    wanted = f"{own}UNIQ_KEY\1{result.msg_id}\2KEYS\1k\2TAGS\1a\2WAIT\1false\2"
    stored = record.check(log.data(), at, at, file_end=FILE_SIZE)
    assert stored.properties == wanted.encode() and log.log.end == at + stored.size
    says, keys = parse_client_id(result.msg_id), log.log.unique
    assert before - 20 <= keys.begin + says.month_ms <= int(REAL.now_ms()) and says.counter == 1, "a coarse clock"
    assert says.pid == os.getpid() & 0xFFFF and result.msg_id.startswith(keys.prefix.decode())
    log.files.close()


@only_compiled
@pytest.mark.parametrize("own", ["MINE", "", "报警"])
def test_a_unique_key_of_its_own_stays_and_is_told(tmp_path: Path, own: str):
    log = Log(tmp_path, unique=True).warm()
    at = log.log.end
    given = [
        Message("T", b"1", properties={"a": "b", "UNIQ_KEY": own}),
        Message("T", b"2", properties_bytes=f"UNIQ_KEY\1{own}\2c\1d\2".encode()),
        Message("T", b"3", properties_bytes=b"a\1b\2"),
        Message("T", b"4", properties_bytes=b""),
    ]
    results = [log.appender.append(message) for message in given]
    told = [own or None, own or None, None, None]
    assert [result.msg_id for result in results] == told
    assert [r.with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT).msg_id for r in results] == told
    assert [pickle.loads(pickle.dumps(r)) == r for r in results] == [True] * 4
    texts = []
    for _ in given:
        texts.append(record.check(log.data(), at, at, file_end=FILE_SIZE).properties.decode())
        at += record.check(log.data(), at, at, file_end=FILE_SIZE).size
    assert texts == [f"a\1b\2UNIQ_KEY\1{own}\2", f"UNIQ_KEY\1{own}\2c\1d\2", "a\1b\2", ""]
    log.files.close()


@only_compiled
def test_another_month_is_started_by_the_slow_way(tmp_path: Path):
    log = Log(tmp_path, unique=True).warm()
    message, keys = Message("T", b"x"), log.log.unique
    assert log.appender.append(message) is not None
    for begin in (0, 1 << 45):  # it is over; the clock was set back
        old = b"0" * 20
        keys.start(begin, begin + 1, old)
        end = log.log.end
        assert log.appender.append(message) is None and log.log.end == end
        assert log.log.append(message).msg_id[:20] != old.decode()
        assert log.appender.append(message) is not None
    log.files.close()


TEXT = st.text(st.characters(exclude_characters="\0\x01\x02"), max_size=20)
PLAIN = {
    "topic": st.sampled_from(["T", "报警", "%RETRY%" + "t" * 140]),
    "body": st.binary(max_size=300),
    "tags": st.none() | TEXT,
    "keys": st.none() | TEXT,
    "properties": st.none() | st.dictionaries(TEXT | st.just("UNIQ_KEY"), TEXT, max_size=4),
    "queue_id": st.sampled_from([0, 3, 0x7FFFFFFF]),
    "flag": st.integers(-(1 << 31), (1 << 31) - 1),
    "wait": st.booleans(),
    "born_timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
    "sys_flag": st.sampled_from([0, 1, 8, 0x301]),
    "reconsume_times": st.integers(0, 1 << 20),
    "prepared_transaction_offset": st.integers(0, 1 << 60),
    "properties_bytes": st.none() | st.binary(max_size=40),
    "born_host": st.none() | st.sampled_from(SENDERS),
}
HARD = {
    "properties": st.dictionaries(
        st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "a\x01", "", "\ud800"]), TEXT
    ),
    "tags": st.sampled_from(["a\x01", "\x02", "a\0b", "\udfff", "", None]),
    "sys_flag": st.sampled_from([0, 4, 8, 12, 0x10, 0x3F]),
    "born_host": st.sampled_from([*SENDERS, "", "localhost:1", "1.2.3.4", "1.2.3.4:2147483648", "[::1%0]:1", "\udfff"]),
    "body": st.sampled_from([bytes(70_000), bytes(5_000_000)]),
    "queue_id": st.sampled_from([-1, 5]),
    "topic": st.sampled_from(["T", "a/b", "t" * 200, "", "T\ud800"]),
    "properties_bytes": st.sampled_from(
        [b"DELAY\x013\x02", b"a\0", b"p" * 33_000, b"x\x01y\x02TIMER_DELAY_MS\x011\x02"]
    ),
}


@pytest.mark.parametrize(("crc_property", "unique"), [(False, False), (True, False), (False, True)])
@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(
        st.fixed_dictionaries(PLAIN) | st.fixed_dictionaries({"born_timestamp": st.just(5)}, optional=HARD),
        max_size=12,
    ),
    at_once=st.booleans(),
)
def test_both_ways_write_the_same_bytes(tmp_path_factory, crc_property, unique, messages, at_once):
    root = tmp_path_factory.mktemp("log")
    keys = {"enabledAppendPropCRC": str(crc_property).lower()}
    fast, slow = Log(root / "fast", unique=unique, **keys), Log(root / "slow", slow=True, unique=unique, **keys)
    given_messages = [Message(**({"topic": "T"} | fields)) for fields in messages]
    made: list[tuple[bytes, bytes]] = []
    got = fast.log.append_many(given_messages) if at_once else [fast.log.append(message) for message in given_messages]
    for message, result in zip(given_messages, got, strict=True):
        slow.effects.clock = result.store_timestamp or 1
        other = slow.log.append(message)
        if unique and other.msg_id != result.msg_id:  # each gives its own
            made += [(result.msg_id.encode(), other.msg_id.encode())]
            fields = {name: getattr(other, name) for name in FIELDS}
            other = PutResult(**fields, reason=other.reason, msg_id=result.msg_id)
        assert other == result
    assert fast.log.end == slow.log.end and fast.log.next_offsets == slow.log.next_offsets
    if fast.log.end:
        data = fast.data()
        for ours, theirs in made:
            assert len(ours) == len(theirs) == 32 and data.count(ours) == 1
            data = data.replace(ours, theirs)
        assert data == slow.data()
    fast.files.close()
    slow.files.close()


@only_compiled
@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "never met"}, {"queue_id": 1}, {"sys_flag": 4}, {"sys_flag": 12},
        {"body": bytes(fast_append.MOST_BODY + 1)}, {"properties": {"DELAY": "3"}},
        {"properties": {"TIMER_OUT_MS": "1"}},
        {"properties_bytes": b"a\x01b\x02DELAY\x013\x02"}, {"tags": "a\x01"},
        {"born_host": ""}, {"born_host": "localhost:1"}, {"born_host": "1.2.3.4"}, {"born_host": "\ud800:1"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_plain_is_left_alone(log: Log, changes: dict[str, Any]):
    before = log.data(), log.log.end, log.log.next_offsets
    message = Message("T", b"x")
    for name, value in changes.items():
        setattr(message, name, value)
    assert log.appender.append(message) is None
    assert (log.data(), log.log.end, log.log.next_offsets) == before


@only_compiled
@pytest.mark.parametrize("field", ["flag", "sys_flag", "reconsume_times", "queue_id", "delay_level"])
def test_a_number_that_got_past_its_check_is_not_cut_off(log: Log, field: str):
    """The fields of a compiled message have 64 bits, those of a record 32."""
    assert log.log.append(Message("T", b"x"))
    before = log.data(), log.log.end, log.log.next_offsets
    message = Message("T", b"x")
    vars(Message)[field].__set__(message, (1 << 32) + 1)
    for put in (log.log.append, lambda one: log.log.append_many([one])):
        with pytest.raises(ValueError, match=f"^Message: {field}=4294967297 does not fit"):
            put(message)
    assert (log.data(), log.log.end, log.log.next_offsets) == before


def test_a_dict_of_properties_that_is_changed_later_is_said_by_the_put(log: Log):
    before = log.data(), log.log.end, log.log.next_offsets
    properties: dict[str, Any] = {"a": "b"}
    message = Message("T", b"x", properties=properties)
    properties["a"] = 1
    for put in (log.log.append, lambda one: log.log.append_many([one])):
        with pytest.raises(TypeError, match="^Message: property 'a' is of type int"):
            put(message)
    assert (log.data(), log.log.end, log.log.next_offsets) == before


@only_compiled
@pytest.mark.parametrize("state", [{"held": True}, {"closed": True}, {"begun": "something"}, {"target": None}], ids=str)
def test_nothing_is_put_while_the_slow_way_is_asked_for(log: Log, state: dict[str, Any]):
    message = Message("T", b"x")
    assert log.appender.append(message) is not None
    for name, value in state.items():
        setattr(log.appender, name, value)
    end = log.log.end
    assert log.appender.append(message) is None and log.appender.append_list([message], 0, []) == 0
    assert log.log.end == end


@only_compiled
def test_a_record_stays_in_the_reserved_window_and_leaves_room_for_the_blank(log: Log):
    message = Message("T", bytes(100))
    size = log.appender.append(message).size
    file = log.files.files[0]
    file.reserved = file.wrote + size
    assert log.appender.append(message) is not None
    assert log.appender.append(message) is None, "the window is full"
    file.reserved = file.size
    file.wrote = file.size - 8 - size
    assert log.appender.append(message) is not None, "eight bytes are left"
    file.wrote = file.size - 7 - size
    assert log.appender.append(message) is None


@only_compiled
def test_a_file_that_was_unmapped_takes_nothing(tmp_path: Path):
    log = Log(tmp_path).warm()
    log.files.close()
    assert log.appender.append(Message("T", b"x")) is None


@only_compiled
def test_store_times_never_step_back_and_a_clock_set_back_is_the_slow_way_s(log: Log):
    first = log.appender.append(Message("T", b"x")).store_timestamp
    log.appender.last_time = first + 60_000
    assert log.appender.append(Message("T", b"x")).store_timestamp == first + 60_000
    log.appender.last_time = first + 2 * fast_append.CLOCK_SET_BACK_MS
    assert log.appender.append(Message("T", b"x")) is None


@only_compiled
def test_a_list_is_put_up_to_the_first_that_is_not_plain(log: Log):
    results: list[PutResult] = []
    messages = [Message("T", b"0"), Message("T", b"1"), Message("T", b"2", sys_flag=4), Message("T", b"3")]
    assert log.appender.append_list(messages, 1, results) == 2
    assert [r.queue_offset for r in results] == [1]
    for wrong in (None, "text"):
        with pytest.raises(TypeError):
            log.appender.append_list([Message("T", b"4"), wrong], 0, results)
    assert log.log.next_offsets == {(b"T", 0): 4}


@only_compiled
def test_the_child_of_a_fork_puts_nothing(log: Log):
    child = os.fork()
    if child == 0:
        os._exit(0 if log.appender.forked and log.appender.append(Message("T", b"x")) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not log.appender.forked and log.appender.append(Message("T", b"x")) is not None


HALVES = ["\ud800", "\udfff", "caf\udce9"]  # the last is Latin 1 on a command line


@pytest.mark.parametrize("half", HALVES)
def test_text_that_is_no_unicode_is_refused(log: Log, half: str):
    """Java stores `?` for it, so two topics would be one, and a key would not be found by its own text."""
    assert log.log.append(Message("a?", b"x", keys="?")).queue_offset == 0
    for message in (
        Message(half, b"x"),
        Message("a?", b"x", keys=half),
        Message("a?", b"x", tags=half),
        Message("a?", b"x", properties={half: "x"}),
        Message("a?", b"x", properties={"x": half}),
    ):
        assert log.log.append(message).status is PutMessageStatus.MESSAGE_ILLEGAL
    assert log.log.append(Message("a?", b"x")).queue_offset == 1


def test_a_pair_in_two_halves_is_one_character(log: Log):
    """As Java's own text has it: "\\ud83d" and "\\ude00" together are U+1F600."""
    assert log.log.append(Message("a\ud83d\ude00", b"x", keys="\ud83d\ude00")).queue_offset == 0
    assert log.log.append(Message("a\U0001f600", b"x")).queue_offset == 1


@pytest.mark.parametrize("locks", [False, True], ids=["as it is here", "own lock"])
def test_fast_and_slow_puts_of_many_threads_are_one_prefix_without_holes(tmp_path: Path, locks: bool):
    log = Log(tmp_path, unique=True)
    log.appender.locks = locks or log.appender.locks
    told: list[list[PutResult]] = [[] for _ in range(4)]

    def work(number: int) -> None:
        for n in range(400):
            odd = {"sys_flag": 1, "properties": {"KEYS": "k"}} if n % 7 == number else {}
            told[number].append(log.log.append(Message("T", b"%d-%d" % (number, n), queue_id=n % 2, **odd)))

    at_once(*(partial(work, n) for n in range(4)))
    data, at, found = log.data(), 0, {}
    while at < len(data):
        found[at] = record.check(data, at, at, file_end=FILE_SIZE)
        at += found[at].size
    log.files.close()
    assert len(found) == 1600 and at == log.log.end
    assert len({result.msg_id for results in told for result in results}) == 1600
    for number, results in enumerate(told):
        for n, result in enumerate(results):
            stored = found[result.physical_offset]
            assert (stored.body, stored.queue_id) == (b"%d-%d" % (number, n), n % 2)
            assert stored.queue_offset == result.queue_offset
    for queue in (0, 1):
        assert [r.queue_offset for r in found.values() if r.queue_id == queue] == list(range(800))


@pytest.fixture
def locked(tmp_path: Path):
    """A log whose puts take a lock of their own, as where there is no GIL."""
    made = Log(tmp_path, unique=True)
    made.appender.locks = True
    yield made.warm()
    made.files.close()


def test_without_a_gil_and_where_it_is_asked_for_puts_take_a_lock_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FLINTMQ_PUT_LOCK", raising=False)
    for enabled in (True, False):
        monkeypatch.setattr(fast_append.sys, "_is_gil_enabled", lambda enabled=enabled: enabled, raising=False)
        assert fast_append.own_lock() is not enabled
    monkeypatch.delattr(fast_append.sys, "_is_gil_enabled")
    assert not fast_append.own_lock(), "before 3.13 there is always a GIL"
    for text, wanted in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("FLINTMQ_PUT_LOCK", text)
        assert fast_append.own_lock() is wanted


WAITING: dict[str, Any] = {
    "append": lambda log: log.appender.append(Message("T", b"x")),
    "append_list": lambda log: log.appender.append_list([Message("T", b"x")], 0, []),
    "a slow put": lambda log: log.log.append_slowly(Message("T", b"x")),
    "refuse": lambda log: log.log.refuse(True),
    "refuse for good": lambda log: log.log.refuse_for_good(),
}


@only_compiled
@pytest.mark.parametrize("name", WAITING)
def test_with_a_lock_of_its_own_nothing_passes_a_put_that_is_under_way(locked: Log, name: str):
    thread = threading.Thread(target=lambda: WAITING[name](locked))

    def begin() -> int:
        end = locked.log.end
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and locked.log.end == end, "it waits for the lock"
        assert not locked.appender.held and not locked.appender.refusing and not locked.appender.closed
        return end

    end = locked.appender.while_locked(begin)
    thread.join(30)
    assert not thread.is_alive()
    assert (locked.log.end > end) is ("refuse" not in name)
    assert locked.appender.refusing is (name == "refuse") and locked.appender.closed is (name == "refuse for good")


@only_compiled
def test_where_the_gil_is_the_lock_a_put_takes_no_other(log: Log):
    log.appender.locks = False
    assert log.appender.while_locked(lambda: log.appender.append(Message("T", b"x"))) is not None


@only_compiled
def test_the_child_of_a_fork_does_not_wait_for_a_lock_that_its_parent_had_taken(locked: Log):
    def in_child() -> bool:
        put, closing = Message("T", b"x"), locked.appender
        taken = closing.append(put) is None and closing.append_list([put], 0, []) == 0
        closing.held = closing.refusing = closing.closed = True
        return taken and closing.forked and closing.closed

    child = locked.appender.while_locked(os.fork)
    if child == 0:
        os._exit(0 if in_child() else 1)

    def in_fork() -> int:
        inner = os.fork()
        if inner == 0:
            os._exit(0 if in_child() else 1)
        return inner

    inner = locked.appender.while_locked(in_fork)
    for pid in (child, inner):
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert locked.appender.append(Message("T", b"x")) is not None


@only_compiled
def test_a_wrong_element_of_a_list_leaves_the_lock_free(locked: Log):
    with pytest.raises(TypeError):
        locked.appender.append_list([Message("T", b"1"), None], 0, [])
    assert locked.appender.append(Message("T", b"2")) is not None
