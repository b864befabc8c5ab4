"""What a task reads: light queues, and rare topics, by their units."""

from flintmq.lake.read.offsets import MARKS
from flintmq.testing.write_store import write_store
from tests.spark.stream.drive import Query, in_queues, keys_of


def test_light_queues_are_read_if_named(golden):
    store = golden("lmq")
    named = [r for r in store.rows if "%LMQ%client0" in r["properties"].get("INNER_MULTI_DISPATCH", "").split(",")]
    query = Query(store.path, subscribe="%LMQ%client0", maxOffsetsPerTrigger=5, **keys_of(store))
    bites = list(query.bites())
    assert [row["physical_offset"] for bite in bites for row in bite] == in_queues(named)
    assert max(map(len, bites)) == 5
    assert {name: at for name, at in query.offset.items() if name not in MARKS} == {"%LMQ%client0/0": len(named)}


def test_a_rare_topic_is_read_by_its_units(tmp_path, monkeypatch):
    write_store(tmp_path / "s", 20_000, topics={"Often": 200, "Seldom": 1}, queues=2, body_bytes=1000)
    every = [row for bite in Query(tmp_path / "s").bites() for row in bite]
    query = Query(tmp_path / "s", subscribe="Seldom")
    assert query.plan()
    (partition,) = query.reader.partitions(*query.batches[0])
    assert partition.part.sparse
    assert query.run() == [row for row in every if row["topic"] == "Seldom"] != []
