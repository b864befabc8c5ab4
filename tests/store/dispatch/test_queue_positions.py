import pytest

from flintmq.format.record import INNER_BATCH, Record, encode
from flintmq.message import StoredMessage
from flintmq.store.dispatch import queue_positions as module
from flintmq.store.dispatch.queue_positions import is_at, places


def message(topic="T", queue_id=3, queue_offset=7, sys_flag=0, **properties):
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return StoredMessage(
        encode(
            Record(
                queue_id=queue_id,
                queue_offset=queue_offset,
                sys_flag=sys_flag,
                topic=topic.encode(),
                properties=text.encode(),
            )
        )
    )


def test_a_plain_record_stands_at_its_own_place():
    assert places(message()) == [("T", 3, 7, 1)]


@pytest.mark.parametrize(("flag", "count"), [(0x0, 1), (0x4, 0), (0x8, 1), (0xC, 0)])
def test_prepared_and_rolled_back_records_stand_nowhere(flag, count):
    assert len(places(message(sys_flag=flag))) == count


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"INNER_BASE": "40", "INNER_NUM": "5"}, ("T", 3, 40, 5)),
        ({"INNER_NUM": "5"}, ("T", 3, 7, 1)),
        ({"INNER_BASE": "-4", "INNER_NUM": "5"}, None),
        ({"INNER_BASE": "40", "INNER_NUM": "x"}, ("T", 3, 7, 1)),
        ({"INNER_BASE": "40", "INNER_NUM": "0"}, ("T", 3, 40, 1)),
    ],
)
def test_an_inner_batch_fills_as_many_offsets_as_it_has_messages(properties, place):
    assert places(message(sys_flag=INNER_BATCH, **properties)) == ([place] if place else [])


@pytest.mark.parametrize(
    ("topic", "names", "offsets", "light"),
    [
        ("T", "%LMQ%a,b", "4,5", [("%LMQ%a", 0, 4, 1), ("b", 3, 5, 1)]),
        ("T", "%LMQ%a/x,%LMQ%设备", "4,5", [("%LMQ%设备", 0, 5, 1)]),
        ("T", "%LMQ%a,%LMQ%b", "4", []),
        ("T", "%LMQ%a,%LMQ%b,%LMQ%c", "-1,x,9223372036854775808", []),
        ("T", ",%LMQ%b", "1,2", [("%LMQ%b", 0, 2, 1)]),
        ("%RETRY%g", "%LMQ%a", "4", []),
        ("rmq_sys_x", "%LMQ%a", "4", []),
        ("SCHEDULE_TOPIC_XXXX", "%LMQ%a", "4", []),
        ("SCHEDULE_TOPIC_XXXX2", "%LMQ%a", "4", [("%LMQ%a", 0, 4, 1)]),
    ],
)
def test_light_queues(topic, names, offsets, light):
    found = places(message(topic, INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets))
    assert found == [(topic, 3, 7, 1), *light]


def test_no_light_queue_without_its_offsets():
    assert len(places(message(INNER_MULTI_DISPATCH="%LMQ%a"))) == 1


@pytest.mark.parametrize("flag", [0x0, 0x4, 0x8, 0xC, INNER_BATCH])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"queue_offset": -1},
        {"topic": "主题"},
        {"INNER_BASE": "40", "INNER_NUM": "5"},
        {"INNER_BASE": "7", "INNER_NUM": "5"},
        {"INNER_BASE": "x", "INNER_NUM": "5"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a,T", "INNER_MULTI_QUEUE_OFFSET": "4,5"},
    ],
    ids=str,
)
def test_a_record_whose_properties_are_not_parsed_has_the_same_places(flag, more, monkeypatch):
    record = message(sys_flag=flag, **more)
    quick = places(record)
    monkeypatch.setattr(module, "_INNER", b"")
    assert places(record) == quick


@pytest.mark.parametrize("flag", [0x0, 0x4, 0x8, 0xC, INNER_BATCH])
@pytest.mark.parametrize("topic", ["T", "%RETRY%g", "设备"])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"KEYS": "INNER_BASE"},
        {"INNER_BASE": "40", "INNER_NUM": "5"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a,b", "INNER_MULTI_QUEUE_OFFSET": "4,5"},
    ],
)
@pytest.mark.parametrize("queue_offset", [7, -1])
def test_one_place_is_judged_as_all_places_say(flag, topic, properties, queue_offset):
    found = message(topic, queue_offset=queue_offset, sys_flag=flag, **properties)
    all_places = {(place.topic, place.queue_id, place.offset) for place in places(found)}
    asked = {(name, 3, n) for name in (topic, "b", "other") for n in (7, 40, 5, 8, -1)} | {
        ("%LMQ%a", 0, 4),
        (topic, 4, 7),
    }
    for name, queue_id, offset in asked:
        here = (name, queue_id, offset) in all_places
        assert is_at(found.raw, name.encode(), queue_id, offset) == here, (name, queue_id, offset)
        assert is_at(found.raw + b"INNER_ of the next record", name.encode(), queue_id, offset) == here
    assert not all_places or all_places & asked


def test_a_topic_that_is_no_text_is_judged_as_all_places_say():
    found = StoredMessage(encode(Record(queue_id=3, queue_offset=7, topic=b"\xff", properties=b"")))
    assert [place.topic for place in places(found)] == ["\ufffd"]
    assert not is_at(found.raw, b"\xff", 3, 7) and is_at(found.raw, "\ufffd".encode(), 3, 7)
