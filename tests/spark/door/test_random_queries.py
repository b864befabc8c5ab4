"""Random queries of both sources, and of a table that was made by the slow way: the same rows.

20 of them a day, others each day; FLINTMQ_QUERIES=500 asks more.
"""

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.testing import write_store
from tests.harness.turns import day
from tests.support.arrow_rows import TIMES, messages_of, row_of
from tests.support.spark_reading import by_python

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("FLINTMQ_QUERIES", "20"))
MESSAGES = 3000
COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>")
GROUPED = ("topic", "queue_id", "tags", "flag", "born_host", "date_trunc('minute', store_timestamp)")


class Chance:
    """Makes queries of a table that has these rows."""

    def __init__(self, seed: int, rows: list[dict[str, Any]]) -> None:
        self.random, self.rows = random.Random(seed), rows

    def value(self, column: str) -> Any:
        """A value that the column has, now and then one beside it."""
        found = self.random.choice(self.rows)[column]
        return found + self.random.choice((0, 0, 1, -1)) if isinstance(found, int) else found

    def comparison(self) -> str:
        column = self.random.choice(
            ("topic", "topic", "queue_id", "queue_id", "tags", "store_timestamp", "store_timestamp", "queue_offset",
             "physical_offset", "keys", "size", "msg_id", "born_timestamp")
        )  # fmt: skip
        if self.random.random() < 0.15:
            return f"{column} IS {self.random.choice(('', 'NOT '))}NULL"
        if self.random.random() < 0.25:
            return f"{column} IN ({', '.join(self.literal(column) for _ in range(self.random.randint(1, 4)))})"
        return f"{column} {self.random.choice(COMPARED)} {self.literal(column)}"

    def literal(self, column: str) -> str:
        value = self.value(column)
        if value is None:
            return "NULL"
        if column in TIMES:
            return f"timestamp'{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
        return str(value) if isinstance(value, int) else f"'{value}'"

    def condition(self, deep: int = 8) -> str:
        """A condition; Spark's parser failed on one that was deeper."""
        kind = self.random.random() if deep else 0
        if kind < 0.5:
            return self.comparison()
        if kind < 0.9:
            return f"({self.condition(deep - 1)} {'AND' if kind < 0.75 else 'OR'} {self.condition(deep - 1)})"
        return f"NOT ({self.condition(deep - 1)})"

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.random.random() < 0.8 else ""

    def projection(self) -> str:
        columns = self.random.sample(SPARK_SCHEMA.names, self.random.randint(1, 6))
        limit = f" LIMIT {self.random.randint(0, 200)}" if self.random.random() < 0.4 else ""
        return f"SELECT {', '.join(columns)} FROM {{0}}{self.where()} ORDER BY physical_offset{limit}"

    def aggregate(self) -> str:
        by = self.random.choice(GROUPED)
        found = "count(*), sum(queue_offset), max(store_timestamp), sum(length(body)), count(DISTINCT queue_id)"
        return f"SELECT {by} AS g, {found} FROM {{0}}{self.where()} GROUP BY {by} ORDER BY g"

    def join(self) -> str:
        on = self.random.choice(("physical_offset", "queue_id, queue_offset, topic", "msg_id"))
        left, right = (f"(SELECT * FROM {{{side}}}{self.where()}) {name}" for side, name in ((0, "a"), (1, "b")))
        return f"SELECT count(*), sum(a.size), max(b.body) FROM {left} JOIN {right} USING ({on})"

    def some(self) -> str:
        """How many come is all that is sure without an order."""
        limited = f"SELECT topic FROM {{0}}{self.where()} LIMIT {self.random.randint(0, 5000)}"
        return f"SELECT count(*) FROM ({limited})"

    def query(self) -> str:
        kinds: list[Callable[[], str]] = [self.projection, self.aggregate, self.join, self.some]
        return self.random.choice(kinds)()


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of the views, and the rows that each has."""
    folder = tmp_path_factory.mktemp("random")
    write_store(folder / "store", MESSAGES, seed=day(), keys=2, kinds="flags", body_bytes=(0, 300))
    rows = [row_of(message) for message in messages_of(folder / "store")]
    pq.write_table(slowly(rows), folder / "slow.parquet")
    spark.read.parquet(str(folder / "slow.parquet")).createOrReplaceTempView("by_slow_way")
    for name, source in (("by_source", "flintmq"), ("by_python", by_python(spark))):
        spark.read.format(source).load(str(folder / "store")).createOrReplaceTempView(name)
    return ["by_slow_way", "by_source", "by_python"], rows


def slowly(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {
        field.name: pa.array([row[field.name] * 1000 for row in rows], pa.int64()).cast(field.type)
        if field.name in TIMES
        else pa.array([row[field.name] for row in rows], field.type)
        for field in SPARK_SCHEMA
    }
    return pa.table(columns, schema=SPARK_SCHEMA)


@pytest.mark.parametrize("number", range(QUERIES))
def test_a_random_query_answers_the_same(spark, tables, number):
    names, rows = tables
    query = Chance(day() * 1000 + number, rows).query()
    want, *found = ([row.asDict(True) for row in spark.sql(query.format(name, name)).collect()] for name in names)
    for name, answer in zip(names[1:], found, strict=True):
        assert answer == want, f"{name}: {query}"


def test_the_slow_way_has_all_rows(tables) -> None:
    """What both are compared with."""
    _, rows = tables
    offsets = [row["physical_offset"] for row in rows]
    assert len(rows) == MESSAGES and offsets == sorted(set(offsets))
