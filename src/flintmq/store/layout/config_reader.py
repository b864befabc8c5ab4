"""Reads the files of config/: topics, consumer groups, consumer offsets, delay offsets.

If a file is missing, empty or malformed its `.bak` is read instead; if that fails too, the configuration is empty. An
object without its table counts as it is, empty, as RocketMQ takes it. In each case there is a problem, which says what
is used instead: `ConfigReader.load` alone decides, and every reader tells its problems. A bare store has no config/ at
all. Values of a type that RocketMQ does not write are left out; where they are offsets, a problem says so, since a
group would seem to have consumed nothing.
A file that is there and cannot be read (no descriptor, no permission, a bad disk) is no such case for whoever writes it
back: its `.bak` holds older offsets, and the next write would make them the newest.
Pages: docs/internals/format/config.md. Upstream: ConfigManager and its subclasses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from flintmq.errors import FormatError, StoreAccessError
from flintmq.format import config_json, flintmq_mark
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import OUTCOME_TOPIC, RETRY
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.layout import directories

TOPICS = "topics.json"
GROUPS = "subscriptionGroup.json"
OFFSETS = "consumerOffset.json"
LMQ_OFFSETS = "lmqConsumerOffset.json"  # instead of OFFSETS with enableLmq
DELAYS = "delayOffset.json"
REQUEST_MODES = "messageRequestMode.json"  # kept as a broker gave it; a broker of ours reads it

# The tables that RocketMQ looks for: file -> names of the objects in it; the first is always there.
TABLES: Final = {
    TOPICS: ("topicConfigTable",),
    GROUPS: ("subscriptionGroupTable", "forbiddenTable"),
    OFFSETS: ("offsetTable",),
    LMQ_OFFSETS: ("offsetTable", "lmqOffsetTable"),
    DELAYS: ("offsetTable",),
    "consumerFilter.json": ("filterDataByTopic",),
    "consumerOrderInfo.json": ("table",),
}

SMALL = 1 << 16  # bytes of the largest file whose content is cached

BATCH_TYPE = "BatchCQ"
SIMPLE_TYPE = "SimpleCQ"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic of topics.json; missing settings have RocketMQ's defaults."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = 6
    filter_type: str = "SINGLE_TAG"
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue_type(self) -> str:
        return BATCH_TYPE if self.attributes.get("queue.type") == BATCH_TYPE else SIMPLE_TYPE


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A configuration file that could not be used, and what is used instead."""

    file: str
    position: int
    reason: str
    instead: str = ""

    @property
    def text(self) -> str:
        return f"{self.file}, position {self.position}: {self.reason}; {self.instead}"


@dataclass(frozen=True)
class BrokerConfig:
    """The parts of config/ that FlintMQ reads.

    Attributes:
        consumer_offsets: (topic, group) -> {queue id: next queue offset to consume}.
        lmq_offsets: (topic, group) of a light queue -> next queue offset.
        delay_offsets: delay level, from 1 -> next queue offset in queue level-1 of the schedule topic.
    """

    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str | int, Any]] = field(default_factory=dict)
    consumer_offsets: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    lmq_offsets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    delay_offsets: Mapping[int, int] = field(default_factory=dict)
    problems: tuple[ConfigProblem, ...] = ()
    files: tuple[str, ...] = ()

    def problems_of(self, *names: str) -> list[ConfigProblem]:
        return [one for one in self.problems if os.path.basename(one.file).removesuffix(".bak") in names]

    def committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield (group, topic, queue id, offset) of each committed offset; id 0 of a light queue."""
        for (topic, group), queues in self.consumer_offsets.items():
            yield from ((group, topic, queue_id, offset) for queue_id, offset in queues.items())
        yield from ((group, topic, 0, offset) for (topic, group), offset in self.lmq_offsets.items())

    def is_batch(self, topic: str) -> bool:
        found = self.topics.get(topic)
        return found is not None and found.queue_type == BATCH_TYPE

    def type_of(self, topic: str) -> str:
        """Return the queue type of a topic by topics.json, which need not name it."""
        return BATCH_TYPE if self.is_batch(topic) else SIMPLE_TYPE


def read_config(root: str, effects: Effects = REAL, *, strict: bool = False) -> BrokerConfig:
    """Read everything in the store's config/ that FlintMQ uses.

    `strict`: raise if a file is there and cannot be read, instead of noting it as a problem.

    Raises StoreAccessError: with `strict`. Nothing because of the files' content or absence; see `problems`.
    """
    reader = ConfigReader(os.path.join(root, directories.CONFIG), effects, strict=strict)
    offsets = reader.load(LMQ_OFFSETS) or reader.load(OFFSETS)
    topics = _objects(reader.load(TOPICS).get("topicConfigTable"))
    groups, delays = reader.load(GROUPS), reader.load(DELAYS)
    reader.problems += _missing_offsets(root, effects, reader)
    return BrokerConfig(
        topics={name: topic_of(name, value) for name, value in topics},
        groups=dict(_objects(groups.get("subscriptionGroupTable"))),
        consumer_offsets={key: numbers_of(value) for key, value in _by_group(offsets.get("offsetTable"))},
        lmq_offsets={
            key: number
            for key, value in _by_group(offsets.get("lmqOffsetTable"))
            if (number := config_json.integer(value)) is not None
        },
        delay_offsets=numbers_of(delays.get("offsetTable")),
        problems=tuple(reader.problems),
        files=tuple(reader.files),
    )


def _missing_offsets(root: str, effects: Effects, reader: ConfigReader) -> Iterator[ConfigProblem]:
    """Yield the files of offsets that are missing, where other files or queues are there.

    RocketMQ writes them within seconds; FlintMQ once there is something to say, and topics.json before its stop.
    """
    found = {name.removesuffix(".bak") for name in reader.files}
    known = found | {os.path.basename(problem.file).removesuffix(".bak") for problem in reader.problems}

    def is_there(*names: str) -> bool:
        path = os.path.join(root, *names)
        return effects.is_dir(path) or effects.size(path) is not None

    is_unmounted = os.path.islink(reader.folder) and not os.path.exists(reader.folder)
    if not is_unmounted and is_there(flintmq_mark.FILE_NAME) and (TOPICS in known or is_there("abort")):
        return
    missing = [DELAYS] if DELAYS not in known and is_there(directories.QUEUES, SCHEDULE_TOPIC) else []
    if not known & {OFFSETS, LMQ_OFFSETS} and (
        is_unmounted or GROUPS in found or is_there(directories.QUEUES, OUTCOME_TOPIC)
    ):
        rocksdb = directories.in_rocksdb(root, effects)
        missing += [OFFSETS] if rocksdb.keys().isdisjoint(directories.OFFSETS_IN_ROCKSDB) else []
    for name in missing:
        yield ConfigProblem(os.path.join(reader.folder, name), 0, "the file is missing", "it counts as empty")


def batch_topics_of(value: config_json.JsonObject) -> set[str]:
    topics = _objects(value.get("topicConfigTable"))
    return {name for name, settings in topics if topic_of(name, settings).queue_type == BATCH_TYPE}


OF_EVERY_BROKER = ("RMQ_SYS_", "rmq_sys_", RETRY, SCHEDULE_TOPIC)  # begins of the names of such topics


class OutsideOffset(NamedTuple):
    """A committed offset that is not in its queue; `end` is after the last message."""

    file: str
    owner: str
    topic: str
    queue_id: int
    offset: int
    end: int

    @property
    def text(self) -> str:
        cost = "it gets nothing until the queue has grown so far" if self.offset > 0 else "it begins anew"
        place = f"{self.owner} has the offset {self.offset} in queue {self.topic}/{self.queue_id}"
        return f"{place}, which ends at {self.end}: {cost}, whatever its lag is; run `flintmq verify`"


def is_outside(offset: int, end: int) -> bool:
    """Return whether a committed offset is not in a queue with this end.

    -1: the group has consumed nothing.
    """
    return not -1 <= offset <= end


def offsets_outside(
    broker: BrokerConfig, end_of: Callable[[str, int], int | None]
) -> tuple[list[OutsideOffset], list[str]]:
    """Return the committed offsets that are not in their queues, and topics that are not there.

    Deleted topics leave offsets, so topics are only returned if none is there: the file is another broker's.

    `end_of`: queue offset after the last message of a queue, None for a queue that does not exist.
    """
    name = LMQ_OFFSETS if LMQ_OFFSETS in broker.files else OFFSETS
    rows = [(name, f"group {group}", topic, queue_id, at) for group, topic, queue_id, at in broker.committed()]
    rows += [(DELAYS, f"delay level {n}", SCHEDULE_TOPIC, n - 1, at) for n, at in broker.delay_offsets.items()]
    ends = [end_of(topic, queue_id) for _, _, topic, queue_id, _ in rows]
    there = {row[2] for row, end in zip(rows, ends, strict=True) if end is not None} | broker.topics.keys()
    found = [OutsideOffset(*row, end or 0) for row, end in zip(rows, ends, strict=True) if row[2] in there]
    named = {row[2] for row in rows if row[4] > 0 and not row[2].startswith(OF_EVERY_BROKER)}
    return [one for one in found if is_outside(one.offset, one.end)], sorted(named) if named.isdisjoint(there) else []


def absent_text(topics: list[str]) -> str:
    """Return a line for people on committed offsets of topics that are not there."""
    return (
        f"no topic of the committed offsets is in this store ({', '.join(topics[:3])}): is the file another broker's? "
        "Groups begin anew here"
    )


class ConfigReader:
    """Loads files, or their `.bak` as a second chance, and collects the problems."""

    def __init__(self, folder: str, effects: Effects, *, strict: bool = False) -> None:
        self.folder, self.effects, self.strict = folder, effects, strict
        self.problems: list[ConfigProblem] = []
        self.files: list[str] = []

    def load(self, name: str) -> config_json.JsonObject:
        """Return the object in a file, or in its `.bak` if the file is unusable, or an empty one."""
        value, problem = self.parse(name)
        found, instead, path = [problem], "it counts as empty", os.path.join(self.folder, name)
        if value is None:
            value, worse = self.parse(name + ".bak")
            found.append(worse)
            if value is not None:
                found[0] = problem or ConfigProblem(path, 0, "the file is missing")
                path, instead = f"{path}.bak", f"{name}.bak is used, which may be older"
        self.problems += [replace(one, instead=instead) for one in found if one is not None]
        value = {} if value is None else value
        if path[len(self.folder) + 1 :] in self.files and name in TABLES:
            table = TABLES[name][0]
            if not isinstance(value.get(table), dict):
                self.problems.append(ConfigProblem(path, 0, f"{table} is no object", "it counts as empty"))
            elif wrong := list(_no_offsets(name, value)):
                reason = f"{len(wrong)} of its offsets are no numbers, the first of {wrong[0]}"
                self.problems.append(ConfigProblem(path, 0, reason, "they are left out"))
        return value

    def parse(self, name: str) -> tuple[config_json.JsonObject | None, ConfigProblem | None]:
        """Parse a file; return its object, or the problem, or neither if it is missing."""
        path = os.path.join(self.folder, name)
        try:
            data = self.effects.read_file(path, config_json.MAX_BYTES + 1)
            if data is None:
                return None, None
            if not data:
                return None, ConfigProblem(path, 0, "the file is empty")
            value = parsed_again(data) if len(data) <= SMALL else config_json.parse(data)
        except FormatError as error:
            return None, ConfigProblem(path, error.position, error.reason)
        except (StoreAccessError, OSError) as error:
            if self.strict:
                reason = (error.strerror if isinstance(error, OSError) else None) or error
                raise StoreAccessError(
                    f"{path} is there and cannot be read ({reason}): let it be read, or move it away to go on without "
                    "what it holds"
                ) from error
            return None, ConfigProblem(path, 0, str(error)[:200])
        self.files.append(name)
        return value, None


@lru_cache(maxsize=16)
def _parsed(data: bytes) -> config_json.JsonObject:
    return config_json.parse(data)


def parsed_again(data: bytes) -> config_json.JsonObject:
    """Parse a small file, with a cache: opening a store reads each of them more than once."""
    return {key: _copied(value) for key, value in _parsed(data).items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(below) for key, below in value.items()}
    return [_copied(below) for below in value] if isinstance(value, list) else value


def topic_of(name: str, value: config_json.JsonObject) -> TopicConfig:
    attributes = value.get("attributes")
    pairs = attributes.items() if isinstance(attributes, dict) else ()

    def number(key: str, default: int) -> int:
        found = config_json.integer(value.get(key))
        return default if found is None else found

    kind = value.get("topicFilterType")
    return TopicConfig(
        name=name,
        read_queues=number("readQueueNums", 16),
        write_queues=number("writeQueueNums", 16),
        perm=number("perm", 6),
        filter_type=kind if isinstance(kind, str) else "SINGLE_TAG",
        attributes={str(key): text for key, text in pairs if isinstance(text, str)},
    )


def _objects(table: Any) -> Iterator[tuple[str, config_json.JsonObject]]:
    if isinstance(table, dict):
        for key, value in table.items():
            if isinstance(value, dict) and "\0" not in key:  # no directory can have such a name
                yield str(key), value


def _by_group(table: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield ((topic, group), value) of a table whose keys are `topic@group`.

    Keys without exactly one @ are left out, and those that no directory can be named by.
    """
    if isinstance(table, dict):
        for key, value in table.items():
            topic, at, group = str(key).partition("@")
            if at and "@" not in group and "\0" not in key:
                yield (topic, group), value


def _no_offsets(name: str, value: config_json.JsonObject) -> Iterator[str]:
    """Yield whose offsets in a file are no numbers."""
    if name == DELAYS:
        levels = value["offsetTable"]
        yield from (f"delay level {key}" for key in levels if config_json.integer(key) not in numbers_of(levels))
    elif name in (OFFSETS, LMQ_OFFSETS):
        for (topic, group), queues in _by_group(value["offsetTable"]):
            if not isinstance(queues, dict) or len(numbers_of(queues)) < len(queues):
                yield f"group {group} in topic {topic}"
        for (topic, group), number in _by_group(value.get("lmqOffsetTable")):
            if config_json.integer(number) is None:
                yield f"group {group} in topic {topic}"


def numbers_of(table: Any) -> dict[int, int]:
    """Convert a map of integers to integers; other entries are left out."""
    if not isinstance(table, dict):
        return {}
    pairs = ((config_json.integer(key), config_json.integer(value)) for key, value in table.items())
    return {key: value for key, value in pairs if key is not None and value is not None}
