"""The options of the source `flintmq`, checked.

Options that Spark's Kafka source has too are named and meant as there. RocketMQ's own keys (`mappedFileSizeCommitLog`
and so on) are options as well, for what a store's files do not tell. Spark hands options over as text, and their
names in lower case, so names are compared without regard to case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from flintmq.config import KEYS, StoreConfig
from flintmq.config_s3 import S3_KEYS
from flintmq.config_text import short
from flintmq.errors import UsageError
from flintmq.spark.offsets import parse_assignment, parse_offsets, queue_ranges
from flintmq.storage.where import store_path
from flintmq.store.predicate import Predicate

OWN_NAMES = {
    "path": "the store's directory, or a URL: s3://bucket/store, file:///store",
    "columns": "which columns, in which order, separated by commas",
    "subscribe": "topics, separated by commas",
    "subscribePattern": "a regular expression that a whole topic name must match",
    "assign": 'queues of topics: {"topic": [0, 1]}',
    "startingOffsets": 'the first queue offset: earliest, or {"topic": {"0": 5}}; -2 is earliest',
    "endingOffsets": 'the queue offset to stop before: latest, or {"topic": {"0": 9}}; -1 is latest',
    "startingTimestamp": "least store time, in ms since 1970",
    "endingTimestamp": "store time to stop before, in ms since 1970",
    "minPartitions": "least number of splits",
    "failOnDataLoss": "true: damage fails the job; false: it is skipped and counted",
    "tags": "only messages with one of these tags, as a subscription has them: A || B",
    "decompress": "true: bodies as the producer gave them; false: as stored",
    "explode": "true: each message of an inner batch is a row; false: the batch is one row",
    "pushdown": "false: leave filters to Spark, even where the session allows to push them",
    "access": "pread, or map (faster, but a file that shrinks kills the worker)",
    "maxOffsetsPerTrigger": "stream: most messages of a micro-batch",
    "maxBytesPerTrigger": "stream: most bytes of log of a micro-batch",
    "minOffsetsPerTrigger": "stream: least messages of a micro-batch, unless maxTriggerDelay has passed",
    "maxTriggerDelay": "stream: how long to wait for them: 500ms, 30s, 15m, 1h",
}
"""Name -> meaning, for the documentation and for messages; RocketMQ's keys and those of object storage come on top."""

_BY_LOWER = {name.lower(): name for name in (*KEYS, *S3_KEYS, *OWN_NAMES)}
STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ONE_OF = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True)
class ReadOptions:
    """What a read was asked for. All of it is checked, so that nothing fails later for a typing mistake.

    Attributes:
        path: the store's directory.
        columns: names as given by `columns`, in that order; None for all. Not yet compared with the schema.
        predicate: which records: topics, queues, queue offsets, store time, tags.
        least_splits: how many partitions there must be at least.
        fail_on_data_loss: whether damage fails the job.
        decompress, explode, pushdown: as the options say.
        access: "pread" or "map".
        config: RocketMQ's keys.
    """

    path: str
    columns: tuple[str, ...] | None = None
    predicate: Predicate = field(default_factory=Predicate)
    least_splits: int = 1
    fail_on_data_loss: bool = True
    decompress: bool = False
    explode: bool = False
    pushdown: bool = True
    access: str = "pread"
    config: StoreConfig = field(default_factory=StoreConfig)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a load.

        Raises:
            UsageError: an unknown name (the text names the closest), an impossible value, or two that exclude
                each other.
            ConfigError: an impossible value of one of RocketMQ's keys.
        """
        given = named(options)
        for name in STREAM_ONLY:
            if name in given:
                raise UsageError(f"option {name} is for spark.readStream; a batch read takes all there is")
        if not given.get("path"):
            raise UsageError(
                "which store? give its directory: .load(STORE), or the option path (Spark keeps the options of "
                "CREATE TABLE to itself; use CREATE TEMPORARY VIEW)"
            )
        chosen = [name for name in _ONE_OF if name in given]
        if len(chosen) > 1:
            raise UsageError(f"options {' and '.join(chosen)} exclude each other; give one of them")
        for offsets, timestamp in (("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp")):
            if given.get(offsets, "").startswith("{") and timestamp in given:
                raise UsageError(f"options {offsets} and {timestamp} exclude each other; give one of them")
        return cls(
            path=store_path(given["path"]),
            columns=_names(given, "columns"),
            predicate=_predicate(given),
            least_splits=number(given, "minPartitions", 1, 1, 1_000_000),
            fail_on_data_loss=_flag(given, "failOnDataLoss", True),
            decompress=_flag(given, "decompress", False),
            explode=_flag(given, "explode", False),
            pushdown=_flag(given, "pushdown", True),
            access=_choice(given, "access", ("pread", "map")),
            config=StoreConfig.from_keys(
                {name: value for name, value in given.items() if name in KEYS or name in S3_KEYS}
            ),
        )


def named(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a load by their right spelling.

    Raises:
        UsageError: an unknown name.
    """
    return {_name_of(name): value.strip() for name, value in _without_table_properties(options).items()}


def _without_table_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """Of a table in Spark's catalog: its path and its options, which have a prefix, without what Spark adds."""
    if "provider" not in options:
        return options
    given = {name[len("option.") :]: value for name, value in options.items() if name.startswith("option.")}
    return {**given, **({"path": options["path"]} if "path" in options else {})}


def _name_of(name: str) -> str:
    """The option's name in its right spelling."""
    known = _BY_LOWER.get(name.lower())
    if known is None:
        if name.lower() == "paths":
            raise UsageError("one store a load; read several and use union")
        close = difflib.get_close_matches(name.lower(), _BY_LOWER, n=1, cutoff=0.5)
        hint = f"did you mean {_BY_LOWER[close[0]]}?" if close else f"options are {', '.join(OWN_NAMES)}"
        raise UsageError(f"{short(name)} is no option of the source flintmq; {hint}")
    return known


def _predicate(given: Mapping[str, str]) -> Predicate:
    topics = _names(given, "subscribe")
    assigned = parse_assignment("assign", given["assign"]) if "assign" in given else None
    starting = parse_offsets("startingOffsets", given.get("startingOffsets", "earliest"), "earliest")
    ending = parse_offsets("endingOffsets", given.get("endingOffsets", "latest"), "latest")
    for name, offsets in (("startingOffsets", starting), ("endingOffsets", ending)):
        for topic, queue in offsets:
            unread = topics is not None and topic not in topics
            if unread or (assigned is not None and queue not in assigned.get(topic, ())):
                raise UsageError(f"option {name} names queue {queue} of topic {short(topic)}, which is not read")
    since, until = _timestamp(given, "startingTimestamp"), _timestamp(given, "endingTimestamp")
    if since is not None and until is not None and since > until:
        raise UsageError(f"option startingTimestamp ({since}) is later than endingTimestamp ({until})")
    pattern = given.get("subscribePattern")
    return Predicate(
        topics=None if topics is None else frozenset(topics),
        topic_pattern=None if pattern is None else _pattern(pattern),
        queues=None if assigned is None else frozenset((t, queue) for t, ids in assigned.items() for queue in ids),
        offsets=queue_ranges(starting, ending),
        since=since,
        until=until,
        tags=_tags(given),
    )


def _names(given: Mapping[str, str], option: str) -> tuple[str, ...] | None:
    if option not in given:
        return None
    names = tuple(part.strip() for part in given[option].split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"option {option}: {short(given[option])} has an empty name, or one twice")
    return names


def _tags(given: Mapping[str, str]) -> frozenset[str] | None:
    text = given.get("tags", "*")
    if text in ("", "*"):
        return None
    tags = [part.strip() for part in text.split("||")]
    if not all(tags):
        raise UsageError(f"option tags: {short(text)} has an empty tag; write A || B")
    return frozenset(tags)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"option subscribePattern: {short(text)} is no regular expression ({error})") from error
    return text


def _flag(given: Mapping[str, str], option: str, default: bool) -> bool:
    return _choice(given, option, ("true", "false"), str(default).lower()) == "true"


def _choice(given: Mapping[str, str], option: str, values: tuple[str, ...], default: str | None = None) -> str:
    value = given.get(option, default or values[0]).lower()
    if value not in values:
        raise UsageError(f"option {option}: {short(given[option])} is not one of {', '.join(values)}")
    return value


def number(given: Mapping[str, str], option: str, default: int, low: int, high: int) -> int:
    """The value of an option that is a whole number.

    Raises:
        UsageError: it is none from low to high.
    """
    text = given.get(option, str(default))
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
        raise UsageError(f"option {option}: {short(text)} is no whole number from {low} to {high}")
    return int(text)


def _timestamp(given: Mapping[str, str], option: str) -> int | None:
    return number(given, option, 0, 0, 2**63 - 1) if option in given else None
