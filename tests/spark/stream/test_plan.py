"""How a micro-batch is shared out to tasks."""

from flintmq.lake.stream import plan
from flintmq.testing.write_store import write_store
from tests.spark.stream.drive import Query


def test_many_small_queues_share_a_task(tmp_path):
    written = write_store(tmp_path / "s", 3000, topics=60, queues=4, body_bytes=50)
    query = Query(tmp_path / "s")
    assert query.plan() and len(query.offset) > 200
    assert len(query.reader.partitions(*query.batches[0])) == 1
    assert len(query.run()) == written.records


def test_sparse_is_told_by_size(golden):
    query = Query(golden("basic").path)
    assert query.plan()
    assert not any(p.part.sparse for p in query.reader.partitions(*query.batches[0]))
    assert plan.SPARSE > 1
