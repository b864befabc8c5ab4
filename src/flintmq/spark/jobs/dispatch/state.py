"""What a dispatch job has committed: one small JSON file, replaced as a whole after all it speaks of is on disk.

    INTO/.flintmq-dispatch/state.json

Everything below INTO that the file does not speak of is of a round that was not finished; the next start cuts it.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from flintmq.errors import ConfigError, StoreAccessError
from flintmq.forensics.rebuild import RebuildPlan
from flintmq.lake.target import ExportAnchor
from flintmq.storage.dispatch_lock import FOLDER
from flintmq.storage.versioned_json import VersionedJson
from flintmq.store.consumequeue.writer import WriterState

FORMAT = 1
STATE_BYTES_MAX = 1 << 30  # about 60 bytes a queue
SHAPE_KEYS = {
    "queue_file": "mappedFileSizeConsumeQueue",
    "ext_file": "mappedFileSizeConsumeQueueExt",
    "batch_file": "mapperFileSizeBatchConsumeQueue",
    "slots": "maxHashSlotNum",
    "items": "maxIndexNum",
    "index": "messageIndexEnable",
    "light_queues": "enableLmq",
    "peer": "peer",
    "delay_ms": "messageDelayLevel",
}


@dataclass(frozen=True)
class DispatchSettings:
    """What all rounds of a directory agree in.

    Attributes:
        queue_file, ext_file, batch_file: bytes of these files; ext_file 0 without ext queues.
        slots, items: geometry of index files.
        index: whether there is an index.
        light_queues: enableLmq and enableMultiDispatch are on.
        peer: "5.3.3", "5.4.0" or "5.5.0".
        delay_ms: milliseconds of each delay level.
    """

    queue_file: int
    ext_file: int
    batch_file: int
    slots: int
    items: int
    index: bool
    light_queues: bool
    peer: str
    delay_ms: tuple[int, ...]

    @classmethod
    def of(cls, plan: RebuildPlan) -> DispatchSettings:
        """The shape of a plan."""
        rules = plan.rules
        sizes = plan.queue_file, plan.ext_file, plan.batch_file, plan.slots, plan.items
        return cls(*sizes, rules.index, rules.light_queues, rules.peer, rules.delay_ms)


@dataclass
class IndexState:
    """The index files.

    Attributes:
        names: of files that have keys, in order.
        keys: how many the last one has if there is room in it, else 0.
        begin, skip: log offset of the record whose key is the first in that last file, and how many keys of this
            record are in the file before.
        before: log offset and store time of the last key before that file.
        end: log offset and store time of the last key.
        empty: name of a file behind them that has no key yet (RocketMQ makes it with the record that follows a full
            file); None for none.
    """

    names: list[str] = field(default_factory=list)
    keys: int = 0
    begin: int = 0
    skip: int = 0
    before: tuple[int, int] = (0, 0)
    end: tuple[int, int] = (0, 0)
    empty: str | None = None


@dataclass
class DispatchState:
    """What is committed.

    Attributes:
        shape: what all rounds agree in.
        position: log offset up to which everything is dispatched.
        log_begin: where the log began then.
        last: log offset and store time of the last record; offset -1 for none.
        anchor: that record, to know the log again by; None for none.
        clean: the job stopped by itself: nothing was written that is not told here.
        queues: path of a queue below consumequeue/ -> where its writer stands.
        batches: path of a queue below batchconsumequeue/ -> byte behind its last unit.
        index: the index files.
    """

    shape: DispatchSettings
    position: int
    log_begin: int
    last: tuple[int, int] = (-1, 0)
    anchor: ExportAnchor | None = None
    clean: bool = False
    queues: dict[str, WriterState] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    index: IndexState = field(default_factory=IndexState)

    @classmethod
    def of(cls, value: dict[str, Any]) -> DispatchState:
        """Make the state from what `asdict` gave and JSON made of it.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it is no such state.
        """
        shape, index = value["shape"], value["index"]
        made: dict[str, Any] = {
            "shape": DispatchSettings(**{**shape, "delay_ms": tuple(shape["delay_ms"])}),
            "last": tuple(value["last"]),
            "anchor": None if value["anchor"] is None else ExportAnchor(**value["anchor"]),
            "queues": {path: WriterState(*row) for path, row in value["queues"].items()},
            "index": IndexState(**{**index, "before": tuple(index["before"]), "end": tuple(index["end"])}),
        }
        return cls(**{**value, **made})


def state_path(into: str) -> str:
    """The file."""
    return os.path.join(into, FOLDER, "state.json")


def load(into: str) -> DispatchState | None:
    """What is committed below a directory; None where there is nothing yet.

    Raises:
        StoreAccessError: the file cannot be read, or is damaged.
    """
    return _file(into).load(DispatchState.of)


def commit(into: str, plan: RebuildPlan, state: DispatchState) -> None:
    """Write the state. What it speaks of must be on disk.

    Raises:
        OSError: the disk refused; the old one stands.

    Durability: on return.
    """
    _file(into).save(asdict(state), plan.disk)


def _file(into: str) -> VersionedJson:
    path = state_path(into)

    def refused(error: Exception) -> StoreAccessError:
        return StoreAccessError(f"{path}: not a readable state ({type(error).__name__}); --anew makes everything again")

    return VersionedJson(path, ("format", FORMAT), refused, STATE_BYTES_MAX)


def check_shape(into: str, found: DispatchSettings, wanted: DispatchSettings, given: frozenset[str]) -> None:
    """Compare what the directory was made with and what this run was given.

    Args:
        into: the directory.
        found: its shape.
        wanted: of this run; sizes count only where their keys were given.
        given: names of the keys.

    Raises:
        ConfigError: they differ.
    """
    for name, key in SHAPE_KEYS.items():
        old, new = getattr(found, name), getattr(wanted, name)
        known_by_files = name in ("queue_file", "ext_file", "batch_file", "slots", "items")
        if new != old and (not known_by_files or key in given):
            raise ConfigError(f"{into} was made with {key} {old}, not {new}; give the same, or --anew to make it again")
