"""Counts the work of a running store and the lag of its services (StoreStatsService).

Counting costs a put nothing: the number of puts, and of those of each topic, is the difference of queue offsets and log
positions between two moments. A put is timed only where it may wait, for a log file or for the disk; every other one
takes microseconds and counts in the first bucket: two looks at the clock cost a third of a compiled put.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from flintmq.kernels.write.fast_get import FastReader
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX

LIMITS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)  # upstream's buckets, without the last
_LIGHT = LMQ_PREFIX.encode()
LABELS = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip


@dataclass(frozen=True)
class StoreStats:
    """Statistics of a store since it was opened, at one moment.

    Attributes:
        seconds: since it was opened.
        puts: messages that got a queue offset (without light queues, which share messages), also of topics that were
            deleted since.
        puts_refused: puts answered with another status than PUT_OK, by its name.
        put_bytes: bytes of log they filled, including unused ends of files.
        puts_by_topic: the puts of each topic; of one that was deleted those since then.
        put_times: number of puts by duration, with upstream's labels.
        longest_in_lock_ms: the longest time that one put delayed all others.
        gets_found, gets_missed: calls of `get` that returned messages, and that returned none.
        messages_got: messages that they returned.
        commit_behind_bytes: put, and in no file yet (transient pool).
        flush_behind_bytes: put, and not on disk.
        dispatch_behind_bytes: confirmed, and not in queues and index.
        log_bytes: between the first and the last byte of the log.
        pool_buffers_free: buffers of the transient pool that may be borrowed; -1 without a pool.
        memory_bytes: of the process, without mapped files; 0 if the system does not report it.
        mapped_bytes: pages of mapped files that are in the process's memory.
        mapped_files: files of the log that are mapped now.
        mapped_virtual_bytes: their size in the address space, whether in memory or not.
        log_end: log offset after the last record.
    """

    seconds: float
    puts: int
    puts_refused: dict[str, int]
    put_bytes: int
    puts_by_topic: dict[str, int]
    put_times: dict[str, int]
    longest_in_lock_ms: int
    gets_found: int
    gets_missed: int
    messages_got: int
    commit_behind_bytes: int
    flush_behind_bytes: int
    dispatch_behind_bytes: int
    log_bytes: int
    pool_buffers_free: int
    memory_bytes: int
    mapped_bytes: int
    mapped_files: int = 0
    mapped_virtual_bytes: int = 0
    log_end: int = 0

    @property
    def put_average_size(self) -> float:
        """Average number of bytes of log for a message."""
        return self.put_bytes / self.puts if self.puts else 0.0


@dataclass
class WaitTimes:
    """Histogram of waiting times. Thread: any."""

    counts: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, seconds: float) -> None:
        """Add one wait, in whole milliseconds as upstream counts."""
        bucket = bisect_left(LIMITS_MS, int(seconds * 1000))
        with self._lock:
            self.counts[bucket] += 1

    def add_all(self, seconds: list[float]) -> None:
        """Add a group of waits, longest first; mostly all belong to one bucket."""
        if not seconds:
            return
        first, last = (bisect_left(LIMITS_MS, int(seconds[n] * 1000)) for n in (0, -1))
        if first != last:
            for one in seconds:
                self.add(one)
            return
        with self._lock:
            self.counts[first] += len(seconds)


@dataclass(frozen=True, slots=True)
class LogPositions:
    """The positions of a store in its log at one moment.

    Attributes:
        begin, end: log offsets of the first byte, and after the last whole record.
        committed: log offset up to which the pool was copied into files; `end` without a pool.
        flushed: log offset up to which the log is on disk.
        dispatch_behind: bytes of log that are not dispatched yet.
    """

    begin: int
    end: int
    committed: int
    flushed: int
    dispatch_behind: int


class Counters:
    """Counters for numbers that positions do not contain. Thread: any."""

    def __init__(self, next_offsets: Mapping[tuple[bytes, int], int], end: int, effects: Effects) -> None:
        self.fast: FastReader | None = None  # counts the gets that it answers itself; set once it is made
        self._effects, self._opened = effects, effects.monotonic()
        self._offsets, self._end = dict(next_offsets), end
        self._lock = Lock()
        self._refused: dict[str, int] = {}
        self._forgotten = 0  # puts of topics that were deleted
        self._found = self._missed = self._messages = 0

    def refused(self, status: str) -> None:
        """Count a put that was answered with this status, which is not PUT_OK."""
        with self._lock:
            self._refused[status] = self._refused.get(status, 0) + 1

    def forget(self, raw: bytes, next_offsets: Mapping[tuple[bytes, int], int]) -> None:
        """Count the messages of a topic from 0 on: it is deleted.

        `next_offsets`: of all queues, before those of the topic begin again.
        """
        before = {place: self._offsets.pop(place, 0) for place in next_offsets if place[0] == raw}
        if not raw.startswith(_LIGHT):
            self._forgotten += sum(max(next_offsets[place] - offset, 0) for place, offset in before.items())

    def got(self, messages: int) -> None:
        with self._lock:
            self._messages += messages
            if messages:
                self._found += 1
            else:
                self._missed += 1

    def read(
        self,
        next_offsets: Mapping[tuple[bytes, int], int],
        log: LogPositions,
        times: WaitTimes,
        *,
        longest_in_lock_ms: int,
        pool_buffers_free: int,
        mapped: tuple[int, int] = (0, 0),
    ) -> StoreStats:
        topics, forgotten = dict[str, int](), self._forgotten
        for (topic, queue_id), offset in list(next_offsets.items()):  # list: in one step, while others put
            count = offset - self._offsets.get((topic, queue_id), 0)
            if count > 0 and not topic.startswith(_LIGHT):
                name = topic.decode("utf-8", "replace")
                topics[name] = topics.get(name, 0) + count
        puts = sum(topics.values()) + forgotten
        slow = times.counts[1:]
        fast = self.fast
        quickly = (0, 0, 0) if fast is None else (fast.found, fast.missed, fast.messages)
        memory, resident = process_memory(self._effects)
        with self._lock:
            return StoreStats(
                seconds=self._effects.monotonic() - self._opened,
                puts=puts,
                puts_refused=dict(self._refused),
                put_bytes=log.end - self._end,
                puts_by_topic=topics,
                put_times=dict(zip(LABELS, [max(puts - sum(slow), 0), *slow], strict=True)),
                longest_in_lock_ms=longest_in_lock_ms,
                gets_found=self._found + quickly[0],
                gets_missed=self._missed + quickly[1],
                messages_got=self._messages + quickly[2],
                commit_behind_bytes=max(log.end - log.committed, 0),
                flush_behind_bytes=max(log.end - log.flushed, 0),
                dispatch_behind_bytes=log.dispatch_behind,
                log_bytes=log.end - log.begin,
                pool_buffers_free=pool_buffers_free,
                memory_bytes=memory,
                mapped_bytes=resident,
                mapped_files=mapped[0],
                mapped_virtual_bytes=mapped[1],
                log_end=log.end,
            )


def process_memory(effects: Effects) -> tuple[int, int]:
    """Return (memory without mapped files, mapped files in memory); zeros if not on Linux."""
    if sys.platform != "linux":
        return 0, 0
    text = effects.read_proc("/proc/self/status")
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Rss")}
    return found.get("RssAnon", 0), found.get("RssFile", 0) + found.get("RssShmem", 0)
