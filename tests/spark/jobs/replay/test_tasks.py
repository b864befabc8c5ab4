"""Work over rows, with the parts as tasks of their own; the condition on Spark is tested in test_job.py."""

from collections.abc import Iterator
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.spark.jobs.replay.source import open_source
from flintmq.spark.jobs.replay.tasks import run_over_rows


def count(number: int, batches: Iterator[Any]) -> dict[str, Any]:
    return {"number": number, "rows": sum(batch.num_rows for batch in batches)}


def test_each_part_has_its_rows(golden: Any) -> None:
    source = open_source(str(golden("basic").path), StoreConfig())
    chunks = source.chunks(0, 100_000)
    parts = [chunks[:2], chunks[2:3], chunks[3:]]
    answers = run_over_rows(None, source, parts, None, count)  # type: ignore[arg-type]
    assert [answer["number"] for answer in answers] == [0, 1, 2]
    assert sum(answer["rows"] for answer in answers) == 3000 and all(answer["rows"] for answer in answers)
    assert answers[0]["damages"] == answers[0]["lost_bytes"] == 0
    assert run_over_rows(None, source, [], "true", count) == []  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_part_without_matches_answers_too(golden: Any, spark: Any) -> None:
    source = open_source(str(golden("basic").path), StoreConfig())
    chunks = source.chunks(0, 400_000)
    where = f"physical_offset < {chunks[1].begin} and topic = 'Orders'"
    first, second = run_over_rows(spark, source, [[chunk] for chunk in chunks], where, count)
    want = sum(r["physical_offset"] < chunks[1].begin and r["topic"] == "Orders" for r in golden("basic").rows)
    assert (first["rows"], second["rows"], second["number"]) == (want, 0, 1)
