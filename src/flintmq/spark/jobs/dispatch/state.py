"""Stores the committed state of a dispatch job in one small JSON file.

    INTO/.flintmq-dispatch/state.json

The file is replaced as a whole, after everything that it describes is on disk. Everything below INTO that it does not
describe belongs to an unfinished round; the next start truncates or removes it.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from flintmq.errors import ConfigError
from flintmq.forensics.rebuild import RebuildPlan
from flintmq.storage.files.dispatch_lock import FOLDER
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.store.commitlog.anchor import LogAnchor
from flintmq.store.consumequeue.writer import WriterState
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import SIZE_KEYS

FORMAT = 2  # 1, of FlintMQ 0.1, did not name the writer
STATE_BYTES_MAX = 1 << 30  # about 60 bytes a queue
SHAPE_KEYS = {
    "queue_file": SIZE_KEYS[directories.QUEUES],
    "ext_file": SIZE_KEYS[directories.EXT_QUEUES],
    "batch_file": SIZE_KEYS[directories.BATCH_QUEUES],
    "slots": "maxHashSlotNum",
    "items": "maxIndexNum",
    "index": "messageIndexEnable",
    "light_queues": "enableLmq",
    "peer": "peer",
    "delay_ms": "messageDelayLevel",
}


@dataclass(frozen=True)
class DispatchSettings:
    """The settings that all rounds of a directory share."""

    queue_file: int  # queue_file, ext_file, batch_file: bytes of these files; ext_file 0 without ext queues
    ext_file: int
    batch_file: int
    slots: int
    items: int
    index: bool
    light_queues: bool  # whether LMQs are dispatched (enableLmq and enableMultiDispatch)
    peer: str
    delay_ms: tuple[int, ...]  # milliseconds of each delay level

    @classmethod
    def of(cls, plan: RebuildPlan) -> DispatchSettings:
        rules = plan.rules
        sizes = plan.sizes.queue_file, plan.sizes.ext_file, plan.sizes.batch_file, plan.sizes.slots, plan.sizes.items
        return cls(*sizes, rules.index, rules.light_queues, rules.peer, rules.delay_ms)


@dataclass
class IndexState:
    """The committed index files.

    Attributes:
        begin, skip: log offset of the record of the first key in that last file, and how many keys of this record are
            in the file before.
        empty: name of a file after them that has no key yet (RocketMQ makes it with the record that follows a full
            file); None for none.
    """

    names: list[str] = field(default_factory=list)
    keys: int = 0  # number of keys in the last file if it has room, else 0
    begin: int = 0
    skip: int = 0
    before: tuple[int, int] = (0, 0)  # log offset and store time of the last key before that file
    end: tuple[int, int] = (0, 0)  # log offset and store time of the last key
    empty: str | None = None


@dataclass
class DispatchState:
    """The committed state.

    Attributes:
        queues: path of a queue below consumequeue/ -> state of its writer.
        batches: path of a queue below batchconsumequeue/ -> end of its last unit in bytes.
    """

    shape: DispatchSettings
    position: int  # log offset up to which everything is dispatched
    log_begin: int  # first offset of the log at that time
    last: tuple[int, int] = (-1, 0)  # log offset and store time of the last record; offset -1 for none
    anchor: LogAnchor | None = None
    clean: bool = False  # the job stopped by itself: nothing was written that is not described here
    queues: dict[str, WriterState] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    index: IndexState = field(default_factory=IndexState)

    @classmethod
    def of(cls, value: dict[str, Any]) -> DispatchState:
        shape, index, anchor = value["shape"], value["index"], value["anchor"]
        for each, kind in ((value, cls), (shape, DispatchSettings), (index, IndexState), (anchor or {}, LogAnchor)):
            only(each, kind.__dataclass_fields__)
        made: dict[str, Any] = {
            "shape": DispatchSettings(**{**shape, "delay_ms": tuple(shape["delay_ms"])}),
            "last": tuple(value["last"]),
            "anchor": None if anchor is None else LogAnchor(**anchor),
            "queues": {path: WriterState(*row) for path, row in value["queues"].items()},
            "index": IndexState(**{**index, "before": tuple(index["before"]), "end": tuple(index["end"])}),
        }
        return cls(**{**value, **made})


def state_path(into: str) -> str:
    return os.path.join(into, FOLDER, "state.json")


def load(into: str) -> DispatchState | None:
    return _file(into).load(DispatchState.of)


def commit(into: str, plan: RebuildPlan, state: DispatchState) -> None:
    """Replace the state. Everything that it describes must be on disk.

    Durability: on return. Raises OSError: the write failed; the old state remains.
    """
    _file(into).save(asdict(state), plan.disk)


def _file(into: str) -> VersionedJson:
    refused = unreadable(state_path(into), "not a readable state ({}); --anew makes everything again")
    return VersionedJson(state_path(into), ("format", FORMAT), refused, STATE_BYTES_MAX, older=(1,))


def check_shape(into: str, found: DispatchSettings, wanted: DispatchSettings, given: frozenset[str]) -> None:
    """Compare the settings of the directory with those of this run.

    `wanted`: settings of this run; sizes count only if their keys were given.
    """
    for name, key in SHAPE_KEYS.items():
        old, new = getattr(found, name), getattr(wanted, name)
        known_by_files = name in ("queue_file", "ext_file", "batch_file", "slots", "items")
        if new != old and (not known_by_files or key in given):
            raise ConfigError(f"{into} was made with {key} {old}, not {new}; give the same, or --anew to make it again")
