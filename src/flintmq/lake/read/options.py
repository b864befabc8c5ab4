"""Checks the options of the source `flintmq`.

Options that Spark's Kafka source has too have the same names and meanings. RocketMQ's own keys
(`mappedFileSizeCommitLog` and so on) are options as well, for values that cannot be found in the store's files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flintmq.cluster.member import Member
from flintmq.cluster.members import Stores, names_many, text_of
from flintmq.config.keys import KEYS, StoreConfig
from flintmq.config.s3 import S3_KEYS
from flintmq.config.text import short, tag_names
from flintmq.errors import UsageError
from flintmq.kernels.read.select import ANY_QUEUE
from flintmq.lake.bodies.form import FORMS, BodyForm
from flintmq.lake.bodies.registry import absolute_place
from flintmq.lake.read.broker_options import ANY_STORE, brokers_named, options_of_broker
from flintmq.lake.read.offsets import Queue, parse_assignment, parse_offsets, parse_timestamps, queue_ranges
from flintmq.lake.read.option_text import OptionNames, choice, flag, names, number, time_ms
from flintmq.storage.files.store_url import absolute, local_only, store_path
from flintmq.store.commitlog.predicate import Predicate

OWN_NAMES = {
    "path": "the store's directory, or a URL: s3://bucket/store, file:///store; or several stores: a pattern such as "
    "/data/{broker}/store or /data/*/store, or a manifest (cluster.toml)",
    "paths": 'several stores: ["/data/a/store", "/data/b/store"]; .load([A, B]) sets it',
    "columns": "which columns, in which order, separated by commas",
    "view": "messages (the default); queues: a row for each queue, with its offsets and number of messages; groups: "
    "the offsets and lag of consumer groups in each queue; index: the items of the key index",
    "shape": "messages (the default); or kafka: the columns of Spark's Kafka source",
    "includeHeaders": "with shape kafka, true: properties as the column headers",
    "subscribe": "topics, separated by commas",
    "subscribePattern": "a regular expression that a whole topic name must match",
    "assign": 'queues of topics: {"topic": [0, 1]}',
    "startingOffsets": 'the first queue offset: earliest, or {"topic": {"0": 5}}, of several stores '
    '{"broker": {"topic": {"0": 5}}}; -2 is earliest',
    "endingOffsets": 'the queue offset to stop before: latest, or {"topic": {"0": 9}}; -1 is latest',
    "startingTimestamp": "least store time, in ms since 1970; comes before the two options below and startingOffsets",
    "startingOffsetsByTimestamp": 'least store time of single queues: {"topic": {"0": 1700000000000}}',
    "startingOffsetsByTimestampStrategy": "a time at or after which nothing was stored: error, or latest (nothing)",
    "endingOffsetsByTimestamp": "store time to stop before, of single queues",
    "endingTimestamp": "store time to stop before, in ms since 1970",
    "minPartitions": "least number of splits",
    "maxRecordsPerPartition": "most records of a split; batch: about",
    "failOnDataLoss": "true: damage fails the job; false: it is skipped and counted",
    "tags": "only messages with one of these tags, as a subscription has them: A || B",
    "decompress": "true: bodies as the producer gave them; false: as stored",
    "body": "bytes (the default); or text, json, avro, protobuf: the column body is decoded, beside body_raw and "
    "body_error of bodies that do not decode",
    "bodySchema": "of body json DDL, or a file or text of Spark's JSON form; of avro a file .avsc, or its text; of "
    "protobuf a file with a descriptor set",
    "bodyMessage": "of body protobuf: full name of the message",
    "bodyHead": "true: bodies begin with the 5 bytes of a schema registry (avro, protobuf)",
    "schemaRegistry": "registry of the schemas that heads of body avro name, or a directory with ID.avsc",
    "explode": "true: each message of an inner batch is a row; false: the batch is one row",
    "pushdown": "true: the scan uses filters of Spark; only for a DataFrame that a single query reads",
    "history": "a table that exports made from the stores: its rows come too, those of the log only if it lacks them",
    "catalog": "of a history in Iceberg: NAME:NAMESPACE.TABLE of a catalog in PyIceberg's configuration",
    "verbose": "true: planning says on standard error what is read, and which filters of Spark the scan uses",
    "access": "pread, or map (faster, but a file that shrinks kills the worker)",
    "maxOffsetsPerTrigger": "stream: most messages of a micro-batch",
    "maxBytesPerTrigger": "stream: most bytes of log of a micro-batch",
    "minOffsetsPerTrigger": "stream: least messages of a micro-batch, unless maxTriggerDelay has passed",
    "maxTriggerDelay": "stream: how long to wait for them: 500ms, 30s, 15m, 1h",
}
"""Name -> meaning, for the documentation and for messages; RocketMQ's keys and those of object storage come on top."""

ELSEWHERE = {
    "kafka.": "there is no broker in between: path names the store; leave it out",
    "groupidprefix": "a read belongs to no group; leave it out",
    "fetchoffset.": "offsets are in the store's files; leave it out",
    "kafkaconsumer.": "there is no consumer; leave it out",
}
"""How options of Spark's Kafka source begin, in lower case, that this one does not have -> what to do instead."""
_NAMES = OptionNames("source", OWN_NAMES, (*KEYS, *S3_KEYS))
ONE_OF = ("subscribe", "subscribePattern", "assign")
NOT_WITH_HISTORY = (
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxRecordsPerPartition",
    "decompress",
    "body",
    "explode",
    "pushdown",
)
"""Options that a read of a table and its stores does not take: the table decides, or has no such order."""
OF_VIEWS = ("path", "paths", "view", *ONE_OF, "failOnDataLoss", "verbose", "access", "pushdown")
"""Options of a view other than `messages`, beside keys of the store."""
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a read. All are checked at once: no misspelling fails later.

    Attributes:
        columns: names as given by `columns`, in that order; None for all. Not yet compared with the schema.
        predicate: selects records by topic, queue, queue offset, store time and tag.
        since_of, until_of: of single queues, the store time in ms from which on, and before which, records are wanted.
    """

    path: str  # the store's directory; of several stores, what the user gave
    stores: Stores | None = None  # what names several stores; None for one. See `of`, and lake/read/members.py.
    columns: tuple[str, ...] | None = None
    predicate: Predicate = field(default_factory=Predicate)
    since_of: Mapping[Queue, int] = field(default_factory=dict)
    until_of: Mapping[Queue, int] = field(default_factory=dict)
    lenient_times: bool = False  # a time after which nothing was stored is not an error (strategy "latest")
    least_splits: int = 1
    most_records: int | None = None  # most records of a partition, in a batch read an estimate; None for no limit
    fail_on_data_loss: bool = True  # whether damage fails the job
    skip_option: str = "failOnDataLoss=false"  # how the user's front end says that it does not; for errors
    decompress: bool = False
    body: BodyForm | None = None  # how bodies are decoded; None: they stay bytes
    explode: bool = False
    pushdown: bool = False
    access: str = "pread"
    view: str = "messages"
    shape: str = "messages"  # or kafka
    headers: bool = False  # with shape kafka: whether there is the column headers
    verbose: bool = False  # whether planning prints what is read
    history: str | None = None  # directory of a table that exports made from the stores; None for none
    catalog: str | None = None  # of an Iceberg table, its name in a catalog; None: its own
    config: StoreConfig = field(default_factory=StoreConfig)  # RocketMQ's keys
    given: Mapping[str, str] = field(default_factory=dict)  # of several stores, all options with their right names

    @property
    def named(self) -> Stores:
        """Return the words that name the store or the stores."""
        return self.stores or self.path

    @property
    def many(self) -> bool:
        """True if several stores are read, so that rows have the columns broker and store."""
        return self.stores is not None

    def of(self, member: Member) -> ReadOptions:
        """Return the options for one of the stores: its path, and the offsets of its broker."""
        own = ReadOptions.parse(options_of_broker(self.given, member.broker, member.path)) if self.given else self
        predicate = replace(self.predicate, offsets=own.predicate.offsets)
        return replace(self.at(member), predicate=predicate, since_of=own.since_of, until_of=own.until_of)

    def at(self, member: Member) -> ReadOptions:
        """Return the options for one of the stores, with the offsets of all."""
        return replace(self, path=member.path, stores=None, given={})

    @classmethod
    def of_stores(cls, stores: Stores, config: StoreConfig | None, **more: Any) -> ReadOptions:
        """Make options for what a user named: one store, or several."""
        config = config or StoreConfig()
        if names_many(stores, config):
            return cls(text_of(stores), stores, config=config, **more)
        return cls(absolute(str(stores)), config=config, **more)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        given = named(options)
        for name in STREAM_ONLY:
            if name in given:
                raise UsageError(f"option {name} is for spark.readStream; a batch read reads everything")
        if not given.get("path") and not given.get("paths"):
            raise UsageError(
                "no store given; name its directory: .load(STORE), or the option path (Spark keeps the options of "
                "CREATE TABLE to itself; use CREATE TEMPORARY VIEW)"
            )
        config = StoreConfig.from_keys(
            {name: value for name, value in given.items() if name in KEYS or name in S3_KEYS}
        )
        stores = _stores(given, config)
        if stores is not None:
            return cls._of_many(given, stores)
        chosen = [name for name in ONE_OF if name in given]
        if len(chosen) > 1:
            raise UsageError(f"options {' and '.join(chosen)} exclude each other; give one of them")
        predicate = _predicate(given)
        strategy = choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        body = _body(given)
        return cls(
            path=store_path(given["path"]),
            columns=names(given, "columns"),
            predicate=predicate,
            since_of=_times(given, "starting", predicate),
            until_of=_times(given, "ending", predicate),
            lenient_times=strategy == "latest",
            least_splits=number(given, "minPartitions", 1, 1_000_000) or 1,
            most_records=number(given, "maxRecordsPerPartition", 1),
            fail_on_data_loss=flag(given, "failOnDataLoss", True),
            decompress=flag(given, "decompress", body is not None),
            body=body,
            explode=flag(given, "explode", False),
            pushdown=flag(given, "pushdown", False),
            access=choice(given, "access", ("pread", "map")),
            view=_view(given),
            shape=_shape(given),
            headers=flag(given, "includeHeaders", False),
            verbose=flag(given, "verbose", False),
            history=_history(given),
            catalog=given.get("catalog"),
            config=config,
        )

    @classmethod
    def _of_many(cls, given: Mapping[str, str], stores: Stores) -> ReadOptions:
        """Check the options of a read of several stores, as those of each broker."""
        for broker in sorted(brokers_named(given)):
            cls.parse(options_of_broker(given, broker, ANY_STORE))
        shared = cls.parse(options_of_broker(given, None, ANY_STORE))
        return replace(shared, path=text_of(stores), stores=stores, given=dict(given))


def named(options: Mapping[str, str]) -> dict[str, str]:
    for name in options:
        for begin, advice in ELSEWHERE.items():
            if name.lower().startswith(begin):
                raise UsageError(f"option {short(name)} is one of Spark's Kafka source; {advice}")
    return _NAMES.spell(_without_table_properties(options))


def is_table(options: Mapping[str, str]) -> bool:
    """Return whether these are the properties of a table in Spark's catalog (CREATE TABLE)."""
    return "provider" in options


def _without_table_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the path and options of a table in Spark's catalog, without Spark's additions."""
    if not is_table(options):
        return options
    given = {name[len("option.") :]: value for name, value in options.items() if name.startswith("option.")}
    return {**given, **({"path": options["path"]} if "path" in options else {})}


def _stores(given: Mapping[str, str], config: StoreConfig) -> Stores | None:
    """Return what names several stores; None for one."""
    if "paths" not in given:
        return given["path"] if names_many(given["path"], config) else None
    try:
        listed = json.loads(given["paths"])
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list) or not listed or not all(isinstance(one, str) and one for one in listed):
        raise UsageError(f"option paths: {short(given['paths'])} is not a JSON list of directories")
    if given.get("path"):
        raise UsageError("options path and paths exclude each other; give one of them")
    return tuple(listed)


def _predicate(given: Mapping[str, str]) -> Predicate:
    """Make the predicate.

    A time for all queues overrides times of queues, which override offsets.
    """
    topics = names(given, "subscribe")
    assigned = parse_assignment("assign", given["assign"]) if "assign" in given else None
    since, until = time_ms(given, "startingTimestamp"), time_ms(given, "endingTimestamp")
    if since is not None and until is not None and since > until:
        raise UsageError(f"option startingTimestamp ({since}) is later than endingTimestamp ({until})")
    pattern = given.get("subscribePattern")
    which = Predicate(
        topics=None if topics is None else frozenset(topics),
        topic_pattern=None if pattern is None else _pattern(pattern),
        queues=None if assigned is None else frozenset((t, queue) for t, ids in assigned.items() for queue in ids),
    )
    bounds: dict[str, dict[Queue, int]] = {}
    for side, word in (("starting", "earliest"), ("ending", "latest")):
        offsets = parse_offsets(f"{side}Offsets", given.get(f"{side}Offsets", word), word)
        check_read(f"{side}Offsets", offsets, which)
        by_time = f"{side}Timestamp" in given or f"{side}OffsetsByTimestamp" in given
        bounds[side] = {} if by_time else {queue: n for queue, n in offsets.items() if n >= 0}
    for queue in sorted(bounds["starting"].keys() & bounds["ending"].keys()):
        if bounds["starting"][queue] > bounds["ending"][queue]:
            raise UsageError(
                f"topic {short(queue[0])}, queue {queue[1]}: startingOffsets ({bounds['starting'][queue]}) is larger "
                f"than endingOffsets ({bounds['ending'][queue]})"
            )
    ranges = queue_ranges(bounds["starting"], bounds["ending"])
    return replace(which, offsets=ranges, since=since, until=until, tags=_tags(given))


def check_read(option: str, queues: Iterable[Queue], predicate: Predicate) -> None:
    for topic, queue in queues:
        rules = predicate.rules(topic)
        if rules is None or not any(queue == ANY_QUEUE or rule[0] in (queue, ANY_QUEUE) for rule in rules):
            which = "" if queue == ANY_QUEUE else f"queue {queue} of "
            raise UsageError(f"option {option} names {which}topic {short(topic)}, which is not read")


def _times(given: Mapping[str, str], side: str, predicate: Predicate) -> dict[Queue, int]:
    """Return the times of single queues; none if one time applies to all."""
    option = f"{side}OffsetsByTimestamp"
    if option not in given:
        return {}
    times = parse_timestamps(option, given[option])
    check_read(option, times, predicate)
    return {} if f"{side}Timestamp" in given else times


def _tags(given: Mapping[str, str]) -> frozenset[str] | None:
    text = given.get("tags", "*")
    if text in ("", "*"):
        return None
    tags = tag_names(text)
    if not all(tags):
        raise UsageError(f"option tags: {short(text)} has an empty tag; write A || B")
    return frozenset(tags)


def _view(given: Mapping[str, str]) -> str:
    """Return the view; one that is not of messages has its own columns and no bounds."""
    view = choice(given, "view", ("messages", "queues", "groups", "index", "halves", "timers", "dead"))
    others = given.keys() - for_a_view(given).keys() if view != "messages" else ()
    if others:
        raise UsageError(f"option {min(others)} does not apply to view {view}; leave it out")
    return view


def for_a_view(options: Mapping[str, str]) -> dict[str, str]:
    """Return, in their own spelling, the options that a view other than `messages` takes."""
    spelled = _NAMES.spell(options)
    return {name: value for name, value in spelled.items() if name not in OWN_NAMES or name in OF_VIEWS}


def _shape(given: Mapping[str, str]) -> str:
    shape = choice(given, "shape", ("messages", "kafka"))
    if shape == "kafka" and "history" in given:
        raise UsageError("option shape does not apply to a read with history; leave it out")
    if shape == "kafka" and "body" in given:
        raise UsageError("option body does not apply to shape=kafka, whose values are bytes; leave one of them out")
    if shape != "kafka" and "includeHeaders" in given:
        raise UsageError("option includeHeaders is for shape=kafka; rows of messages have the column properties")
    return shape


def _body(given: Mapping[str, str]) -> BodyForm | None:
    registry = given.get("schemaRegistry")
    form = BodyForm.parse(
        choice(given, "body", FORMS),
        given.get("bodySchema"),
        message=given.get("bodyMessage"),
        head=flag(given, "bodyHead", False),
        registry=None if registry is None else absolute_place(registry),  # workers may run in other directories
    )
    if form is not None and not flag(given, "decompress", True):
        raise UsageError(f"option decompress: body {form.name} is made of what the producer gave; leave it out")
    return form


def _history(given: Mapping[str, str]) -> str | None:
    """Return the directory of the history; options that do not apply beside it are refused."""
    if "history" not in given:
        if "catalog" in given:
            raise UsageError("option catalog is for the option history, the directory of an Iceberg table")
        return None
    others = [name for name in NOT_WITH_HISTORY if name in given]
    if others:
        raise UsageError(f"option {others[0]} does not apply to a read with history; leave it out")
    if not given["history"]:
        raise UsageError("option history is empty; name the directory of a table that exports made")
    return os.path.abspath(local_only(given["history"]))


def _pattern(text: str) -> str:
    if not text:
        raise UsageError("option subscribePattern is empty and matches no topic; leave it out to read all")
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"option subscribePattern: {short(text)} is not a regular expression ({error})") from error
    return text
