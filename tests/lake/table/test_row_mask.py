"""Which rows of a table a predicate wants."""

import pyarrow as pa

from flintmq.lake.table.row_mask import mask_of
from flintmq.store.commitlog.predicate import MOST, Predicate


def test_a_range_of_one_queue_leaves_the_others_of_its_topic_alone() -> None:
    """The rule of the queue decides, and not the one of all queues after it."""
    places = [(topic, queue, offset) for topic in "TU" for queue in (0, 1) for offset in range(10)]
    topics, queues, offsets = zip(*places, strict=True)
    times = pa.array([0] * len(places), pa.timestamp("ms"))
    rows = pa.table(
        {
            "topic": pa.array(topics),
            "queue_id": pa.array(queues, pa.int32()),
            "queue_offset": pa.array(offsets, pa.int64()),
            "store_timestamp": times,
            "tags": pa.array([None] * len(places), pa.string()),
        }
    )
    wanted = mask_of(Predicate(offsets=(("T", 0, 5, 8), ("U", 1, 9, MOST))), rows).to_pylist()
    missing = [("T", 0, offset) for offset in (0, 1, 2, 3, 4, 8, 9)] + [("U", 1, offset) for offset in range(9)]
    assert [place for place, there in zip(places, wanted, strict=True) if not there] == missing
