"""Writes store directories of any size and shape from a seed, valid to the byte."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.forensics.rebuild import indexed_time, rebuild
from flintmq.format import checkpoint, config_json
from flintmq.kernels.write import encode
from flintmq.store import arguments
from flintmq.store.commitlog.bulk_writer import LogWriter
from flintmq.store.services.groups import new_group
from flintmq.store.services.topics import new_topic
from flintmq.testing.messages import BATCH_TOPIC, KINDS, NAMES, TAGS, Cycle, Maker, Shape, pool_of

CYCLE = 4096  # messages, or twice as many as there are queues
FEW_QUEUES = 256  # chance leaves none of so many without a message in a cycle
MOODS = 12  # mixes of topics over a wave
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Written:
    """A store that write_store made.

    Attributes:
        path: the directory.
        records: number of records in its log.
        min_offset, max_offset: log offsets of its first byte and after its last record.
        first_ms, last_ms: store times of the first and the last record.
        keys: RocketMQ keys that its reader needs, because files do not record them (`--set`, `set=`).
    """

    path: Path
    records: int
    min_offset: int
    max_offset: int
    first_ms: int
    last_ms: int
    keys: dict[str, object]

    @property
    def config(self) -> StoreConfig:
        """The keys as a configuration."""
        return StoreConfig.from_keys(self.keys)


def write_store(
    path: str | os.PathLike[str],
    messages: int = 100_000,
    seed: int = 1,
    *,
    topics: int | Sequence[str] | Mapping[str, float] = 4,
    queues: int = 4,
    body_bytes: int | tuple[int, int] = (20, 400),
    bodies: str = "text",
    tags: Sequence[str] = TAGS,
    keys: int = 1,
    kinds: str | Iterable[str] = (),
    commit_log_file_size: int | None = None,
    config: Mapping[str, object] | None = None,
    start_ms: int = START_MS,
    duration_ms: int | None = None,
    waves: int = 0,
    expired_files: int = 0,
    commit_log_paths: Sequence[str | os.PathLike[str]] = (),
    queues_and_index: bool = True,
    config_files: bool = True,
    clean: bool = True,
    peer: str = "5.3.3",
) -> Written:
    """Write a valid store, with the same bytes for the same arguments.

    Only the names of index files differ, which are in local time.

    Args:
        path: the directory, which must not hold a store yet.
        messages: number of records in the log.
        seed: decides everything that is left to chance.
        topics: their number, or their names, or name -> weight.
        queues: number of queues of each topic. Without `waves` each gets a message, if there are as many messages.
        body_bytes: size of a body, or (least, most).
        bodies: "text" (words) or "random".
        tags: to choose from; empty for none.
        keys: per message; the first is unique, the others are shared by many.
        kinds: special messages to mix in, about a quarter in all: of messages.KINDS, or "all". "flags": user flags,
            multi-tags, reconsume times; "ipv6"; "v2": topics over 127 bytes; "compressed": really compressed, needs the
            extra `compress`; "odd": empty bodies, bodies with record magics, strange property strings, names that are
            not ASCII; "delay", "transactions", "batches" (of the old kind), "inner_batches" (topic Bulk, BatchCQ),
            "light_queues" (sets enableLmq).
        commit_log_file_size: short for the key mappedFileSizeCommitLog.
        config: RocketMQ's keys: geometry, enabledAppendPropCRC, enableConsumeQueueExt and so on; its defaults else.
        start_ms, duration_ms: store time of the first message, and duration of the whole; default: 1 ms a message.
        waves: the rate, and the mix of topics, swings this many times over the duration.
        expired_files: number of first log files that seem to be deleted; queues do not begin at 0 then.
        commit_log_paths: several directories for the log, instead of `commitlog`.
        queues_and_index: False leaves commitlog/ (and config/) alone.
        config_files: whether config/ has topics.json, consumerOffset.json, subscriptionGroup.json.
        clean: False for a store after a crash: it has `abort`, a checkpoint that lags, and a spare log file.
        peer: the RocketMQ version whose habits the index follows: "5.3.3", "5.4.0" or "5.5.0".

    Returns:
        A description of the store.

    Raises:
        TypeError: a switch that is neither True nor False.
        UsageError: an impossible argument, or there is a store already.
        ConfigError: an unknown key or an impossible value.
        MissingExtraError: compressed messages without the libraries for them.
    """
    arguments.flags(queues_and_index=queues_and_index, config_files=config_files, clean=clean)
    if messages < 1 or expired_files < 0 or bodies not in ("text", "random"):
        raise UsageError("messages must be at least 1, expired_files not negative, bodies 'text' or 'random'")
    shape = Shape(
        _topics(topics),
        queues,
        (body_bytes, body_bytes) if isinstance(body_bytes, int) else body_bytes,
        bodies == "random",
        tuple(tags),
        keys,
        frozenset(KINDS if kinds == "all" else [kinds] if isinstance(kinds, str) else kinds),
    )
    given = dict(config or {})
    if commit_log_file_size is not None:
        given["mappedFileSizeCommitLog"] = commit_log_file_size
    if "light_queues" in shape.kinds:
        given |= {"enableLmq": True, "enableMultiDispatch": True}
    if commit_log_paths:
        given["storePathCommitLog"] = ",".join(os.fspath(folder) for folder in commit_log_paths)
    root = Path(path)
    if (root / "commitlog").exists() or (root / "consumequeue").exists():
        raise UsageError(f"{root}: a store is there already; give another directory")
    root.mkdir(parents=True, exist_ok=True)
    if "storePathCommitLog" in given:
        (root / "commitlog").mkdir()
    times = _Times(start_ms, messages if duration_ms is None else duration_ms, messages, waves)
    store = StoreConfig.from_keys(given)
    run = _LogRun(root, store, shape, seed, times, expired_files)
    written = run.write(messages, given)
    if config_files:
        _write_config(root, shape, run, peer)
    elif "inner_batches" in shape.kinds:
        raise UsageError("inner_batches need config_files: topics.json has the type of their queue")
    if queues_and_index:
        rebuild(os.fspath(root), os.fspath(root), store, peer)
    _write_small_files(root, store, written.last_ms if clean else times.of(messages * 9 // 10), clean)
    if not clean:
        run.log.spare()
    return written


def _topics(topics: int | Sequence[str] | Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    if isinstance(topics, int):
        return tuple((NAMES[i] if i < len(NAMES) else f"Topic-{i}", 1.0) for i in range(topics))
    return tuple(topics.items()) if isinstance(topics, Mapping) else tuple((name, 1.0) for name in topics)


class _Times:
    """Store times of a store's messages: steady, or in waves."""

    def __init__(self, start: int, duration: int, messages: int, waves: int) -> None:
        self.start, self.duration, self.messages, self.waves = start, duration, messages, waves

    def of(self, number: int) -> int:
        """Return the store time in ms of this message; times never step back."""
        if not self.waves:
            return self.start + self.duration * number // self.messages
        turns = 2 * math.pi * self.waves
        x = number / self.messages
        return self.start + int(self.duration * (x + 0.7 * math.sin(turns * x) / turns))

    def between(self, first: int, last: int) -> list[int]:
        """Return the times of messages first..last-1."""
        if self.waves:
            return list(map(self.of, range(first, last)))
        start, duration, messages = self.start, self.duration, self.messages
        return [start + duration * number // messages for number in range(first, last)]


class _LogRun:
    """Writes the log of one store."""

    def __init__(
        self, root: Path, config: StoreConfig, shape: Shape, seed: int, times: _Times, expired_files: int
    ) -> None:
        self.shape, self.seed, self.times = shape, seed, times
        self.numbers: dict[tuple[str, int], int] = {}
        self.counters: list[int] = []
        self.last_ms = times.start
        self.begin = expired_files * config.mapped_file_size_commit_log
        folders = [part for part in config.store_path_commit_log.split(",") if part] or [os.fspath(root / "commitlog")]
        flags = encode.CRC_PROPERTY if config.enabled_append_prop_crc else 0
        size = config.mapped_file_size_commit_log
        self.log = LogWriter(folders, size, self.begin, config.max_record_size, flags)
        self.root = root

    def write(self, messages: int, keys: dict[str, object]) -> Written:
        """Write this many messages and close the log."""
        cycles = self._cycles(messages)
        done = 0
        while done < messages:
            mood = len(cycles) * self.times.waves * done // messages % len(cycles)
            cycle = cycles[mood]
            self._round(cycle, done, min(len(cycle), messages - done))
            done += len(cycle)
        self.log.close()
        return Written(self.root, messages, self.begin, self.log.end, self.times.of(0), self.last_ms, keys)

    def _cycles(self, messages: int) -> list[Cycle]:
        """Make one cycle, or with waves one for each mood."""
        pool, light = pool_of(self.shape, self.seed, messages), dict[str, int]()
        moods = MOODS if self.times.waves else 1
        rest, cycles = [(name, q) for name, _ in self.shape.topics for q in range(self.shape.queues)], []
        if moods > 1 or len(rest) <= FEW_QUEUES:
            rest.clear()
        random.Random(f"queues {self.seed}").shuffle(rest)
        for mood in range(moods):
            topics = self.shape.topics
            if moods > 1:  # each topic has its own phase
                phases = [2 * math.pi * (mood / moods + i / len(topics)) for i in range(len(topics))]
                topics = [(name, w * (1 + 0.8 * math.sin(x))) for (name, w), x in zip(topics, phases, strict=True)]
            shape = Shape(**(vars(self.shape) | {"topics": topics}))
            maker = Maker(shape, f"{self.seed} {mood}", pool, self.numbers, light, rest)
            cycles.append(maker.make(max(1, min(max(CYCLE, 2 * len(rest)), messages // moods))))
        self.counters = [41 * number if self.begin else 0 for number in range(len(self.numbers))]
        return cycles

    def _round(self, cycle: Cycle, done: int, count: int) -> None:
        """Write the first `count` messages of a cycle."""
        times = self.times.between(done, done + len(cycle))
        cycle.fill(done, 4099 * done, self.counters, times)
        self.last_ms = times[count - 1]
        at = 0
        for row in sorted({*cycle.late, *cycle.batches}):
            if row >= count:
                break
            self.log.append(cycle.rows, at, row)
            at = min(cycle.batches.get(row, row + 1), count)
            if row in cycle.late:
                cycle.late[row](row, done + row)
            self.log.append(cycle.rows, row, at, sum(map(cycle.rows.size, range(row, at))))
        self.log.append(cycle.rows, at, count)
        steps = cycle.steps if count == len(cycle) else cycle.steps_of(count)
        for queue, step in steps.items():
            self.counters[queue] += step


def _write_small_files(root: Path, config: StoreConfig, flushed: int, clean: bool) -> None:
    """Write checkpoint (with `flushed` ms), lock, and after a crash abort, as Java does."""
    indexed = indexed_time(os.fspath(root), config.max_index_num, flushed)
    (root / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(flushed, flushed, indexed)))
    (root / "lock").write_bytes(b"lock")
    if not clean:
        (root / "abort").write_bytes(b"4242")


def _write_config(root: Path, shape: Shape, run: _LogRun, peer: str) -> None:
    """Write config/: the topics, and two groups with their offsets in the first topic."""
    version = {"counter": 3, "stateVersion": 0, "timestamp": run.times.start}
    queues: dict[str, int] = {}
    for topic, queue_id in run.numbers:
        queues[topic] = max(queues.get(topic, shape.queues), queue_id + 1)
    topics: dict[str | int, Any] = {
        topic: new_topic(topic, topic == BATCH_TOPIC) | {"readQueueNums": count, "writeQueueNums": count}
        for topic, count in sorted(queues.items())
    }
    first = shape.topics[0][0]
    ends = {q: run.counters[number] for (topic, q), number in sorted(run.numbers.items()) if topic == first}
    offsets = {
        f"{first}@billing": ends,
        f"{first}@reports": {queue_id: end - end // 20 for queue_id, end in ends.items()},
    }
    groups = {name: new_group(name) for name in ("billing", "reports")}
    files: dict[str, dict[str | int, Any]] = {
        "topics.json": {"dataVersion": version, "topicConfigTable": topics},
        "consumerOffset.json": {"dataVersion": version, "offsetTable": offsets},
        "subscriptionGroup.json": {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": groups},
    }
    (root / "config").mkdir()
    for name, value in files.items():
        (root / "config" / name).write_bytes(config_json.write(value, peer))
