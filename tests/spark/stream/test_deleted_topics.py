"""Topics that FlintMQ deleted: streams give none of their messages, take none for lost, and wait for none."""

import shutil

import pytest

import flintmq
from flintmq.errors import MessageNotFoundError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.queues import StreamQueues
from flintmq.store.layout.queue_name import QueueName
from tests.spark.stream.drive import Query
from tests.support.engine import KEYS, open_small, put_dispatched

OPTIONS = {name: str(value) for name, value in KEYS.items()}
REMADE = {
    "not": lambda store: None,
    "without messages": lambda store: store.create_topic("T", 4),
    "in its queue": lambda store: put_dispatched(store, 3, 100),
    "in another queue": lambda store: put_dispatched(store, 3, 100, queue_id=2),
    "with more": lambda store: put_dispatched(store, 30, 100),
}


def deleted_in(store, remade):
    """Messages 0 to 19 of T are deleted, between some of U."""
    put_dispatched(store, 5, topic="U")
    put_dispatched(store, 10)
    put_dispatched(store, 10, 10, queue_id=1)
    put_dispatched(store, 5, 5, topic="U")
    store.delete_topic("T")
    REMADE[remade](store)
    put_dispatched(store, 2, 10, topic="U")


def rows_of(path, **more):
    """Numbers of the messages of U and T that a stream gives, from the first on; it fails where one is lost."""
    rows = [row for bite in Query(path, "topic,body", **OPTIONS, **more).bites() for row in bite]
    return [sorted(int(row["body"][:6]) for row in rows if row["topic"] == topic) for topic in "UT"]


@pytest.mark.parametrize("remade", REMADE)
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": 4}])
def test_a_stream_gives_the_messages_that_queues_have(tmp_path, remade, limit):
    news = {"with more": 30, "not": 0, "without messages": 0}.get(remade, 3)
    wanted = [list(range(12)), list(range(100, 100 + news))]
    with open_small(tmp_path / "store") as store:
        deleted_in(store, remade)
        assert rows_of(store.root, **limit) == wanted
        assert StreamQueues(ReadOptions(path=store.root, config=store.config)).settled, "it would be waited for"
    assert rows_of(tmp_path / "store", **limit) == wanted
    shutil.rmtree(tmp_path / "store" / "consumequeue")  # then the log is read
    assert rows_of(tmp_path / "store", **limit) == wanted


def test_the_last_records_of_a_written_store_may_be_deleted(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 3, topic="U")
        put_dispatched(store, 9)
        store.delete_topic("T")
        queues = StreamQueues(ReadOptions(path=store.root, config=store.config))
        assert queues.settled and queues.bounds == {QueueName("U", 0): (0, 3)}
        put_dispatched(store, 2)
        queues.refresh(force=True)
        assert queues.settled and queues.bounds == {QueueName("U", 0): (0, 3), QueueName("T", 0): (0, 2)}


def test_who_reads_the_log_finds_its_records(tmp_path):
    """A table of exports and the log that it is of agree, whenever a topic was deleted."""
    with open_small(tmp_path) as store:
        deleted_in(store, "in its queue")
    found = flintmq.scan_arrow(tmp_path, set=KEYS, columns=["topic"]).read_all()["topic"].to_pylist()
    assert (found.count("T"), found.count("U")) == (23, 12)
    with flintmq.open_store(tmp_path, set=KEYS) as view:
        assert sum(message.topic == "T" for message in view.messages()) == 23
        assert [message.queue_offset for message in view.query("T", "k3")] == [3]


def test_a_deleted_message_takes_no_lost_ones_place(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 3)
        store.delete_topic("T")
        at = put_dispatched(store, 3, 100)[0].physical_offset
    with open(tmp_path / "commitlog" / f"{at - at % 4096:020d}", "r+b") as log:
        log.seek(at % 4096 + 100)
        log.write(b"X")
    with flintmq.open_store(tmp_path, set=KEYS) as view:
        assert view.bounds("T", 0) == (0, 3) and view.get("T", 0, 1).body[:6] == b"000101"
        with pytest.raises(MessageNotFoundError):
            view.get("T", 0, 0)
