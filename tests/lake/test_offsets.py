"""Queue offsets in the form of Spark's Kafka source."""

import pytest

from flintmq.errors import UsageError
from flintmq.lake.offsets import parse_assignment, parse_flat, parse_offsets, queue_ranges


def test_words():
    assert parse_offsets("startingOffsets", "earliest", "earliest") == {}
    assert parse_offsets("endingOffsets", "Latest", "latest") == {}


def test_offsets():
    given = parse_offsets("startingOffsets", '{"A": {"0": 5, "11": -2}, "B": {"3": 0}}', "earliest")
    assert given == {("A", 0): 5, ("A", 11): -2, ("B", 3): 0}


def test_assignment():
    assert parse_assignment("assign", '{"A": [0, 2, 2], "B": [7]}') == {"A": {0, 2}, "B": {7}}


def test_ranges():
    starting = {("A", 0): 5, ("A", 1): -2, ("B", 0): 7}
    ending = {("A", 1): 0, ("A", 0): -1, ("B", 0): 9, ("C", 0): -1}
    assert queue_ranges(starting, ending) == (
        ("A", 0, 5, 2**63 - 1),
        ("A", 1, -(2**63), 0),
        ("B", 0, 7, 9),
    )


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("latest", "cannot have latest; use earliest"),
        ("", "is not JSON"),
        ("5", "is not an object"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "is not an object"),
        ('{"A": 5}', "not an object such as"),
        ('{"A": "first"}', "'first' is not an offset of topic 'A'"),
        ('{"A": {}}', "not an object such as"),
        ('{"A": {"x": 5}}', "is not a queue id; they go from 0"),
        ('{"A": {"-1": 5}}', "is not a queue id; they go from 0"),
        ('{"A": {"2147483648": 5}}', "is not a queue id; they go from 0"),
        ('{"A/-1": 5}', "not an offset of a queue"),
        ('{"A/2147483648": 5}', "not an offset of a queue"),
        ('{"A/0": "5"}', "not an offset of a queue"),
        ('{"A": {"0": "5"}}', "queue ids and offsets"),
        ('{"A": {"0": true}}', "queue ids and offsets"),
        ('{"A": {"0": 1.5}}', "queue ids and offsets"),
        ('{"A": {"0": -3}}', "queue ids and offsets"),
        ('{"A": {"0": 9223372036854775808}}', "queue ids and offsets"),
        ('{"A": {"0": -1}}', "cannot have -1"),
    ],
)
def test_what_is_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_offsets("startingOffsets", text, "earliest")
    assert "startingOffsets" in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"A": 0}', '{"A": []}', '{"A": [-1]}', '{"A": ["0"]}', '{"A": [2147483648]}']
)
def test_assignments_that_are_refused(text):
    with pytest.raises(UsageError, match="option assign"):
        parse_assignment("assign", text)


def test_a_stream_s_own_offsets_may_name_queues_that_only_damaged_records_say():
    assert parse_flat("the checkpoint", {"A/-1": 5, "a/b/7": 0}) == {("A", -1): 5, ("a/b", 7): 0}
    with pytest.raises(UsageError, match="the checkpoint"):
        parse_flat("the checkpoint", {"A/-2147483649": 5})
