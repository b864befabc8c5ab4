"""Reads queue offsets from JSON, and makes ranges of queue offsets from them.

There are two forms: that of Spark's Kafka source, `{"topic": {"0": 5}}` (a whole topic may have a word:
`{"topic": "earliest"}`), and the flat form that a stream writes into its checkpoint, `{"topic/0": 5}`. Other keys of a
checkpoint (MARKS) are ignored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.format.text import typed_ms
from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.store.commitlog.predicate import LEAST, MOST, QueueRange

EARLIEST, LATEST = -2, -1
"""Numbers that mean a word instead of an offset in Kafka's JSON."""
WORDS = {"earliest": EARLIEST, "latest": LATEST}
MARKS = ("@format", "@flintmq", "@log_offset", "@store_timestamp", "@size", "@body_crc")
"""Keys of a stream's offsets that do not name queues: see lake/stream/anchor.py."""

Queue = tuple[str, int]
"""Topic and queue id; ANY_QUEUE for all queues of the topic that are not named."""

AnyQueue = TypeVar("AnyQueue", bound=Queue)


def queue_ranges(starting: Mapping[Queue, int], ending: Mapping[Queue, int]) -> tuple[QueueRange, ...]:
    """Make a range for each queue that has a bound; -2 and -1 are no bounds."""
    ranges = []
    for topic, queue in sorted(starting.keys() | ending.keys()):
        first, stop = starting.get((topic, queue), EARLIEST), ending.get((topic, queue), LATEST)
        if first >= 0 or stop >= 0:
            ranges.append((topic, queue, first if first >= 0 else LEAST, stop if stop >= 0 else MOST))
    return tuple(ranges)


def parse_assignment(option: str, text: str) -> dict[str, frozenset[int]]:
    assigned = {}
    for topic, ids in json_object(option, text, '{"topic": [0, 1]}').items():
        if not isinstance(ids, list) or not ids or not all(_is_whole(n, 0, 2**31 - 1) for n in ids):
            raise UsageError(
                f"option {option}: the queues of {short(topic)} are not a list of queue ids such as [0, 1]"
            )
        assigned[topic] = frozenset(ids)
    return assigned


def flat(offsets: Mapping[AnyQueue, int]) -> dict[str, int]:
    """Return offsets as a stream writes them: `{"topic/0": 5}`, sorted by topic and queue id."""
    return {f"{topic}/{queue}": offset for (topic, queue), offset in sorted(offsets.items())}


def parse_flat(option: str, offsets: Mapping[str, object], *, lowest: int = -(2**31)) -> dict[Queue, int]:
    """Read offsets that `flat` wrote.

    `lowest`: lowest queue id; records of a damaged store may have negative ones, and so may a stream's offsets.
    """
    parsed = {}
    for key, offset in offsets.items():
        if key in MARKS:
            continue
        topic, _, queue = key.rpartition("/")
        if not topic or not _is_queue_id(queue, lowest) or not _is_whole(offset, EARLIEST, 2**63 - 1):
            raise UsageError(f'{option}: {short(key)} and its value are not an offset of a queue such as "Orders/0": 5')
        if (topic, int(queue)) in parsed:  # as 0 and 00
            raise _named_twice(option, topic, int(queue))
        parsed[topic, int(queue)] = cast(int, offset)
    return parsed


def parse_offsets(option: str, text: str, word: str) -> dict[Queue, int]:
    """Read queue offsets from JSON; the one word that a batch read accepts gives none.

    Raises UsageError: the value is neither, or is the other word, with which nothing could ever be read.
    """
    if text.lower() == word:
        return {}
    if text.lower() in ("earliest", "latest"):
        raise UsageError(f"option {option}: a batch read cannot have {text}; use {word} or offsets as JSON")
    offsets = parse_json_offsets(option, text)
    for (topic, queue), offset in offsets.items():
        if offset == (LATEST if word == "earliest" else EARLIEST):
            which = "all its queues" if queue == ANY_QUEUE else f"queue {queue}"
            raise UsageError(f"option {option}: a batch read cannot have {offset} ({short(topic)}, {which})")
    return offsets


def means_latest(text: str) -> bool:
    """Return whether starting offsets begin at the end of a queue, which only a stream may do."""
    if text.lower() in WORDS:
        return text.lower() == "latest"
    try:
        return LATEST in parse_json_offsets("startingOffsets", text).values()
    except UsageError:
        return False


def parse_json_offsets(option: str, text: str) -> dict[Queue, int]:
    """Read queue offsets from JSON of either form; -2 is earliest, -1 is latest.

    The word of a whole topic is returned with the queue id ANY_QUEUE.
    """
    given = json_object(option, text, '{"topic": {"0": 5}} or {"topic/0": 5}')
    given = {key: value for key, value in given.items() if key not in MARKS}
    words = {key: value for key, value in given.items() if isinstance(value, str) and not _is_flat(key, value)}
    offsets = parse_flat(f"option {option}", {key: n for key, n in given.items() if _is_flat(key, n)}, lowest=0)
    for topic, word in words.items():
        if word.lower() not in WORDS:
            raise UsageError(
                f'option {option}: {short(word)} is not an offset of topic {short(topic)}; give "earliest", "latest" '
                'or queues such as {"0": 5}'
            )
        offsets[topic, ANY_QUEUE] = WORDS[word.lower()]
    rest = {key: value for key, value in given.items() if key not in words and not _is_flat(key, value)}
    others = _of_queues(option, rest, "offsets", EARLIEST)
    for topic, queue in sorted(offsets.keys() & others.keys()):
        raise _named_twice(f"option {option}", topic, queue)
    return offsets | others


def parse_timestamps(option: str, text: str) -> dict[Queue, int]:
    """Read times of queues, in ms since 1970, from `{"topic": {"0": 1700000000000}}`."""
    times = _of_queues(option, json_object(option, text, '{"topic": {"0": 1700000000000}}'), "timestamps", 0)
    return {queue: typed_ms(f"option {option}", ms) for queue, ms in times.items()}


def _of_queues(option: str, given: Mapping[str, object], what: str, least: int) -> dict[Queue, int]:
    found = {}
    for topic, queues in given.items():
        if not isinstance(queues, dict) or not queues:
            raise UsageError(f'option {option}: the {what} of {short(topic)} are not an object such as {{"0": 5}}')
        for queue, number in queues.items():
            if not _is_queue_id(queue, 0):
                raise UsageError(
                    f"option {option}: {short(topic)}: {short(queue)} is not a queue id; they go from 0 to {2**31 - 1}"
                )
            if not _is_whole(number, least, 2**63 - 1):
                raise UsageError(f'option {option}: {short(topic)} needs queue ids and {what} such as {{"0": 5}}')
            if (topic, int(queue)) in found:
                raise _named_twice(f"option {option}", topic, int(queue))
            found[topic, int(queue)] = number
    return found


def _is_queue_id(text: str, lowest: int) -> bool:
    return re.fullmatch("-?[0-9]{1,10}", text) is not None and lowest <= int(text) < 2**31


def _is_flat(key: str, value: object) -> bool:
    return "/" in key and not isinstance(value, dict)


def json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Read a JSON object in which no name is given twice, at any depth."""
    try:
        value = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"option {option}: {short(text)} is not JSON such as {example}") from error
    if not isinstance(value, dict) or not value:
        raise UsageError(f"option {option}: {short(text)} is not an object such as {example}")
    left: list[tuple[tuple[str, ...], object]] = [((), value)]
    while left:
        path, part = left.pop()
        if isinstance(part, _Object):
            if part.repeated is not None:
                raise _named_twice(f"option {option}", *path, part.repeated)
            left += [((*path, name), one) for name, one in part.items()]
    return value


class _Object(dict[str, Any]):
    """A JSON object that knows a name which it has twice; a dict keeps only the last value."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = next((name for name, count in counts.items() if count > 1), None)


def _named_twice(where: str, *names: str | int) -> UsageError:
    return UsageError(f"{where}: {short('/'.join(map(str, names)))} is named twice; give it one value")


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
