"""The objects of a put: values that compare, print, pickle and keep what they were given."""

import copy
import gc
import inspect
import pickle
from pathlib import Path
from types import MappingProxyType

import pytest

from flintmq.errors import PutFailedError, PutUnknownError
from flintmq.kernels.write import message as kernel
from flintmq.message import ColumnsResult, Message, Outcome, PutMessageStatus, PutResult, PutRule, refused
from flintmq.store.message_store import MessageStore

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
    assert not gc.is_tracked(Message("T")) and not gc.is_tracked(PutResult(PutMessageStatus.PUT_OK))


class Text(str):
    """A str of a subclass."""


WRONG = [
    ({"topic": b"t"}, TypeError, "topic", "bytes"),
    ({"topic": None}, TypeError, "topic", "NoneType"),
    ({"body": "text"}, TypeError, "body", "encode"),
    ({"body": bytearray(b"x")}, TypeError, "body", "bytearray"),
    ({"body": memoryview(b"x")}, TypeError, "body", "memoryview"),
    ({"body": None}, TypeError, "body", "NoneType"),
    ({"body": 3}, TypeError, "body", "int"),
    ({"tags": ["a"]}, TypeError, "tags", "list"),
    ({"keys": 7}, TypeError, "keys", "int"),
    ({"keys": {"a"}}, TypeError, "keys", "set"),
    ({"keys": ["a", 7]}, TypeError, "key", "int"),
    ({"keys": ["a b"]}, ValueError, "key", "space"),
    ({"keys": ("a", "")}, ValueError, "key", "space"),
    ({"properties": [("a", "b")]}, TypeError, "properties", "list"),
    ({"properties": {"a": 1}}, TypeError, "'a'", "int"),
    ({"properties": {1: "a"}}, TypeError, "property", "int"),
    ({"wait": 1}, TypeError, "wait", "int"),
    ({"properties_bytes": "a"}, TypeError, "properties_bytes", "str"),
    ({"born_host": b"1.2.3.4:5"}, TypeError, "born_host", "bytes"),
    ({"born_timestamp": 1.5}, TypeError, "born_timestamp", "float"),
    ({"born_timestamp": 1 << 63}, ValueError, "born_timestamp", "64 bits"),
    ({"prepared_transaction_offset": -(1 << 63) - 1}, ValueError, "prepared_transaction_offset", "64 bits"),
    *(
        ({name: value}, error, name, said)
        for name in ("queue_id", "flag", "sys_flag", "reconsume_times", "delay_level")
        for value, error, said in [
            (True, TypeError, "bool"), (1.0, TypeError, "float"), ("1", TypeError, "str"),
            (None, TypeError, "NoneType"), (1 << 31, ValueError, "32 bits"), (-(1 << 31) - 1, ValueError, "32 bits"),
            (1 << 70, ValueError, "bits"),
        ]
    ),
]  # fmt: skip


NAMES = [str(row[0]).partition(" at 0x")[0] for row in WRONG]  # the same in every process


@pytest.mark.parametrize(("fields", "error", "name", "said"), WRONG, ids=NAMES)
def test_what_a_message_cannot_have_is_said_at_once_by_name(fields, error, name: str, said: str):
    with pytest.raises(error) as raised:
        Message(**({"topic": "T"} | fields))
    assert name in str(raised.value) and said in str(raised.value) and "\n" not in str(raised.value)
    message = Message("T", b"x")
    for field, value in fields.items():
        with pytest.raises(error) as later:
            setattr(message, field, value)
        assert str(later.value) == str(raised.value)
    assert message == Message("T", b"x")


def test_what_is_like_enough_is_taken_as_what_it_is():
    message = Message(
        Text("T"), keys=["a", Text("b")], tags=Text("t"), properties=MappingProxyType({"p": "v"}), queue_id=Number(3),
        born_timestamp=Number(-(1 << 63)), flag=-(1 << 31), prepared_transaction_offset=(1 << 63) - 1,
    )  # fmt: skip
    assert message == Message(
        "T", keys="a b", tags="t", properties={"p": "v"}, queue_id=3, born_timestamp=-(1 << 63), flag=-(1 << 31),
        prepared_transaction_offset=(1 << 63) - 1,
    )  # fmt: skip
    later = Message("U")
    later.topic, later.keys, later.tags = Text("T"), ["a", Text("b")], Text("t")
    later.properties, later.queue_id, later.born_timestamp = MappingProxyType({"p": "v"}), Number(3), Number(-(1 << 63))
    later.flag, later.prepared_transaction_offset = -(1 << 31), (1 << 63) - 1
    assert later == message
    later.tags = later.keys = later.properties = later.born_timestamp = None
    assert later.tags is later.keys is later.properties is later.born_timestamp is None
    assert {type(message.topic), type(message.tags)} == {str} and type(message.properties) is dict
    assert Message("T", keys=[]).keys == "" and Message("T", keys=("k",)).keys == "k"


class Number:
    """What is an int to Python, as numpy's are."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_the_signature_is_there_compiled_too():
    parameters = inspect.signature(Message).parameters
    names = [*parameters]
    assert (
        names[:3] == ["topic", "body", "tags"] and names[-2:] == ["born_host", "deliver_timestamp"] and len(names) == 16
    )
    assert parameters["body"].default == b"" and parameters["wait"].default is True
    assert [*inspect.signature(MessageStore.put).parameters] == ["self", "message"]
    assert (Message.__doc__ or "").strip().split("\n--\n")[-1].strip().startswith("A message to put.")


@pytest.mark.parametrize("status", PutMessageStatus)
@pytest.mark.parametrize("stored", [False, True])
def test_a_result_is_true_where_it_is_ok_and_says_why_it_is_not(status: PutMessageStatus, stored: bool):
    for result in (PutResult(status, 0, 0 if stored else -1), ColumnsResult(status, int(stored))):
        outcome = status.outcome(stored)
        assert bool(result) is (outcome is Outcome.OK)
        if outcome is Outcome.OK:
            assert result.raise_for_status() is None and result.reason is None
            continue
        error = PutFailedError if outcome is Outcome.FAILED else PutUnknownError
        with pytest.raises(error, match=status.name) as raised:
            result.raise_for_status()
        assert type(raised.value) is error and raised.value.exit_code == (3 if error is PutFailedError else 12)
        assert result.reason is None or (result.reason.status is status and result.reason.id in str(raised.value))


def test_a_reason_survives_and_makes_no_other_result():
    result = refused(PutRule.TOPIC)
    for copied in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert copied == result == PutResult(PutMessageStatus.MESSAGE_ILLEGAL) and copied.reason is PutRule.TOPIC
    assert PutResult(PutMessageStatus.MESSAGE_ILLEGAL).reason is PutRule.ILLEGAL
    assert len({rule.id for rule in PutRule}) == len(PutRule)
    assert all(rule.status is not PutMessageStatus.PUT_OK and "\n" not in str(rule) for rule in PutRule)
    page = (Path(__file__).parents[3] / "docs" / "guide" / "engine.md").read_text()
    assert all(f"| `{rule.id}` | `{rule.status.name}` | {rule.text} |" in page for rule in PutRule)


def test_a_message_shows_the_begin_of_its_body_and_what_is_no_default():
    assert repr(Message("T")) == "Message(topic='T', body=b'')"
    assert repr(Message("T", b"hi", keys="k", wait=False, queue_id=3)) == (
        "Message(topic='T', body=b'hi', keys='k', queue_id=3, wait=False)"
    )
    assert repr(Message("T", born_timestamp=0)) == "Message(topic='T', body=b'', born_timestamp=0)"
    whole = repr(Message("T", b"x" * 4_000_000, properties={"p": "v" * 30_000}))
    assert f"body={b'x' * 40!r}... (4000000 bytes)" in whole and len(whole) < 300
