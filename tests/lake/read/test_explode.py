"""Inner batches as rows: what RocketMQ's client makes of them."""

import json

import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.lake.read.explode import exploded, with_needed
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.scan import plan_scan, scan_range
from flintmq.lake.read.splits import LogRange
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from tests.compat.stores import FOLDER


def read(path, schema=SPARK_SCHEMA, **options):
    plan = plan_scan(ReadOptions(path=str(path), **options), Report())
    return pa.Table.from_batches(scan_range(plan, LogRange(plan.begin, plan.end), schema, Report()), schema).to_pylist()


def test_each_message_of_a_batch_is_a_row(golden):
    """Java's own view of the queue tells how many messages a record holds, and at which queue offsets."""
    store = golden("batch")
    rows = read(store.path, explode=True)
    by_record = {}
    for row in rows:
        by_record.setdefault(row["physical_offset"], []).append(row)
    assert list(by_record) == [record["physical_offset"] for record in store.rows]
    several = 0
    for record in store.rows:
        parts = by_record[record["physical_offset"]]
        many = record["sys_flag"] & 0x80
        count = int(record["properties"]["INNER_NUM"]) if many else 1
        assert [part["queue_offset"] for part in parts] == list(
            range(record["queue_offset"], record["queue_offset"] + count)
        )
        assert all(part["store_host"] == record["store_host"] and part["topic"] == record["topic"] for part in parts)
        several += count > 1
        if not many:
            assert dict(parts[0]["properties"]) == record["properties"]
    assert several > 10


def test_the_messages_are_those_that_were_sent(golden):
    """Against the script that Java ran to write the store."""
    sent = []
    for line in (FOLDER / "batch.ops.jsonl").read_text(encoding="utf-8").splitlines():
        op = json.loads(line)
        for message in op.get("messages", [op]) if op.get("topic") == "BatchTopic" else ():
            own = (message["body"]["size"], message.get("keys"), message.get("uniq_key"), message.get("tags"))
            sent.append((op["queue"], *own))
    rows = sorted(read(golden("batch").path, explode=True), key=lambda row: (row["queue_id"], row["queue_offset"]))
    got = [
        (row["queue_id"], len(row["body"]), row["keys"], row["msg_id"], row["tags"])
        for row in rows
        if row["topic"] == "BatchTopic"
    ]
    assert got == sorted(sent, key=lambda message: message[0])
    assert all(dict(row["properties"]).get("KEYS") == row["keys"] for row in rows)


def test_only_the_columns_asked_for(golden):
    schema = narrow(["queue_offset", "keys"], SPARK_SCHEMA)
    rows = read(golden("batch").path, schema, explode=True)
    every = read(golden("batch").path, explode=True)
    assert rows == [{"queue_offset": row["queue_offset"], "keys": row["keys"]} for row in every]
    assert set(with_needed(schema).names) == {"queue_offset", "keys", "topic", "queue_id", "body", "tags", "sys_flag"}


def test_queue_offsets_and_tags_are_those_of_the_messages(golden):
    every = read(golden("batch").path, explode=True)
    batch = next(row for row in every if row["sys_flag"] & 0x80 and row["queue_offset"] > 3)
    topic, queue, middle = batch["topic"], batch["queue_id"], batch["queue_offset"] + 1
    found = read(
        golden("batch").path,
        explode=True,
        predicate=Predicate(queues=frozenset({(topic, queue)}), offsets=((topic, queue, middle, middle + 4),)),
    )
    assert [row["queue_offset"] for row in found] == list(range(middle, middle + 4))
    tag = next(row["tags"] for row in every if row["tags"])
    found = read(golden("batch").path, explode=True, predicate=Predicate(tags=frozenset({tag})))
    assert found == [row for row in every if row["tags"] == tag]


def test_a_flag_without_a_batch_is_a_row_as_it_is(golden, tmp_path):
    """The flag is the sender's; a body that is no batch stays whole."""
    plan = plan_scan(ReadOptions(path=str(golden("batch").path)), Report())
    table = pa.Table.from_batches(scan_range(plan, LogRange(plan.begin, plan.end), SPARK_SCHEMA, Report()))
    index = table.schema.get_field_index("body")
    bad = table.set_column(index, table.schema.field("body"), pa.array([b"\xff" * 40] * table.num_rows, pa.binary()))
    batches = [part for batch in bad.to_batches() for part in exploded(batch, SPARK_SCHEMA, Predicate())]
    assert sum(batch.num_rows for batch in batches) == table.num_rows


def test_what_unpacks_to_very_much_comes_in_pieces(monkeypatch, golden):
    """Memory stays bounded whatever a compressed batch claims to hold."""
    from flintmq.lake.read import explode

    whole = read(golden("batch").path, explode=True)
    monkeypatch.setattr(explode, "JOINED_BYTES", 500)
    plan = plan_scan(ReadOptions(path=str(golden("batch").path), explode=True), Report())
    batches = list(scan_range(plan, LogRange(plan.begin, plan.end), SPARK_SCHEMA, Report()))
    assert len(batches) > 10
    assert pa.Table.from_batches(batches).to_pylist() == whole
    monkeypatch.setattr(explode, "MESSAGES_MAX", 2)
    assert len(read(golden("batch").path, explode=True)) < len(whole)


def test_offsets_of_a_queue_leave_the_others_of_its_topic_alone(golden):
    every = read(golden("batch").path, explode=True)
    topic = next(row["topic"] for row in every if row["sys_flag"] & 0x80)
    queues = {row["queue_id"] for row in every if row["topic"] == topic}
    assert len(queues) > 1
    found = read(golden("batch").path, explode=True, predicate=Predicate(offsets=((topic, min(queues), 2, 3),)))
    assert found == [
        row for row in every if (row["topic"], row["queue_id"]) != (topic, min(queues)) or row["queue_offset"] == 2
    ]
