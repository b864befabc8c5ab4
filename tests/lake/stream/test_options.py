"""Options of a stream: those of a batch read, those of its own, and what each of them refuses."""

import pytest

from flintmq.errors import UsageError
from flintmq.lake.read.options import STREAM_ONLY, ReadOptions
from flintmq.lake.stream.options import StreamOptions, is_stream
from flintmq.store.commitlog.predicate import Predicate


def parse(**options):
    return StreamOptions.parse({"path": "/s", **options})


def test_defaults():
    options = parse()
    assert options.read == ReadOptions("/s")
    assert (options.start, options.max_offsets, options.max_bytes, options.min_offsets) == ("earliest", None, None, 0)
    assert options.max_delay_ms == 900_000


def test_values():
    options = parse(
        maxoffsetspertrigger="10", maxBytesPerTrigger="20", minOffsetsPerTrigger="5", maxTriggerDelay="30s",
        subscribe="A", startingOffsets='{"A/1": 4, "A/0": -1}', minPartitions="3",
    )  # fmt: skip
    assert (options.max_offsets, options.max_bytes, options.min_offsets, options.max_delay_ms) == (10, 20, 5, 30_000)
    assert options.start == {("A", 0): -1, ("A", 1): 4}
    assert options.read.predicate == Predicate(frozenset("A")), "where a stream begins is no filter"
    assert options.read.least_splits == 3


@pytest.mark.parametrize("text, ms", [("500ms", 500), ("2 s", 2000), ("15m", 900_000), ("1h", 3_600_000)])
def test_delays(text, ms):
    assert parse(minOffsetsPerTrigger="1", maxTriggerDelay=text).max_delay_ms == ms


@pytest.mark.parametrize("start", ["earliest", "latest", "LATEST"])
def test_words(start):
    assert parse(startingOffsets=start).start == start.lower()


def test_a_time_to_start_at():
    """It comes before times of queues, and those before offsets, in a stream as in a batch read."""
    time, of_queue = "1700000000005", '{"A": {"0": 1700000000007}}'
    assert parse(startingTimestamp=time).start == 1_700_000_000_005
    for offsets in ("latest", "earliest", '{"A/0": 3}'):
        options = parse(startingTimestamp=time, startingOffsets=offsets, startingOffsetsByTimestamp=of_queue)
        assert (options.start, options.read.since_of) == (1_700_000_000_005, {})
    options = parse(startingOffsets="latest", startingOffsetsByTimestamp=of_queue)
    assert options.read.since_of == {("A", 0): 1_700_000_000_007}
    with pytest.raises(UsageError, match="^option startingTimestamp: 1700000000 ms since 1970 is 1970-01-20"):
        parse(startingTimestamp="1700000000")


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger?"),
        ({"maxOffsetsPerTrigger": "0"}, "not a whole number from 1"),
        ({"maxBytesPerTrigger": "1k"}, "not a whole number from 1"),
        ({"minOffsetsPerTrigger": "-1"}, "not a whole number from 1"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "larger than maxOffsetsPerTrigger (4)"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "not a duration such as 500ms"),
        ({"maxTriggerDelay": "5s"}, "without minOffsetsPerTrigger"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for spark.read"),
        ({"endingTimestamp": "5"}, "option endingTimestamp is for spark.read"),
        ({"startingOffsets": "now"}, "'now' is not JSON"),
        ({"startingOffsets": '{"A": 5}'}, "the offsets of 'A' are not an object such as"),
        ({"startingOffsets": '{"A/0": "5"}'}, 'not an offset of a queue such as "Orders/0": 5'),
        ({"startingOffsets": '{"A/0": -3}'}, 'not an offset of a queue such as "Orders/0": 5'),
        ({"startingOffsets": "now", "startingTimestamp": "0"}, "'now' is not JSON"),
        ({"endingOffsetsByTimestamp": '{"A": {"0": 5}}'}, "option endingOffsetsByTimestamp is for spark.read"),
        ({"startingOffsets": '{"B/0": 5}', "subscribe": "A"}, "queue 0 of topic 'B', which is not read"),
        ({"startingOffsets": '{"A/1": 5}', "assign": '{"A": [0]}'}, "queue 1 of topic 'A', which is not read"),
    ],
)
def test_what_is_refused(options, complaint):
    with pytest.raises(UsageError) as caught:
        parse(**options)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("name", STREAM_ONLY)
def test_a_batch_read_has_none_of_them(name):
    with pytest.raises(UsageError, match=f"option {name} is for spark.readStream"):
        ReadOptions.parse({"path": "/s", name: "1"})
    assert is_stream({"path": "/s", name: "1"})


def test_what_only_a_stream_can_mean():
    assert is_stream({"path": "/s", "startingOffsets": "latest"})
    assert is_stream({"path": "/s", "startingOffsets": '{"A/0": -1}'})
    assert is_stream({"path": "/s", "startingOffsets": '{"A": "latest"}'})
    for offsets in ('{"A/0": 10}', '{"A-1": {"0": 5}}', '{"latest": {"0": 5}}', '{"A": "earliest"}', '"-1"', "-1"):
        assert not is_stream({"path": "/s", "startingOffsets": offsets})
    assert not is_stream({"path": "/s", "startingOffsets": "latest", "endingOffsets": "latest"})
