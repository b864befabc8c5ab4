import json
from collections import Counter

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, StoreError, UsageError
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.timers import timers
from flintmq.spark.source import FlintMQSource
from flintmq.store.consumer.retry import sent_back
from flintmq.store.read.queue_lookup import QueueLookup
from tests.support.spark_reading import partitions


def rows(which, path, **options):
    source = FlintMQSource({"path": str(path), "view": which, **options})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def queues(path, **options):
    return rows("queues", path, **options)


def test_counts_are_those_of_the_messages(golden):
    for name in ("basic", "rolled", "v540"):
        store = golden(name)
        want = Counter((row["topic"], row["queue_id"]) for row in store.live if row["sys_flag"] & 12 in (0, 8))
        found = {(row["topic"], row["queue_id"]): row["messages"] for row in queues(store.path)}
        assert {queue: number for queue, number in found.items() if number} == want, name
    (row,) = queues(golden("rolled").path, assign='{"Roll": [0]}')
    assert row["max_offset"] - row["min_offset"] == row["messages"] and row["min_offset"] == 128


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"subscribe": "Order"}, "no topic 'Order'; did you mean 'Orders'"),
        ({"columns": "topic"}, "option columns does not apply to view queues"),
        ({"startingTimestamp": "1700000000000"}, "option startingTimestamp does not apply to view queues"),
        ({"view": "topics"}, "not one of messages, queues"),
    ],
)
def test_what_is_refused(golden, options, complaint):
    with pytest.raises(UsageError, match=complaint):
        queues(golden("basic").path, **options)


def test_it_is_told_what_is_read(golden, caplog):
    partitions(golden("basic").path, subscribe="Orders", verbose="true")
    assert caplog.messages[-1].endswith("; records with topic in ('Orders')")


def test_errors_bring_one_frame(golden):
    """Of those of this library, however deep they were raised."""
    with pytest.raises(UsageError) as caught:
        partitions(golden("basic").path, subscribe="Nowhere")
    frames = [entry.path.name for entry in caught.traceback]
    assert frames[-1] == "failing.py" and frames.count("asked.py") == 0


def test_a_topic_that_no_store_has(tmp_path):
    for broker, topic in (("a", "Orders"), ("b", "Refunds")):
        with MessageStore(tmp_path / broker / "store") as store:
            store.put(Message(topic, b"1"))
    both = f"{tmp_path}/{{broker}}/store"
    assert [row["broker"] for row in queues(both, subscribe="Refunds")] == ["b"]
    with pytest.raises(UsageError, match=r"no topic 'Order'; did you mean 'Orders'.*\(nor have 1 other stores\)"):
        queues(both, subscribe="Order")
    assert queues(both, subscribe="Order", failOnDataLoss="false") == []


def java_hash(text):
    """As Java's String.hashCode, whose absolute value is the hash of a key."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) % 2**32
    return abs(value - 2**32 if value >= 2**31 else value)


@pytest.fixture
def store(tmp_path):
    """Three messages of Orders and two of Refunds, each in queue 0 and with a key."""
    with MessageStore(tmp_path / "store") as store:
        for topic, number in (("Orders", 0), ("Refunds", 0), ("Orders", 1), ("Orders", 2), ("Refunds", 1)):
            store.put(Message(topic, b"body", queue_id=0, keys=f"{topic}-{number}"))
    return tmp_path / "store"


def committed(store, table):
    path = store / "config" / "consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": table}))
    return path


def test_the_lag_of_groups(store):
    assert rows("groups", store) == []  # nobody consumed
    committed(store, {"Orders@billing": {"0": 1}, "Refunds@billing": {"0": 2}, "Orders@audit": {"0": 0}})
    names = ("consumer_group", "topic", "queue_id", "next_offset", "max_offset", "lag")
    found = [tuple(row[name] for name in names) for row in rows("groups", store)]
    assert found == [
        ("audit", "Orders", 0, 0, 3, 3),
        ("billing", "Orders", 0, 1, 3, 2),
        ("billing", "Refunds", 0, 2, 2, 0),
    ]
    assert [row["topic"] for row in rows("groups", store, subscribe="Refunds")] == ["Refunds"]
    assert rows("groups", store, assign='{"Orders": [1]}', failOnDataLoss="false") == []


def test_offsets_that_cannot_be_read_are_not_left_out_in_silence(store, caplog):
    path = committed(store, {"Orders@billing": {"0": 1}})
    path.write_text("{")
    with pytest.raises(StoreError, match=r"consumerOffset.json, position \d+: .*failOnDataLoss=false reads the rest"):
        rows("groups", store)
    assert rows("groups", store, failOnDataLoss="false") == []
    assert "consumerOffset.json, position" in caplog.messages[-1]


def test_a_queue_that_cannot_be_read_has_no_lag_of_zero(store, monkeypatch, caplog):
    committed(store, {"Orders@billing": {"0": 1}, "Refunds@billing": {"0": 1}})
    bounds = QueueLookup.bounds

    def refused(self, name):
        if name.topic == "Orders":
            raise StoreAccessError(f"{store}/consumequeue/Orders/0: Permission denied")
        return bounds(self, name)

    monkeypatch.setattr(QueueLookup, "bounds", refused)  # root may read everything
    assert [row["lag"] for row in rows("groups", store, subscribe="Refunds")] == [1]
    with pytest.raises(StoreError, match="the lag of group billing is not known: Orders/0: .*Permission denied"):
        rows("groups", store)
    assert [row["topic"] for row in rows("groups", store, failOnDataLoss="false")] == ["Refunds"]
    assert "the lag of group billing is not known" in caplog.messages[-1]


def test_an_offset_after_the_end_of_its_queue_is_told(store, caplog):
    committed(store, {"Orders@billing": {"0": 9}})
    ((offset, end, lag),) = [(row["next_offset"], row["max_offset"], row["lag"]) for row in rows("groups", store)]
    assert (offset, end, lag) == (9, 3, 0)
    assert "group billing has the offset 9 in queue Orders/0, which ends at 3" in caplog.messages[-1]


def test_the_items_of_the_index(store):
    with open_store(store) as view:
        messages = [view.get("Orders", 0, n) for n in range(3)] + [view.get("Refunds", 0, n) for n in range(2)]
    wanted = {(java_hash(f"{one.topic}#{one.keys}"), one.physical_offset) for one in messages}
    times = [one.store_timestamp for one in messages]
    found = rows("index", store)
    assert wanted <= {(row["key_hash"], row["physical_offset"]) for row in found} and len(found) in (5, 10)
    stamps = [row["store_timestamp"].timestamp() * 1000 for row in found]
    assert all(min(times) <= stamp <= max(times) for stamp in stamps)
    of_orders = {place for place in wanted if place[0] in {java_hash(f"Orders#Orders-{n}") for n in range(3)}}
    found = rows("index", store, subscribe="Orders")
    assert of_orders <= {(row["key_hash"], row["physical_offset"]) for row in found}
    assert {row["physical_offset"] for row in found} == {offset for _, offset in of_orders}


def test_an_index_that_lacks_items_is_told(store, caplog):
    (file,) = (store / "index").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:36] + (9_000_000).to_bytes(4, "big") + data[40:])
    with pytest.raises(StoreError, match="the header says 8999999 items.*failOnDataLoss=false reads the rest"):
        rows("index", store)
    rows("index", store, failOnDataLoss="false")
    assert "the header says 8999999 items" in caplog.messages[-1]
    file.write_bytes(data[:20])
    with pytest.raises(StoreError, match=r"index.*failOnDataLoss=false"):
        rows("index", store)
    file.unlink()
    assert rows("index", store) == []


@pytest.mark.parametrize("view", ["halves", "timers", "dead"])
@pytest.mark.parametrize(
    ("name", "topic"), [("config", "Tx"), ("config540", "Tx"), ("delay", "Later"), ("timer", "Timed")]
)
def test_what_waits_is_that_of_the_commands(golden, view, name, topic):
    """The rows themselves are measured by Java's in tests/forensics/answers."""
    store, answers = golden(name), {"halves": halves, "timers": timers, "dead": dead}
    member = Member(str(store.path), "")
    want = answers[view]([member], StoreConfig()).to_arrow().drop_columns(["broker", "store"]).to_pylist()
    found = rows(view, store.path)
    assert found == want
    assert len(found) == {"timer-timers": 87, "config-halves": 3, "delay-timers": 27}.get(f"{name}-{view}", len(want))
    assert rows(view, store.path, subscribe=topic) == [one for one in want if one["topic"] == topic]


def test_dead_letters_of_a_topic(tmp_path):
    with MessageStore(tmp_path) as store:
        for topic in ("T", "U"):
            first = store.get_at(store.put(Message(topic, b"x", queue_id=1)).physical_offset)
            store.put(sent_back(first, "G", level=-1))
    assert [(row["first_topic"], row["first_queue"]) for row in rows("dead", tmp_path)] == [("T", 1), ("U", 1)]
    assert [row["first_topic"] for row in rows("dead", tmp_path, subscribe="U")] == ["U"]
