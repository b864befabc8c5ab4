"""What became of every message, found on Spark: the rows are those of the functions, wherever the logs are cut."""

import pickle
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintmq import Message, MessageStore
from flintmq.arrow.answers import schema_of, table
from flintmq.arrow.schema import US
from flintmq.cluster.members import find_members
from flintmq.config.keys import StoreConfig
from flintmq.errors import UnknownTopicError, UsageError
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.trace import Trace, trace
from flintmq.spark.jobs import trace as job
from flintmq.testing.write_store import write_store
from tests.compat.stores import Golden
from tests.support.engine import open_small
from tests.support.makers import config_of

GOLDEN = ("basic", "batch", "config", "config540", "config550", "delay", "delay550", "timer", "timer550", "v540")
RANGES = 16


@pytest.fixture(autouse=True)
def ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut logs into several ranges, so that the records of a message are in different ones."""
    monkeypatch.setattr(job, "split_count", lambda span, cores: RANGES)


class Calls:
    """As much of a session as the job uses: tasks as calls, whose functions and rows travel as they do on Spark."""

    def __init__(self, batches: list[pa.RecordBatch] | None = None, parts: int = 1) -> None:
        self.batches, self.parts = batches or [], parts

    def range(self, first: int, stop: int, step: int, parts: int) -> "Calls":
        return Calls([pa.RecordBatch.from_pydict({"id": [number]}) for number in range(first, stop, step)], parts)

    def repartition(self, parts: int, column: str) -> "Calls":
        return Calls(sorted(self.batches, key=lambda batch: hash(str(batch[column][0])) % parts), parts)

    def mapInArrow(self, function: Any, schema: Any) -> "Calls":
        by_part: dict[int, list[pa.RecordBatch]] = {}
        for batch in self.batches:
            by_part.setdefault(hash(str(batch[0][0])) % self.parts, []).append(batch)
        return Calls([one for some in by_part.values() for one in pickle.loads(pickle.dumps(function))(iter(some))])

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, schema_of(Trace, US))


@pytest.fixture(name="calls")
def calls_in_place_of_spark() -> Calls:
    return Calls()


def told(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as texts. In an hour of deleteWhen what is to go goes at once: at the moment of the question."""
    now = datetime.now(UTC)
    at_once = [one["delete_ms"] is not None and abs(one["delete_ms"] - now) < timedelta(minutes=10) for one in rows]
    return sorted(repr({**one, "delete_ms": "now"} if gone else one) for one, gone in zip(rows, at_once, strict=True))


def here(root: Any, topics: Sequence[str], config: StoreConfig | None = None) -> list[dict[str, Any]]:
    """The rows of the functions, with times as Spark has them."""
    members = find_members(root, config or StoreConfig())
    rows = [row for topic in topics for row in trace(members, TraceAsked(topic=topic), config).rows]
    found: list[dict[str, Any]] = table(rows, Trace, times=US).to_pylist()
    return found


def there(spark: Any, root: Any, config: StoreConfig | None = None, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job.trace(spark, root, config, **more).toArrow().to_pylist()
    return found


def topics_of(store: Golden) -> list[str]:
    """The topics that messages of this store were sent to, by Java's rows."""
    named = {row["properties"].get("REAL_TOPIC", row["topic"]) for row in store.live}
    return sorted(name for name in named if not name.startswith(("%", "RMQ_SYS", "rmq_sys", "SCHEDULE", "OFFSET_")))


@pytest.mark.parametrize("name", GOLDEN)
def test_rows_are_those_of_the_functions(calls: Calls, golden: Callable[[str], Golden], name: str) -> None:
    store, config = golden(name), config_of(golden(name))
    topics = topics_of(store)
    whole = told(here(store.path, topics, config))
    assert told(there(calls, store.path, config)) == whole and whole
    one = topics[-1]
    assert told(there(calls, store.path, config, topics=[one])) == told(here(store.path, [one], config))


def test_every_ending_was_among_them(golden: Callable[[str], Golden]) -> None:
    """So the comparison above is of all of them, but for what the next tests make."""
    rows = [row for name in GOLDEN for row in here(golden(name).path, topics_of(golden(name)), config_of(golden(name)))]
    assert {row["state"] for row in rows} >= {"delivered", "waiting", "hanging", "rolled back"}
    assert {row["source"] for row in rows} == {None, "delay", "timer", "transaction"}
    assert any(row["retries"] for row in rows) and any(row["groups"] for row in rows)


@pytest.mark.spark
def test_two_stores_are_one_cluster(spark: Any, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """The same store twice: each id is there on both, and a retry is of its own broker's message."""
    for broker in "ab":
        shutil.copytree(golden("config").path, tmp_path / broker / "store")
    both, config = f"{tmp_path}/{{broker}}/store", config_of(golden("config"))
    topics = topics_of(golden("config"))
    found = there(spark, both, config)
    assert told(found) == told(here(both, topics, config))
    assert {row["broker"] for row in found} == {"a", "b"}
    as_sql = job.trace(spark, both, config, topics=["Trade"])
    as_sql.createOrReplaceTempView("became")
    [row] = spark.sql("SELECT count(*) AS n, sum(size(retries)) AS again FROM became").collect()
    assert (row["n"], row["again"]) == (2 * 85, 4)


def test_retries_of_other_brokers_and_without_an_id(calls: Calls, tmp_path: Path) -> None:
    """A message that waited has no id of its own before its delivery; its retry names what it became."""
    with open_small(tmp_path / "a" / "store") as a, open_small(tmp_path / "b" / "store") as b:
        first = a.get_at(a.put(Message("T", b"x", keys="k", properties={"UNIQ_KEY": "U1"})).physical_offset)
        given_back = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": first.offset_msg_id, "UNIQ_KEY": "U1"}
        b.put(Message("%RETRY%G", b"x", keys="k", properties=given_back, reconsume_times=1))
        b.put(Message("%DLQ%G", b"x", keys="k", properties={**given_back, "UNIQ_KEY": "U2"}, reconsume_times=2))
        for number in range(40):
            b.put(Message("T", b"%d" % number, properties={} if number % 2 else {"UNIQ_KEY": f"P{number % 8}"}))
        waited = {"born_timestamp": 1_700_000_000_000, "born_host": "10.0.0.1:5"}
        late = Message("T", b"y", properties={"TIMER_DEQUEUE_MS": "1"}, **waited)  # type: ignore[arg-type]
        came = a.get_at(a.put(late).physical_offset)
        more = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": came.offset_msg_id}
        a.put(Message("%RETRY%G", b"y", properties=more, reconsume_times=1, **waited))  # type: ignore[arg-type]
    both = f"{tmp_path}/{{broker}}/store"
    found = there(calls, both)
    assert told(found) == told(here(both, ["T"]))
    again = {row["offset_msg_id"]: len(row["retries"]) for row in found if row["retries"]}
    assert again == {first.offset_msg_id: 1, came.offset_msg_id: 1}
    assert [row["msg_id"] for row in found if row["state"] == "expired"] == ["U2"]


def test_a_made_store(calls: Calls, tmp_path: Path) -> None:
    """Inner batches, IPv6, strange properties, names that are not ASCII; groups in the midst of queues."""
    path = write_store(
        tmp_path / "s", 3_000, 5, kinds="all", topics=["Orders", "\u5e93\u5b58"], body_bytes=(0, 300)
    ).path
    offsets = path / "config" / "consumerOffset.json"
    offsets.write_text('{"offsetTable":{"Orders@G":{0:20,1:0,2:400},"Orders@H":{0:20,1:7,9:3}}}')
    found = there(calls, path, topics=["Orders", "\u5e93\u5b58"])
    assert told(found) == told(here(path, ["Orders", "\u5e93\u5b58"]))
    passed = {(group["group"], group["passed"]) for row in found for group in row["groups"]}
    assert passed == {("G", True), ("G", False), ("H", True), ("H", False)}


def test_a_deleted_topic(calls: Calls, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s") as store:
        for number in range(30):
            store.put(Message("Old" if number % 3 else "T", b"%d" % number, properties={"UNIQ_KEY": f"U{number}"}))
        store.delete_topic("Old")
    found = there(calls, tmp_path / "s")
    assert [row["state"] for row in found].count("deleted") == 20
    assert told(found) == told(here(tmp_path / "s", ["Old", "T"]))


@pytest.mark.spark
def test_damage(spark: Any, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """Over the begins and ends of some ranges: it fails the action, or is skipped as by the functions."""
    copy, config = golden("basic").copy(tmp_path), config_of(golden("basic"))
    topics = topics_of(golden("basic"))
    with (copy / "commitlog" / "00000000000000131072").open("rb+") as file:
        file.seek(20_000)
        file.write(b"\xff" * 60_000)
    frame = job.trace(spark, copy, config)
    with pytest.raises(Exception, match=r"CorruptStoreError: .*00000000000000131072, position"):
        frame.collect()
    found = there(spark, copy, config, fail_on_data_loss=False)
    assert told(found) == told(here(copy, topics, config))
    assert 0 < len(found) < len(here(golden("basic").path, topics, config))


def test_what_is_refused(calls: Calls, golden: Callable[[str], Golden]) -> None:
    with pytest.raises(UnknownTopicError, match="no topic 'Order'; did you mean 'Orders'"):
        job.trace(calls, golden("basic").path, topics=["Order"])
    with pytest.raises(UsageError, match="no topic that messages are sent to"):
        job.trace(calls, golden("basic").path, topics=["Orders", "%DLQ%G"])
    assert there(calls, golden("basic").path, topics=["Nowhere"], fail_on_data_loss=False) == []
