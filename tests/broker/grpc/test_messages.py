"""What a stored message becomes for a client, whatever its record says."""

import time
from typing import Any

import pytest

from flintmq import Message
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.messages import born_ms, given_message, ms_of, status_of_all, status_of_put
from flintmq.message import PutMessageStatus, StoredMessage
from tests.broker.grpc.talk import message
from tests.support.engine import open_small

RECEIPT = "0 1700000000000 60000 0 0 broker-a 0 0"


def put(tmp_path: Any, **more: Any) -> StoredMessage:
    """A message as a store has it."""
    with open_small(tmp_path / "store") as store:
        properties = more.pop("text", "UNIQ_KEY\x01U1\x02")
        done = store.put(Message("%RETRY%G_T", b"body", properties_bytes=properties.encode(), **more))
        return store.get_at(done.physical_offset)


def given(tmp_path: Any, **more: Any) -> wire.Message:
    return given_message(put(tmp_path, **more), "T", RECEIPT, 2)


def test_a_retry_is_a_message_of_its_topic(tmp_path: Any):
    found = given(tmp_path, born_host="[::1]:4711", reconsume_times=2)
    told = found.system_properties
    assert (found.topic.name, found.body, told.delivery_attempt, told.receipt_handle) == ("T", b"body", 3, RECEIPT)
    assert told.born_host == "::1" and told.message_id == "U1" and told.message_type == wire.NORMAL


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("DELAY\x013\x02", wire.DELAY),
        ("TRAN_MSG\x01true\x02__SHARDINGKEY\x01s\x02", wire.TRANSACTION),
        ("__SHARDINGKEY\x01s\x02", wire.FIFO),
        ("TRAN_MSG\x01false\x02", wire.NORMAL),
    ],
)
def test_the_type_is_that_of_the_properties(tmp_path: Any, text: str, kind: int):
    assert given(tmp_path, text=text).system_properties.message_type == kind


def test_a_record_that_says_little_or_nonsense(tmp_path: Any):
    text = "DLQ_ORIGIN_TOPIC\x01T\x02DLQ_ORIGIN_MESSAGE_ID\x01M\x02own\x01\x01x\x02"
    stored = put(tmp_path, text=text, born_timestamp=(1 << 63) - 1)
    found = given_message(stored, "T", RECEIPT, 0)
    told = found.system_properties
    assert told.message_id == stored.offset_msg_id and told.born_timestamp.seconds == 253_402_300_799
    assert (told.dead_letter_queue.topic, told.dead_letter_queue.message_id) == ("T", "M")
    assert dict(found.user_properties) == {"own": "\x01x"} and list(told.keys) == [] and not told.HasField("tag")
    early = given_message(put(tmp_path / "b", born_timestamp=-(1 << 62)), "T", RECEIPT, 0).system_properties
    assert early.born_timestamp.seconds == -62_135_596_800


def test_times_are_brought_into_the_calendar():
    sent = message()
    sent.system_properties.born_timestamp.seconds = 1 << 62
    assert born_ms(sent) == 253_402_300_799_999
    sent.system_properties.ClearField("born_timestamp")
    assert abs(born_ms(sent) / 1000 - time.time()) < 60
    sent.system_properties.delivery_timestamp.nanos = 2_999_999
    assert ms_of(sent.system_properties.delivery_timestamp) == 2


def test_statuses():
    assert [status_of_put(one) for one in PutMessageStatus if one is not PutMessageStatus.PUT_OK].count(wire.OK) == 0
    assert status_of_put(PutMessageStatus.FLUSH_DISK_TIMEOUT) == wire.MASTER_PERSISTENCE_TIMEOUT
    assert status_of_put(PutMessageStatus.UNKNOWN_ERROR) == wire.INTERNAL_SERVER_ERROR
    assert status_of_all([wire.OK, wire.OK]).code == wire.OK
    assert (status_of_all([wire.OK, wire.FORBIDDEN]).code, status_of_all([wire.OK]).message) == (30000, "OK")
