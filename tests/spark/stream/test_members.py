"""Streams of several stores, driven as Spark does: each row once, brokers that come, go and return, limits."""

import shutil
from collections import Counter

import pytest

from flintmq import Message
from flintmq.errors import StoreError, UsageError
from flintmq.lake.stream.members import _shares
from tests.spark.stream.drive import Query
from tests.support.engine import put_messages

COLUMNS = "broker,topic,queue_id,queue_offset,body"


def put(path, begin, end, topic="Orders"):
    path.mkdir(parents=True, exist_ok=True)
    put_messages(path, (Message(topic, b"%d" % number, queue_id=number % 3) for number in range(begin, end)))


@pytest.fixture
def data(tmp_path):
    put(tmp_path / "a" / "store", 0, 30)
    put(tmp_path / "b" / "store", 100, 107)
    return tmp_path


def query(data, **options):
    return Query(f"{data}/*/store", columns=COLUMNS, **options)


def bodies(rows):
    return Counter((row["broker"], int(row["body"])) for row in rows)


def said(broker, begin, end):
    return Counter((broker, number) for number in range(begin, end))


def everything(one):
    return sum((bodies(rows) for rows in one.bites()), Counter())


def test_each_message_once_with_its_broker(data):
    one = query(data)
    assert everything(one) == said("a", 0, 30) + said("b", 100, 107)
    assert set(one.offset) == {"a", "b"} and one.reported["lagMessages"] == 0
    put(data / "b" / "store", 107, 110)
    one.restart()
    assert everything(one) == said("b", 107, 110)


def test_a_broker_that_comes_is_read_from_its_first_message(data):
    one = query(data)
    everything(one)
    put(data / "c" / "store", 0, 5)
    assert everything(one) == said("c", 0, 5)
    one.restart()
    assert everything(one) == Counter()


def test_a_broker_that_goes_and_returns(data, tmp_path_factory):
    one, away = query(data), tmp_path_factory.mktemp("away") / "b"
    everything(one)
    before = one.offset["b"]
    shutil.move(data / "b", away)
    put(data / "a" / "store", 30, 32)
    assert everything(one) == said("a", 30, 32) and one.offset["b"] == before
    put(away / "store", 107, 109)
    one.restart()
    shutil.move(away, data / "b")
    assert everything(one) == said("b", 107, 109)


def test_a_broker_that_goes_amid_a_batch(data, tmp_path_factory):
    one, away = query(data), tmp_path_factory.mktemp("away") / "b"
    assert one.plan()
    shutil.move(data / "b", away)
    with pytest.raises(StoreError, match="broker 'b', of which a micro-batch was planned, is gone"):
        one.run()
    shutil.move(away, data / "b")
    assert bodies(one.run()) == said("a", 0, 30) + said("b", 100, 107)


@pytest.mark.parametrize("limit", [{"maxOffsetsPerTrigger": 4}, {"maxBytesPerTrigger": 700}])
def test_limits_are_of_all_stores_together(data, limit):
    one = query(data, **limit)
    bites = [bodies(rows) for rows in one.bites()]
    assert sum(bites, Counter()) == said("a", 0, 30) + said("b", 100, 107)
    assert max(sum(bite.values()) for bite in bites) <= 5 and len(bites) >= 8
    assert any({broker for broker, _ in bite} == {"a", "b"} for bite in bites)


def test_min_offsets_count_over_all_stores(data):
    one = query(data, minOffsetsPerTrigger=37, maxTriggerDelay="1h")
    assert sum(everything(one).values()) == 37
    put(data / "a" / "store", 30, 40)
    assert not one.plan()


def test_available_now_ends(data):
    one = query(data, available_now=True)
    put(data / "a" / "store", 30, 32)
    assert everything(one) == said("a", 0, 30) + said("b", 100, 107)


def test_offsets_by_broker(data):
    one = query(data, startingOffsets='{"a": {"Orders": {"0": 9, "1": -1}}}')
    found = everything(one)
    assert {key for key in found if key[0] == "b"} == set(said("b", 100, 107))
    assert sorted(number for broker, number in found if broker == "a") == [2, 5, 8, 11, 14, 17, 20, 23, 26, 27, 29]
    with pytest.raises(UsageError, match="no store of broker 'x'"):
        query(data, startingOffsets='{"x": {"Orders": {"0": 9}}}')
    with pytest.raises(UsageError, match="brokers come first"):
        query(data, startingOffsets='{"Orders": {"0": 9}}')


def test_latest_in_every_store(data):
    one = query(data, startingOffsets="latest")
    assert everything(one) == Counter()
    put(data / "b" / "store", 107, 108)
    assert everything(one) == said("b", 107, 108)


def test_shares_of_a_limit():
    for turn in range(4):
        shares = _shares({"a": 30, "b": 7, "c": 1}, 10, turn)
        assert sum(shares.values()) == 10
    assert _shares({"a": 1, "b": 1, "c": 1}, 1, 2) == {"a": 0, "b": 0, "c": 1}
