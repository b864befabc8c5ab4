"""Queue offsets in the form of Spark's Kafka source."""

import pytest

from flintmq.errors import UsageError
from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.lake.read.broker_options import options_of_broker
from flintmq.lake.read.offsets import parse_assignment, parse_flat, parse_offsets, queue_ranges
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.options import StreamOptions


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


TWICE = [
    ('{"A": {"0": 20}, "A/0": 5}', "A/0"),
    ('{"A/0": 20, "A": {"0": 5}}', "A/0"),
    ('{"A/0": 20, "A/0": 5}', "A/0"),
    ('{"A/0": 20, "A/00": 5}', "A/0"),
    ('{"A": {"0": 20, "00": 5}}', "A/0"),
    ('{"A": {"0": 20, "0": 20}}', "A/0"),
    ('{"A": {"0": 20}, "A": {"1": 5}}', "A"),
    ('{"A": "earliest", "A": {"1": 5}}', "A"),
    ('{"x/y": {"7": 20}, "x/y/7": 5}', "x/y/7"),
]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
@pytest.mark.parametrize("text, what", TWICE)
def test_a_queue_that_is_named_twice(option: str, text: str, what: str) -> None:
    """One of the two values would win without a word."""
    said = f"^option {option}: '{what}' is named twice; give it one value$"
    with pytest.raises(UsageError, match=said):
        ReadOptions.parse({"path": "/s", option: text})
    if option == "startingOffsets":
        with pytest.raises(UsageError, match=said):
            StreamOptions.parse({"path": "/s", option: text})


@pytest.mark.parametrize("option", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
@pytest.mark.parametrize("text", ['{"A": {"0": 1700000000000, "00": 1}}', '{"A": {"0": 5, "0": 1700000000000}}'])
def test_times_of_a_queue_that_is_named_twice(option: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"^option {option}: 'A/0' is named twice"):
        ReadOptions.parse({"path": "/s", option: text})


def test_an_assignment_of_a_topic_that_is_named_twice() -> None:
    with pytest.raises(UsageError, match="^option assign: 'A' is named twice"):
        ReadOptions.parse({"path": "/s", "assign": '{"A": [0], "A": [1]}'})


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
@pytest.mark.parametrize(
    "text, what",
    [
        ('{"b": {"A": {"0": 5}}, "b": {"A": {"0": 6}}}', "b"),
        ('{"b": {"A": {"0": 5}, "A": {"0": 6}}}', "b/A"),
        ('{"b": {"A": {"0": 5, "0": 6}}}', "b/A/0"),
    ],
)
def test_brokers_topics_and_queues_of_many_stores(option: str, text: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"^option {option}: '{what}' is named twice"):
        options_of_broker({option: text}, "b", "/s")
    with pytest.raises(UsageError, match=f"^option {option}: '{what}' is named twice"):
        ReadOptions.parse({"paths": '["/s", "/t"]', option: text})


def test_what_names_each_queue_once_is_read() -> None:
    """A word of a topic is for the queues that are not named; equal names at different places are different ones."""
    assert parse_offsets("startingOffsets", '{"A": "earliest", "A/0": 5, "B": {"0": 5}}', "earliest") == {
        ("A", ANY_QUEUE): -2,
        ("A", 0): 5,
        ("B", 0): 5,
    }
    with pytest.raises(UsageError, match="'A/0' is named twice"):
        parse_flat("the checkpoint", {"A/0": 5, "A/00": 5})
