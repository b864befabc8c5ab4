"""The objects of a put: values that compare, print, pickle and keep what they were given."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from flintmq.kernels import message as kernel
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult

COMPILED = kernel.__file__.endswith(".so")


def test_a_message_has_defaults_and_takes_its_fields_in_order():
    message = Message("T")
    fields = (message.topic, message.body, message.tags, message.keys, message.properties, message.queue_id,
              message.flag, message.wait, message.born_timestamp, message.sys_flag, message.reconsume_times,
              message.prepared_transaction_offset, message.properties_bytes)  # fmt: skip
    assert fields == ("T", b"", None, None, None, 0, 0, True, None, 0, 0, 0, None)
    assert Message("T", b"b", "t", "k", {"p": "v"}, 1, 2, False, 3, 4, 5, 6, b"x") == Message(
        topic="T", body=b"b", tags="t", keys="k", properties={"p": "v"}, queue_id=1, flag=2, wait=False,
        born_timestamp=3, sys_flag=4, reconsume_times=5, prepared_transaction_offset=6, properties_bytes=b"x",
    )  # fmt: skip


def test_a_message_can_be_changed_and_so_has_no_hash():
    message = Message("T", b"1")
    message.queue_id, message.tags = 7, "a"
    assert message == Message("T", b"1", tags="a", queue_id=7) != Message("T", b"1", tags="a")
    assert message != "T"
    with pytest.raises(TypeError):
        hash(message)


def test_a_result_is_a_value():
    result = PutResult(PutMessageStatus.PUT_OK, 1, 2, 100, 3, bytes([127, 0, 0, 1, 0, 0, 42, 159]))
    assert result == copy.copy(result) and hash(result) == hash(copy.copy(result))
    assert result != PutResult(PutMessageStatus.PUT_OK)
    assert result.offset_msg_id == "7F00000100002A9F0000000000000002"
    late = result.with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT)
    assert (late.status, late.physical_offset) == (PutMessageStatus.FLUSH_DISK_TIMEOUT, 2)
    assert (result.outcome, late.outcome) == (Outcome.OK, Outcome.UNKNOWN)
    assert PutResult(PutMessageStatus.FLUSH_DISK_TIMEOUT).outcome is Outcome.FAILED
    assert "queue_offset=1" in repr(result) and "store_host" not in repr(result)


@pytest.mark.parametrize("value", [Message("T", b"b", properties={"p": "v"}), PutResult(PutMessageStatus.PUT_OK, 5)])
def test_they_survive_pickling(value: object):
    assert pickle.loads(pickle.dumps(value)) == value and copy.deepcopy(value) == value


@pytest.mark.skipif(not COMPILED, reason="uncompiled they are plain objects")
def test_compiled_they_are_checked_unchangeable_and_no_work_for_the_collector():
    with pytest.raises(AttributeError):
        PutResult(PutMessageStatus.PUT_OK).size = 1
    with pytest.raises(TypeError):
        Message("T", queue_id="one")
    with pytest.raises(OverflowError):
        Message("T", flag=1 << 64)
    assert not gc.is_tracked(Message("T")) and not gc.is_tracked(PutResult(PutMessageStatus.PUT_OK))
