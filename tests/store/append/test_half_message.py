"""Messages of transactions: what real brokers stored for them is what these functions make, byte for byte."""

from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format import properties
from flintmq.message import Message, StoredMessage
from flintmq.store.append import half_message
from flintmq.store.view import open_store
from tests.support.engine import open_small

PEERS = {"config": "5.3.3", "config540": "5.4.0", "config550": "5.5.0"}
HALF, OUTCOME = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
BROKERS = ("REAL_TOPIC", "REAL_QID", "__transactionId__")  # properties that the sender did not give
FIELDS = (
    "topic", "body", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "reconsume_times",
    "prepared_transaction_offset",
)  # fmt: skip


@pytest.fixture(params=PEERS)
def stored(golden: Any, request: pytest.FixtureRequest) -> tuple[str, list[StoredMessage]]:
    """Version and messages of a store of a real broker."""
    with open_store(golden(request.param).path) as view:
        return PEERS[request.param], list(view.messages())


def same(made: Message | None, of_java: StoredMessage) -> None:
    assert made is not None and made.properties_bytes == of_java.fields.properties
    assert [getattr(made, field) for field in FIELDS] == [getattr(of_java, field) for field in FIELDS]


def test_half_messages_are_javas(stored: tuple[str, list[StoredMessage]]):
    halves = [one for one in stored[1] if one.topic == HALF and half_message.checks_of(one) == 0]
    assert halves
    for half in halves:
        sent = properties.encode({name: text for name, text in half.properties.items() if name not in BROKERS})
        message = Message(
            "Tx", half.body, queue_id=int(half.properties["REAL_QID"]), sys_flag=4, properties_bytes=sent,
            born_timestamp=half.born_timestamp, born_host=half.born_host,
        )  # fmt: skip
        same(half_message.prepared(message, StoreConfig()), half)


def test_committed_messages_are_javas(stored: tuple[str, list[StoredMessage]]):
    peer, messages = stored
    by_place = {one.physical_offset: one for one in messages}
    committed = [one for one in messages if one.prepared_transaction_offset]
    assert committed
    for one in committed:
        same(half_message.committed(by_place[one.prepared_transaction_offset], peer), one)


def test_copies_of_those_that_were_asked_about_are_javas(stored: tuple[str, list[StoredMessage]]):
    latest: dict[str | None, StoredMessage] = {}
    copies = 0
    for one in (one for one in stored[1] if one.topic == HALF):
        if half_message.is_copy(one):
            same(half_message.asked_again(latest[one.msg_id]), one)
            copies += 1
        latest[one.msg_id] = one
    assert copies > 10


def test_outcomes_are_javas(stored: tuple[str, list[StoredMessage]]):
    outcomes = [one for one in stored[1] if one.topic == OUTCOME]
    assert outcomes
    for one in outcomes:
        made = half_message.outcome(half_message.ended_by(one))
        assert (made.topic, made.body, made.properties_bytes) == (one.topic, one.body, one.fields.properties)
        assert one.born_host == one.store_host, "as of any message whose sender is the store itself"


def test_the_sender_and_the_real_place_are_properties():
    made = half_message.prepared(
        Message("T", b"x", tags="a", keys="k", queue_id=3, flag=7, sys_flag=4 | 1, properties={"p": "v"}),
        StoreConfig(), "G", lambda: "ID",
    )  # fmt: skip
    assert properties.parse_bytes(made.properties_bytes or b"") == {
        "p": "v", "KEYS": "k", "TAGS": "a", "TRAN_MSG": "true", "PGROUP": "G", "UNIQ_KEY": "ID",
        "__transactionId__": "ID", "REAL_TOPIC": "T", "REAL_QID": "3",
    }  # fmt: skip
    assert (made.topic, made.queue_id, made.flag, made.sys_flag, made.wait) == (HALF, 0, 7, 1, True)


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", delay_level=1),
        Message("T", b"x", properties={"DELAY": "2"}),
        Message("T", b"x", properties={"TIMER_DELAY_MS": "5"}),
        Message("T", b"x", properties_bytes=b"TIMER_DELIVER_MS\x015\x02"),
    ],
)
def test_a_transaction_takes_no_delay(message: Message):
    with pytest.raises(UsageError, match="no delay, and no timer"):
        half_message.prepared(message, StoreConfig(), "G")


@pytest.mark.parametrize(
    "message",
    [Message("a/b", b"x"), Message("T", b"x", queue_id=-1), Message("T", b"x" * 11), Message("T", tags="\x01")],
)
def test_what_a_put_refuses_stays_as_it_is(message: Message):
    """So that the put says which rule refuses it."""
    assert half_message.prepared(message, StoreConfig(max_message_size=10), "G") is message


@pytest.mark.parametrize(
    ("body", "tags", "ended"),
    [(b"1,2,", "d", [1, 2]), (b"7", "d", [7]), (b"1,,x,-4,9,", "d", [1, 9]), (b"1,", "e", []), (b"\xff,3", "d", [3])],
)
def test_an_outcome_is_read_as_far_as_it_can_be(stored_message: Any, body: bytes, tags: str, ended: list[int]):
    assert half_message.ended_by(stored_message(Message(OUTCOME, body, tags=tags))) == ended


def test_copies_keep_what_the_sender_said(stored_message: Any):
    """Upstream's copies lose the flag."""
    half = stored_message(half_message.prepared(Message("T", b"x", flag=9, reconsume_times=2), StoreConfig(), "G"))
    for made in (half_message.asked_again(half), half_message.moved(half), half_message.given_up(half, too_old=True)):
        assert (made.flag, made.reconsume_times, made.born_timestamp) == (9, 2, half.born_timestamp)
    moved = stored_message(half_message.moved(half))
    assert half_message.origin_of(moved) == half.queue_offset and half_message.is_copy(moved)
    assert half_message.origin_of(stored_message(half_message.moved(moved))) == half.queue_offset, "that of the first"
    asked = stored_message(half_message.asked_again(half))
    assert half_message.checks_of(asked) == 1 and half_message.is_copy(asked)
    assert half_message.given_up(asked, too_old=False).topic == "TRANS_CHECK_MAX_TIME_TOPIC"


def test_a_count_that_is_no_number_begins_again(stored_message: Any):
    half = stored_message(Message(HALF, properties={"TRANSACTION_CHECK_TIMES": "x"}))
    assert b"TRANSACTION_CHECK_TIMES\x010\x02" in (half_message.asked_again(half).properties_bytes or b"")


@pytest.fixture
def stored_message(tmp_path: Any) -> Any:
    """stored_message(message) -> its record."""
    with open_small(tmp_path / "s") as store:
        yield lambda message: store.get_at(store.put(message).physical_offset)
