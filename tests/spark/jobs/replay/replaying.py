"""What tests of replay share: tasks as calls, and what a store holds, read by the reference reader."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.spark.jobs import rebuild
from flintmq.spark.jobs.replay import job, tasks

KEYS = {"mappedFileSizeCommitLog": 1 << 17, "maxHashSlotNum": 500, "maxIndexNum": 2000}
SMALL = StoreConfig.from_keys({**KEYS, "mappedFileSizeConsumeQueue": 4000})


def tasks_as_calls(patch: pytest.MonkeyPatch, chunk_bytes: int = 20_000) -> None:
    """Tasks as calls; each is done twice, as an attempt may be. Chunks are small."""

    def run(spark: Any, task: Any, items: Any, progress: Any = None) -> list[Any]:
        return [(task(item), task(item))[1] for item in items]

    patch.setattr(tasks, "run_tasks", run)
    patch.setattr(rebuild, "run_tasks", run)
    patch.setattr(rebuild, "parallelism", lambda spark: 2)
    patch.setattr(job, "parallelism", lambda spark: 2)
    patch.setattr(job, "LEAST_CHUNK", chunk_bytes)


def held(root: Path | str, config: StoreConfig | None = None, **named: Any) -> dict[tuple[str, int], list[Any]]:
    """What each queue of a store holds, in order: all that a replay has to keep, and the store time."""
    queues = defaultdict(list)
    with flintmq.open_store(root, config=config) as store:
        for message in store.messages():
            if message.sys_flag & 4:
                continue
            born = message.born_timestamp  # outside the years 1 to 9999 a table has none: then it is the store time
            born = born if abs(born) < 253_402_300_800_000 else message.store_timestamp
            kept = {k: v for k, v in message.properties.items() if k not in ("__CRC32#",)}
            queues[message.topic, message.queue_id].append((
                message.queue_offset, message.body, list(kept.items()), message.tags, message.keys, message.flag,
                message.sys_flag, message.reconsume_times, born, message.born_host,
                message.store_timestamp,
            ))  # fmt: skip
    return dict(queues)


def without_offsets(queues: dict[tuple[str, int], list[Any]]) -> dict[tuple[str, int], list[Any]]:
    """The same without queue offsets, and without the broker's own topics."""
    own = ("SCHEDULE_TOPIC_", "RMQ_SYS_", "rmq_sys_")
    return {name: [row[1:] for row in rows] for name, rows in queues.items() if not name[0].startswith(own)}


def bulk(source: Path | str, into: Path, config: StoreConfig = SMALL, **named: Any) -> job.Replayed:
    """A replay without Spark, whose tasks are calls."""
    return job.replay(None, str(source), str(into), config, **named)  # type: ignore[arg-type]
