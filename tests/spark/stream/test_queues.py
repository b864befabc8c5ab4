"""Queues that come and go while a query runs."""

import random
import shutil
import time
from collections import Counter

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import StoreError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream import queues
from flintmq.objects.object_store import FRESH_SECONDS
from flintmq.storage.files.filesystem import Effects
from flintmq.store.read.queue_lookup import QueueLookup
from tests.spark.stream.drive import Query, numbers
from tests.support.spark_reading import read


def test_new_queues_and_topics_are_found(writer):
    query = Query(writer.path, columns="body", startingOffsets="latest")
    assert query.initial == {}
    assert not query.plan()
    got = []
    for topics, count in ((["A"], 1), (["A"], 3), (["A", "New"], 4), (["%RETRY%g"], 1)):
        writer.put_all(50, topics, count)
        got += [row for bite in query.bites() for row in bite]
    assert sorted(numbers(got)) == list(range(200))


def test_a_topic_that_is_not_there_yet_is_told(golden, writer, caplog):
    """A stream waits for it, an export of a misspelled topic likewise: whoever starts it is told."""
    Query(golden("basic").path, subscribe="Order,Orders")
    (line,) = caplog.messages
    assert "the store has no topic 'Order'; did you mean 'Orders'?; it is read once it exists" in line
    query = Query(writer.path, columns="body", subscribe="Later,Never")
    assert "(and 1 other topics)" in caplog.text
    writer.put_all(5, ["Later"])
    assert sorted(numbers(row for bite in query.bites() for row in bite)) == list(range(5))


def test_a_topic_that_is_not_there_is_told_again_to_a_query_that_goes_on(writer, caplog):
    writer.put_all(5, ["Orders"])
    query = Query(writer.path, columns="body", subscribe="Order,Orders", maxOffsetsPerTrigger=2)
    words = "the store has no topic 'Order'; did you mean 'Orders'?; it is read once it exists"
    assert query.plan() and [words in line for line in caplog.messages] == [True]
    caplog.clear()
    query.restart()
    assert sorted(numbers(row for bite in query.bites() for row in bite)) == list(range(5))
    assert len(query.batches) > 2 and [words in line for line in caplog.messages] == [True]


def test_a_queue_that_is_gone(golden, tmp_path, no_grace):
    path = golden("basic").copy(tmp_path)
    query = Query(path, maxOffsetsPerTrigger=100)
    next(query.bites())
    shutil.rmtree(path / "consumequeue" / "Orders")
    query.restart()
    with pytest.raises(StoreError, match="topic 'Orders', queue 0, offset [0-9]+: the queue was removed"):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    rows = [row for bite in query.bites() for row in bite]
    assert {row["topic"] for row in rows} >= {"Payments"} and "Orders/0" not in query.offset, "forgotten"


def test_a_copy_on_object_storage_that_is_replaced_as_it_grows(writer, objects):
    """Of a store that is open: copied in the order in which a copy is right, queues after the log."""
    got = []
    query = None
    for count in (300, 1, 500):
        writer.put_all(count, ["A", "B"], 2)
        for part in ("config", "commitlog", "consumequeue"):
            if (writer.path / part).is_dir():
                objects.put(writer.path / part, f"growing-copy/{part}")
        for file in ("abort", "lock", "checkpoint"):
            if (writer.path / file).is_file():
                objects.put_object(f"growing-copy/{file}", (writer.path / file).read_bytes())
        if query is None:
            query = Query("s3://stores/growing-copy", columns="body", maxOffsetsPerTrigger=200, **objects.keys)
        else:
            time.sleep(FRESH_SECONDS + 0.1)
        got += [row for bite in query.bites() for row in bite]
        assert sorted(numbers(got)) == list(range(writer.count))


# -- many queues --------------------------------------------------------------------------------------------------


QUEUES = [(f"t{number // 4:03d}", number % 4) for number in range(400)]


class Many:
    """A store of 400 queues, open or at rest: then it is opened for each `put` and closed after it."""

    def __init__(self, root, at_rest):
        self.root = root
        self.store = None
        self.put(QUEUES)
        if not at_rest:
            self.store = self._open()

    def _open(self):
        return MessageStore(self.root, mapped_file_size_consume_queue=20_000)

    def put(self, queues):
        """A message to each queue, dispatched."""
        store = self.store or self._open()
        for topic, queue in queues:
            store.put(Message(topic, b"x", queue_id=queue))
        assert store.wait_dispatched(30)
        if self.store is None:
            store.close()


@pytest.fixture(scope="module", params=[False, True], ids=["open", "at rest"])
def many(request, tmp_path_factory):
    made = Many(tmp_path_factory.mktemp("many"), request.param)
    yield made
    if made.store is not None:
        made.store.close()


@pytest.fixture
def looks(monkeypatch):
    """The queues whose files were asked for their ends, each time that they were."""
    asked = []
    find = QueueLookup._found_bounds
    monkeypatch.setattr(QueueLookup, "_found_bounds", lambda lookup, name: (asked.append(name), find(lookup, name))[1])
    return asked


@pytest.mark.parametrize("length", ["short", "long"])
def test_the_first_micro_batch_visits_each_queue_once(tmp_path, monkeypatch, length):
    """Its begin, its end and its tasks, if nothing comes meanwhile; a longer queue is opened for each end, and once."""
    count = 3 if length == "short" else 300
    with MessageStore(tmp_path, mapped_file_size_consume_queue=20_000) as store:
        store.put_many([Message("T", b"x", queue_id=number % 80) for number in range(80 * count)])
    monkeypatch.setattr(queues, "QUIET_SECONDS", 1e9)
    visits, below = Counter(), str(tmp_path / "consumequeue")

    def counted(name):
        asked = getattr(Effects, name)

        def call(effects, path, *rest):
            visits[name] += str(path).startswith(below)
            return asked(effects, path, *rest)

        return call

    for name in ("open_read", "only_file", "regular_files"):
        monkeypatch.setattr(Effects, name, counted(name))
    query = Query(tmp_path, columns="topic,queue_id,queue_offset")
    assert query.plan() and query.reader.partitions(*query.batches[0])
    if length == "short":
        assert visits["open_read"] == visits["regular_files"] == 0
    else:
        assert visits["open_read"] <= 2 * 80 + 1 and visits["regular_files"] <= 80 + 1
    assert visits["only_file"] <= 80 + 1, "one tells how far dispatch is"


@pytest.mark.parametrize("options", [{}, {"subscribe": "t007"}], ids=["all topics", "one topic"])
def test_a_micro_batch_looks_at_what_has_something_new(many, looks, options):
    query = Query(many.root, columns="topic,queue_id,queue_offset", startingOffsets="latest", **options)
    topics = {"t007"} if options else {topic for topic, _ in QUEUES}
    assert len(looks) < (8 if options else 2 * len(QUEUES)), "one topic of many costs what it has"
    changed = random.Random(7).sample(QUEUES, 10) + [("t007", 3)]
    for _ in range(3):
        many.put(changed)
        looks.clear()
        rows = [row for bite in query.bites() for row in bite]
        assert sorted({(row["topic"], row["queue_id"]) for row in rows}) == sorted(
            queue for queue in set(changed) if queue[0] in topics
        )
        assert len(looks) < 80, "of 400, in six questions to the planner"


def test_a_batch_read_of_one_topic_looks_at_no_other(many, looks):
    assert len(read(many.root, subscribe="t007", startingOffsets='{"t007": {"1": 1}}')) >= 3
    assert {name.topic for name in looks} == {"t007"}


@pytest.mark.parametrize("live", [True, False], ids=["while it is written", "at rest"])
def test_partial_looks_see_what_a_whole_look_sees(tmp_path, live, monkeypatch):
    """Whatever is put, in new queues and old ones, seen at once or after a while, with the store open or closed."""
    monkeypatch.setattr(queues, "IN_TURN", 0)
    chance, options = random.Random(3), ReadOptions(str(tmp_path))
    store = MessageStore(tmp_path, mapped_file_size_commit_log=64 * 1024, mapped_file_size_consume_queue=20_000)
    store.__enter__()
    seen = None
    for _ in range(12):
        for _ in range(chance.choice([1, 5, 200])):
            topic = f"t{chance.randrange(60)}"
            store.put(Message(topic, b"x" * chance.randrange(200), queue_id=chance.randrange(3)))
            if seen is not None and chance.random() < 0.02:
                seen.refresh()
        if live:
            assert store.wait_dispatched(60)
        else:
            store.close()
        if seen is None:
            seen = queues.StreamQueues(options)
        seen.refresh()
        assert seen.bounds == queues.StreamQueues(options).bounds
        if not live:
            store = MessageStore(tmp_path)
            store.__enter__()
    store.close()


def test_a_queue_without_news_that_is_gone_is_noticed(many, tmp_path, monkeypatch):
    """Not at once, but in its turn."""
    monkeypatch.setattr(queues, "QUIET_SECONDS", 0.0)
    path = tmp_path / "copy"
    shutil.copytree(many.root, path)
    (path / "abort").unlink(missing_ok=True)  # as after a clean stop: nothing of the log is asked
    seen = queues.StreamQueues(ReadOptions(str(path)))
    shutil.rmtree(path / "consumequeue" / "t050")
    before = set(seen.bounds)
    for _ in range(-(-len(before) // queues.IN_TURN)):
        seen.refresh()
    assert {name.topic for name in before - set(seen.bounds)} == {"t050"}
