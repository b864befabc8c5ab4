"""What a task gives: every wanted message, or an error that says which is missing and where."""

import pytest

from flintmq.errors import StoreError
from tests.spark.stream.drive import Query, in_queues, keys_of, place
from tests.support.makers import hurt_body, patch


def test_exploded_inner_batches(golden):
    store = golden("batch")
    query = Query(store.path, explode="true", maxOffsetsPerTrigger=20, **keys_of(store))
    rows = [row for bite in query.bites() for row in bite]
    assert len({place(row) for row in rows}) == len(rows)
    assert len(rows) == sum(int(r["properties"]["INNER_NUM"]) if r["sys_flag"] & 128 else 1 for r in store.rows)


@pytest.mark.parametrize("number", [0, 1001])
def test_damage(golden, tmp_path, number):
    store = golden("basic")
    path = store.copy(tmp_path)
    row = next(row for row in store.rows[number:] if row["body_length"] > 8)
    file, _ = hurt_body(path, row["physical_offset"])
    with pytest.raises(StoreError) as caught:
        list(Query(path).bites())
    for part in (file.name, f"topic '{row['topic']}'", f"queue {row['queue_id']}, offset {row['queue_offset']}"):
        assert part in str(caught.value)
    lenient = Query(path, failOnDataLoss="false", maxOffsetsPerTrigger=500)
    rows = [row["physical_offset"] for bite in lenient.bites() for row in bite]
    assert sorted(rows) == [offset for offset in in_queues(store.rows) if offset != row["physical_offset"]]


@pytest.mark.parametrize("unit", [bytes(20), bytes(7) + b"\x01" + bytes(3) + b"\x64" + bytes(8)], ids=["hole", "ghost"])
@pytest.mark.parametrize("number", [0, 50])
def test_units_that_mislead(golden, tmp_path, unit, number):
    """Units are hints: a message is found in the log whatever its unit says."""
    store = golden("basic")
    path = store.copy(tmp_path)
    file, at = divmod(20 * number, 2000)
    queue = path / "consumequeue" / "Orders" / "0" / f"{2000 * file:020d}"
    patch(queue, at, unit)
    for subscribe in ({}, {"subscribe": "Orders"}):
        query = Query(path, maxOffsetsPerTrigger=40, **subscribe)
        rows = [row["physical_offset"] for bite in query.bites() for row in bite]
        assert sorted(rows) == in_queues(r for r in store.rows if not subscribe or r["topic"] == "Orders")
