"""Streams without Spark, driven as Spark does: against what Java decodes, against a writer, against loss and damage."""

import json
import random
import shutil
import threading
from collections import Counter
from itertools import chain, pairwise

import pytest

from flintmq import Message
from flintmq.cluster.member import ONLY
from flintmq.errors import StoreError, UsageError
from flintmq.lake.read.offsets import MARKS, flat
from flintmq.lake.stream import reader
from flintmq.lake.stream.anchor import marks
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.reader import StoreStream, _differing
from flintmq.store.commitlog.anchor import LogAnchor
from flintmq.store.layout.queue_name import QueueName
from tests.compat.stores import GOLDEN_NAMES
from tests.spark.stream.drive import Query, in_queues, keys_of, numbers, place
from tests.support.engine import put_messages
from tests.support.own_time import own_time

ODD = {"poison"}  # Java and a good reader disagree on them; the batch source has tests of its own
LIMITS = ["none", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minPartitions"]


@pytest.mark.turn(3, of=["src/flintmq/spark/stream.py", "src/flintmq/lake/stream/"])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("bare", [False, True], ids=["whole", "commitlog"])
@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) - ODD))
def test_every_message_once(golden, tmp_path, name, bare, limit):
    store = golden(name)
    path = store.path
    if bare:
        path = tmp_path / "bare"
        for folder in ("commitlog", "config"):
            if (store.path / folder).exists():
                shutil.copytree(store.path / folder, path / folder)
    sizes = {row["physical_offset"]: row["size"] for row in store.live}
    most = {"maxOffsetsPerTrigger": 5 + len(sizes) // 7, "maxBytesPerTrigger": sum(sizes.values()) // 7}
    options = {} if limit == "none" else {limit: most.get(limit, 5)}
    query = Query(path, **keys_of(store), **options)
    bites = [[row["physical_offset"] for row in bite] for bite in query.bites()]
    assert sorted(chain(*bites)) == in_queues(store.live)
    assert all(max(one) < min(other) for one, other in pairwise(bites)), "batches follow the log"
    if limit == "maxOffsetsPerTrigger":
        assert max(map(len, bites)) <= most[limit] and len(bites) > 3
    if limit == "maxBytesPerTrigger":
        assert all(len(bite) == 1 or sum(map(sizes.get, bite)) <= most[limit] for bite in bites) and len(bites) > 3
    assert query.reported["lagMessages"] == query.reported["lagBytes"] == 0


def test_where_a_stream_begins(golden):
    store = golden("basic")
    time = store.rows[1500]["store_timestamp"]
    by_queue = [row for row in store.rows if row["topic"] == "Orders" and row["queue_id"] == 1]
    cases = [
        ({"startingOffsets": "latest"}, []),
        ({"startingTimestamp": time}, in_queues(r for r in store.rows if r["store_timestamp"] >= time)),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders/1": 100}'}, in_queues(by_queue[100:])),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders": {"1": 100}}'}, in_queues(by_queue[100:])),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders/1": -1}'}, []),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders/1": -2}'}, in_queues(by_queue)),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders": "latest"}'}, []),
        ({"assign": '{"Orders": [1]}', "startingOffsets": '{"Orders": "latest", "Orders/1": 100}'},
         in_queues(by_queue[100:])),
        ({"assign": '{"Orders": [1]}', "startingOffsetsByTimestamp": json.dumps({"Orders": {"1": time}}),
          "startingOffsets": "latest"}, in_queues(row for row in by_queue if row["store_timestamp"] >= time)),
        ({"subscribe": "Orders", "startingOffsets": '{"Orders/1": 100}'},
         in_queues(r for r in store.rows if r["topic"] == "Orders" and (r["queue_id"] != 1 or r["queue_offset"] > 99))),
    ]  # fmt: skip
    for options, want in cases:
        query = Query(store.path, **options)
        assert sorted(row["physical_offset"] for bite in query.bites() for row in bite) == want, options


def test_no_task_has_more_records(golden):
    """maxRecordsPerPartition is exact in a stream."""
    store = golden("basic")
    query = Query(store.path, maxRecordsPerPartition=130)
    query.plan()
    parts = query.reader.partitions(*query.batches[0])
    counts = [sum(batch.num_rows for batch in query.reader.read(part)) for part in parts]
    assert max(counts) <= 130 and sum(counts) == len(in_queues(store.live)) and len(counts) < 40


def test_times_that_nothing_was_stored_at(golden, caplog):
    store = golden("basic")
    by_queue = {"assign": '{"Orders": [1]}', "startingOffsetsByTimestamp": '{"Orders": {"1": 99999999999999}}'}
    for options in ({"startingTimestamp": 10**14}, by_queue):
        with pytest.raises(StoreError, match="nothing was stored at"):
            Query(store.path, **options)
        assert list(Query(store.path, **options, startingOffsetsByTimestampStrategy="latest").bites()) == []
        assert not caplog.records
        assert list(Query(store.path, **options, failOnDataLoss="false").bites()) == []
        assert "nothing was stored at" in caplog.text
        caplog.clear()
    with pytest.raises(UsageError, match="startingOffsetsByTimestamp: the store has no queue 9 of topic 'Orders'"):
        Query(store.path, startingOffsetsByTimestamp='{"Orders": {"9": 1700000000000}}')


def test_offsets_are_flat_and_in_order_and_accepted(golden):
    store = golden("basic")
    query = Query(store.path, subscribe="Payments,Orders", maxOffsetsPerTrigger=100)
    first = [place(row) for row in next(query.bites())]
    queues = [f"{topic}/{queue}" for topic in ("Orders", "Payments") for queue in range(4)]
    assert list(query.offset) == [*MARKS, *queues]
    text = json.dumps(query.offset)
    rest = Query(store.path, subscribe="Orders,Payments", startingOffsets=text)
    others = [place(row) for bite in rest.bites() for row in bite]
    want = Counter(
        (r["topic"], r["queue_id"], r["queue_offset"]) for r in store.rows if r["topic"] in ("Orders", "Payments")
    )
    assert Counter(first + others) == want


def test_tags_and_columns(golden):
    store = golden("basic")
    tag = next(row["tags"] for row in store.rows if row["tags"])
    query = Query(store.path, columns="physical_offset", tags=tag, maxOffsetsPerTrigger=1000)
    assert [len(bite) > 0 for bite in query.bites()] == [True, True, True]
    rows = [row for bite in Query(store.path, columns="tags", tags=tag).bites() for row in bite]
    assert rows == [{"tags": tag}] * sum(row["tags"] == tag for row in store.rows)


# -- a store that is being written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_lives_of_a_query(writer, seed):
    """Whatever is planned, done, or begun again, and whenever: every message is in exactly one batch."""
    chance = random.Random(seed)
    query = Query(writer.path, columns="body", maxOffsetsPerTrigger=chance.choice([3, 40, 1000]))
    got = {}
    for _ in range(60):
        what = chance.random()
        if what < 0.4:
            writer.put(chance.randrange(30))
        elif what < 0.8 or not query.batches:
            if query.plan():
                got[len(query.batches)] = numbers(query.run())
        else:  # killed after the batch was planned, perhaps after it was read
            if chance.random() < 0.5:
                query.plan()
            if query.done == len(query.batches):
                query.done -= 1
            query.restart()
            redone = numbers(query.run())
            assert got.setdefault(len(query.batches), redone) == redone
    assert writer.store.wait_dispatched(60)
    query.restart()
    for bite in query.bites():
        got[len(query.batches)] = numbers(bite)
    assert sorted(chain(*got.values())) == list(range(writer.count))


def test_a_queue_gets_its_first_file_after_others(writer, tmp_path):
    """A batch planned from the log, of a store without any queue file, and run when another queue has one."""
    writer.put_all(6, ("A", "B"), 1)
    queues, aside = writer.path / "consumequeue", tmp_path / "aside"
    queues.rename(aside)
    query = Query(writer.path, columns="body")
    assert query.plan() and {key for key in query.offset if "/" in key} == {"A/0", "B/0"}
    (aside / "B").rename(queues.mkdir() or queues / "B")
    query.restart()
    late = threading.Timer(0.5, (aside / "A").rename, [queues / "A"])
    late.start()
    assert sorted(numbers(query.run())) == list(range(6))
    late.join()


def test_available_now_ends_at_what_was_there(writer):
    writer.put_all(100)  # what has no unit yet is not there for a reader
    query = Query(writer.path, columns="body", available_now=True, maxOffsetsPerTrigger=30, minOffsetsPerTrigger=29)
    writer.put_all(100)
    bites = [numbers(bite) for bite in query.bites()]
    assert sorted(chain(*bites)) == list(range(100))
    assert [len(bite) for bite in bites] == [30, 30, 30, 10]
    query.restart()
    assert sorted(n for bite in query.bites() for n in numbers(bite)) == list(range(100, 200))


def test_few_messages_wait(writer, monkeypatch):
    clock = [1000.0]
    own_time(monkeypatch, reader, monotonic=lambda: clock[0])
    writer.put_all(5)
    query = Query(writer.path, columns="body", minOffsetsPerTrigger=10, maxTriggerDelay="30s")
    assert query.plan() and len(query.run()) == 5, "the first batch does not wait"
    writer.put_all(9)
    assert not query.plan()
    clock[0] += 29
    assert not query.plan()
    clock[0] += 1
    assert query.plan() and len(query.run()) == 9
    writer.put_all(10)
    assert query.plan() and len(query.run()) == 10


def test_the_lag(writer):
    writer.put_all(300)
    query = Query(writer.path, columns="size", maxOffsetsPerTrigger=100)
    read = sum(row["size"] for row in next(query.bites()))
    rest = Query(writer.path, columns="size", startingOffsets=json.dumps(query.offset))
    behind = sum(row["size"] for bite in rest.bites() for row in bite)
    assert read and (query.reported["lagMessages"], query.reported["lagBytes"]) == (200, behind)
    assert sum(n for key, n in query.reported.items() if "/" in key) == 300


# -- what can go wrong ---------------------------------------------------------------------------------------------


def expire(path, count):
    """Delete the first files of the log, as retention does."""
    for file in sorted((path / "commitlog").iterdir())[:count]:
        file.unlink()
    return int(sorted((path / "commitlog").iterdir())[0].name)


def test_retention_overtook_the_reader(golden, tmp_path, caplog):
    store = golden("basic")
    path = store.copy(tmp_path)
    query = Query(path, subscribe="Orders", maxOffsetsPerTrigger=10)
    got = next(query.bites())
    first = expire(path, 2)
    with pytest.raises(
        StoreError, match=r"topic 'Orders', queue [0-3], offset \d+: messages before offset \d+ have exp"
    ):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    rest = [row["physical_offset"] for bite in query.bites() for row in bite]
    orders = in_queues(row for row in store.rows if row["topic"] == "Orders")
    assert sorted(rest) == [offset for offset in orders if offset >= first]
    assert orders[: len(got)] == [row["physical_offset"] for row in got]
    told = [line for line in caplog.messages if "expired" in line]
    assert len(told) == 1, "one line for all four queues"
    assert "have expired and were not read" in told[0] and told[0].endswith("(now going on); and 3 more losses")


def test_retention_overtook_a_planned_batch(golden, tmp_path):
    store = golden("basic")
    path = store.copy(tmp_path)
    query = Query(path, subscribe="Orders")
    assert query.plan()
    expire(path, 2)
    query.restart()
    with pytest.raises(StoreError, match="topic 'Orders', queue 0, offset 0"):
        query.run()


def test_another_store_in_its_place(golden, tmp_path, no_grace):
    path = golden("basic").copy(tmp_path)
    query = Query(path, assign='{"Orders": [0]}')
    assert len(list(query.bites())) == 1
    shutil.rmtree(path)
    put_messages(path, (Message("Orders", b"%d" % number, queue_id=0) for number in range(3)))
    query.restart()
    with pytest.raises(StoreError, match=r"the log ends at offset \d+, before \d+, which was read: .*another store's"):
        query.plan()


def test_a_checkpoint_of_something_else(golden):
    query = Query(golden("basic").path)
    with pytest.raises(UsageError, match="checkpoint"):
        query.reader.latestOffset({"logOffset": 5}, query.limit)


def test_an_unknown_queue_to_begin_with(golden):
    with pytest.raises(UsageError, match="no queue 9 of topic 'Orders'"):
        Query(golden("basic").path, startingOffsets='{"Orders/9": 5}')


# -- many queues: only what differs is worked on -----------------------------------------------------------------------


def some_offsets(chance, names):
    return {name: chance.randrange(3) for name in names if chance.random() < 0.8}


def test_offsets_are_written_the_same_whatever_was_written_before():
    """Names that come, go and change; each time as if nothing had been written yet, the order of keys too."""
    chance, names = random.Random(5), [QueueName(topic, queue) for topic in "bac" for queue in (2, 10, 1)]
    writes, offsets = StoreStream(StreamOptions.parse({"path": "unused"})), {}
    for number in range(300):
        anchor = LogAnchor(number, 9, 7, 8) if chance.random() < 0.5 else None
        if chance.random() < 0.7:
            offsets = offsets | {
                name: chance.randrange(9) for name in chance.sample(sorted(offsets), len(offsets) // 3)
            }
        else:
            offsets = some_offsets(chance, names)
        expected = (marks(anchor) if anchor else {}) | flat(offsets)
        assert list(writes._flat(offsets, anchor).items()) == list(expected.items())


def test_what_differs_between_two_offsets():
    chance, names = random.Random(6), [QueueName("t", queue) for queue in range(6)]
    for _ in range(300):
        one, other = some_offsets(chance, names), some_offsets(chance, names)
        found = _differing(one, other)
        assert sorted(found) == [name for name in names if one.get(name) != other.get(name)], "each once"


def test_what_a_micro_batch_ends_with_is_not_parsed_again(writer, monkeypatch):
    writer.put_all(30)
    query = Query(writer.path, columns="body")
    next(query.bites())
    monkeypatch.setattr("flintmq.lake.stream.reader.parse_flat", None)
    _, stream = query.reader.stream._streams[ONLY]
    stream._names.clear()
    writer.put_all(20)
    assert len(next(query.bites())) == 20
    assert flat(stream._parse(query.offset)[0]) == {
        name: number for name, number in query.offset.items() if not name.startswith("@")
    }
