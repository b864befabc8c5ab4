"""What is read out of Arrow expressions, in the forms that DuckDB sends."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flintmq.frames.expression import comparisons, tree_of

TOPIC, QUEUE, TAGS, TIME = map(pc.field, ("topic", "queue_id", "tags", "store_timestamp"))
NO = pa.scalar(None, pa.bool_())


def at(us: int) -> object:
    return pa.scalar(us, pa.timestamp("us", "UTC"))


CASES = {
    "equal": (TOPIC == "A", [("topic", "in", {"A"})]),
    "turned": (pa.scalar("A") == TOPIC, [("topic", "in", {"A"})]),
    "quotes and lines in a literal": (TOPIC == "a'\n\"end: 'x'", [("topic", "in", {"a'\n\"end: 'x'"})]),
    "and": ((TOPIC == "A") & (QUEUE == 3), [("topic", "in", {"A"}), ("queue_id", "in", {3})]),
    "or of one column": ((TOPIC == "A") | TOPIC.isin(["B"]), [("topic", "in", {"A", "B"})]),
    "or of two columns": ((TOPIC == "A") | (QUEUE == 3), []),
    "or with what is not known": ((TOPIC == "A") | (pc.field("size") > 3), []),
    "or of one more": (((TOPIC == "A") & (QUEUE == 3)) | (TOPIC == "B"), [("topic", "in", {"A", "B"})]),
    "not": (~(TOPIC == "A"), []),
    "duckdb's in": (pc.if_else(QUEUE.is_valid(), QUEUE.isin([1, 2]), NO), [("queue_id", "in", {1, 2})]),
    "if_else that may say yes": (pc.if_else(QUEUE == 1, QUEUE.isin([1]), pa.scalar(True)), []),
    "in with a null": (TAGS.isin(pa.array(["a", None])), []),
    "equal to null": (pa.scalar(None, pa.string()) == TAGS, []),
    "valid": (TAGS.is_valid(), []),
    "time": (at(1500) <= TIME, [("store_timestamp", ">=", 1_500_000)]),
    "time turned": (at(1500) > TIME, [("store_timestamp", "<", 1_500_000)]),
    "one time": (at(1) == TIME, [("store_timestamp", ">=", 1000), ("store_timestamp", "<=", 1000)]),
    "not a time": (at(1) != TIME, []),
    "another column": (pc.field("size") == 3, []),
    "cast": (QUEUE.cast(pa.int64()) == 3, []),
    "inside of a column": ((pc.field("properties", "x") == 1) & (TOPIC == "A"), [("topic", "in", {"A"})]),
}


@pytest.mark.parametrize("name", CASES)
def test_comparisons(name: str) -> None:
    expression, expected = CASES[name]
    tree = tree_of(expression)
    assert tree is not None and comparisons(tree) == expected


def test_columns() -> None:
    tree = tree_of((pc.field("properties", "x") == 1) & pc.if_else(TAGS.is_valid(), TOPIC == "A", NO))
    assert tree is not None and list(tree.columns()) == ["properties", "tags", "topic"]


def test_what_is_no_expression_is_not_understood() -> None:
    assert tree_of("topic = 'A'") is None and tree_of(object()) is None
