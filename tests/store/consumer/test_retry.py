"""Messages that a consumer gives back: the bytes of Java's broker, dead letters, rounds through the delay service."""

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.format import properties, record
from flintmq.format.group_topics import dead_letter_topic, retry_topic
from flintmq.message import Message, Outcome, StoredMessage
from flintmq.store.append.delayed_message import scheduled
from flintmq.store.consumer.retry import not_acknowledged, sent_back
from flintmq.store.view import open_store
from tests.support.engine import open_small

GROUP = "G"
FIELDS = ("topic", "body", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "reconsume_times")


def stored(root, message):
    """This message as it is stored."""
    with open_small(root) as store:
        at = store.put(message).physical_offset
        return store.get_at(at)


@pytest.mark.parametrize("name", ["delay", "delay550", "config", "config540", "config550"])
def test_retries_are_javas(golden, name):
    """What a real broker stored for messages that its consumers gave back is what `sent_back` makes of them, property
    for property in Java's order."""
    with open_store(golden(name).path) as view:
        messages = list(view.messages())
    by_id = {m.offset_msg_id: m for m in messages}
    retries = [m for m in messages if m.topic == "SCHEDULE_TOPIC_XXXX" and m.reconsume_times]
    assert retries
    for m in retries:
        first = by_id[m.properties["ORIGIN_MESSAGE_ID"]]
        group = m.properties["REAL_TOPIC"].removeprefix("%RETRY%")
        made = scheduled(sent_back(first, group), StoreConfig())
        assert made.properties_bytes == m.fields.properties
        assert [getattr(made, field) for field in FIELDS] == [getattr(m, field) for field in FIELDS]
        assert made.prepared_transaction_offset == m.prepared_transaction_offset


def test_a_second_retry_keeps_topic_and_origin(tmp_path):
    first = stored(tmp_path / "s", Message("T", b"x", tags="a", keys="k", born_timestamp=7, born_host="10.0.0.9:1"))
    once = sent_back(first, GROUP, origin_id="A" * 32)
    again = sent_back(stored(tmp_path / "s", once), GROUP, queues=1)
    pairs = properties.parse_bytes(again.properties_bytes)
    assert (again.topic, again.reconsume_times, again.born_timestamp, again.born_host) == (
        "%RETRY%G", 2, 7, "10.0.0.9:1",
    )  # fmt: skip
    assert (pairs["RETRY_TOPIC"], pairs["ORIGIN_MESSAGE_ID"], pairs["TAGS"], pairs["KEYS"]) == ("T", "A" * 32, "a", "k")


@pytest.mark.parametrize(
    ("tried", "given", "level"),
    [(0, {}, 3), (1, {}, 4), (15, {}, 18), (0, {"level": 1}, 1), (2, {"most": 3}, 5), (2, {"level": 7, "most": 3}, 7)],
)
def test_the_delay_grows_with_the_attempts(tmp_path, tried, given, level):
    made = sent_back(stored(tmp_path / "s", Message("T", b"x", reconsume_times=tried)), GROUP, **given)
    pairs = properties.parse_bytes(made.properties_bytes)
    assert (made.topic, made.delay_level, pairs["DELAY"]) == (retry_topic(GROUP), level, str(level))


@pytest.mark.parametrize(("tried", "given"), [(16, {}), (0, {"level": -1}), (0, {"most": 0}), (99, {"level": 1})])
def test_dead_letters_wait_for_nothing(tmp_path, tried, given):
    message = stored(tmp_path / "s", Message("T", b"x", queue_id=3, reconsume_times=tried))
    made = sent_back(message, GROUP, queues=4, **given)
    assert (made.topic, made.queue_id, made.delay_level) == (dead_letter_topic(GROUP), 0, 0)
    assert made.reconsume_times == tried + 1
    assert properties.parse_bytes(made.properties_bytes) == {
        "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": message.offset_msg_id, "WAIT": "false", "DELAY": "0",
    }  # fmt: skip


def test_flags_of_the_body_stay_and_the_checksum_is_made_anew(tmp_path):
    """sysFlag's bits for compression, a commit and an IPv6 sender; the whole record's checksum covers other bytes."""
    with open_small(tmp_path / "s", enabledAppendPropCRC=True) as store:
        put = store.put(
            Message("T", b"zip", flag=-5, sys_flag=1 | 1 << 8 | 8, born_host="[2001:db8::1]:51000", tags="a")
        )
        first = store.get_at(put.physical_offset)
        made = sent_back(first, GROUP, level=-1)
        assert first.properties.keys() == {"TAGS", "__CRC32#"} and b"CRC32" not in made.properties_bytes
        result = store.put(made)
        assert result.outcome is Outcome.OK
        dead = store.get_at(result.physical_offset)
    assert (dead.topic, dead.body, dead.flag, dead.sys_flag, dead.born_host) == (
        "%DLQ%G", b"zip", -5, first.sys_flag, "[2001:db8::1]:51000",
    )  # fmt: skip
    assert dead.sys_flag & (1 | 1 << 8 | 8) == 1 | 1 << 8 | 8


def test_queues_of_the_retries_are_used_in_turn(tmp_path):
    with open_small(tmp_path / "s") as store:
        places = [store.put(Message("T", b"x")).physical_offset for _ in range(6)]
        assert [sent_back(store.get_at(at), GROUP, queues=3).queue_id for at in places] == [0, 1, 2, 0, 1, 2]


# -- popped, and not acknowledged in time ------------------------------------------------------------------------------

POP_RETRIES = "%RETRY%G_T"


def popped_again(message, *, most=16, popped_ms=1234):
    return not_acknowledged(message, GROUP, POP_RETRIES, most=most, popped_ms=popped_ms)


def test_a_popped_message_keeps_what_it_has(tmp_path):
    given = Message("T", b"x", queue_id=3, tags="a", keys="k", flag=5, sys_flag=1, born_timestamp=7)
    first = stored(tmp_path / "s", given)
    made = popped_again(first)
    kept = ("body", "flag", "sys_flag", "born_timestamp", "born_host")
    assert [getattr(made, name) for name in kept] == [getattr(first, name) for name in kept]
    assert (made.topic, made.queue_id, made.reconsume_times, made.delay_level) == (POP_RETRIES, 0, 1, 0)
    assert made.wait, "the message counts as acknowledged then"
    added = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": first.offset_msg_id, "1ST_POP_TIME": "1234"}
    assert properties.parse_bytes(made.properties_bytes) == {**first.properties, **added}
    again = popped_again(stored(tmp_path / "s", made), popped_ms=9)
    assert (again.topic, again.reconsume_times) == (POP_RETRIES, 2)
    assert again.properties_bytes == made.properties_bytes, "the first time, and the first copy"


@pytest.mark.parametrize(("tried", "topic"), [(1, POP_RETRIES), (2, "%DLQ%G"), (3, "%DLQ%G")])
def test_a_popped_message_is_a_dead_letter_after_so_many_retries(tmp_path, tried, topic):
    message = stored(tmp_path / "s", Message("T", b"x", reconsume_times=tried))
    assert popped_again(message, most=2).topic == topic


def test_a_popped_message_does_not_wait_for_a_timer_again(tmp_path):
    """One that came too late for its timer looks like one that has to wait; one that a timer delivered does not."""
    one = stored(tmp_path / "s", Message("T", b"x"))
    for more, is_kept in (({}, False), ({"TIMER_OUT_MS": "5"}, True)):
        told = properties.encode({**one.properties, "TIMER_DELIVER_MS": "5", "TIMER_DELAY_SEC": "6", **more})
        made = popped_again(StoredMessage(record.encode(one.fields._replace(properties=told))))
        found = properties.parse_bytes(made.properties_bytes)
        assert ("TIMER_DELIVER_MS" in found, "TIMER_DELAY_SEC" in found) == (is_kept, is_kept)
