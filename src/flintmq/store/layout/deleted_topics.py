"""The file `flintmq.deleted`: deleted topics, whose earlier records count for nothing.

A topic that is deleted leaves its records in the log. RocketMQ makes units of them again when a start reads the log
from before the deletion, and gives a topic that was made again its old messages (upstream defect D36). So FlintMQ notes
where the log ended: a record of the topic before that place, stored until then, gets no unit. RocketMQ does not know
the file.

A file that cannot be understood is refused by who makes units (a start, a rebuild, a salvage in place): old messages
that came into a queue could not be taken out again. Who only reads goes on without it, and says so as of a file of
config/ (`commitlog/snapshot.py`); for `flintmq verify` it is a defect.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from flintmq.errors import CorruptStoreError, StoreAccessError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.versioned_json import VersionedJson, only, why

FILE_NAME = "flintmq.deleted"
FORMAT = 1
LARGEST = 64 << 20  # bytes that are read


class Deletion(NamedTuple):
    """One deleted topic.

    Attributes:
        offset: log offset; no record of the topic before it counts.
        time: store time in ms of the last record before that. A younger record is of a log that was truncated since.
        done: False while settings, offsets or queues of the topic may be there yet.
    """

    offset: int
    time: int
    done: bool = True

    def covers(self, physical_offset: int, store_time: int) -> bool:
        """Return whether a record of the topic is one of those that were deleted."""
        return physical_offset < self.offset and store_time <= self.time


Deletions = Mapping[bytes, Deletion]  # by raw topic
NONE: Deletions = {}


def read(root: str, effects: Effects) -> Deletions:
    """Read the file; empty if there is none.

    Raises:
        CorruptStoreError: it cannot be understood.
        UnsupportedFormatError: a newer FlintMQ wrote it.
    """
    data = effects.read_file(os.path.join(root, FILE_NAME), LARGEST + 1)
    return NONE if data is None else _file(root).parse(data, _built)


def readable(root: str, effects: Effects) -> tuple[Deletions, str]:
    """Return what a reader goes by, and why it does without the file; "" if it does not.

    Raises UnsupportedFormatError: a newer FlintMQ wrote the file.
    """
    try:
        return read(root, effects), ""
    except CorruptStoreError as error:
        return NONE, error.reason
    except (StoreAccessError, OSError) as error:
        return NONE, str(error)


def write(root: str, deletions: Deletions, effects: Effects) -> None:
    """Replace the file, or remove it if nothing is deleted.

    Durability: on return. Raises OSError: the old file is untouched then.
    """
    if deletions:
        rows = [[os.fsdecode(topic), *one] for topic, one in sorted(deletions.items())]
        _file(root).save({"topics": rows}, effects)
    elif effects.size(os.path.join(root, FILE_NAME)) is not None:
        effects.unlink(os.path.join(root, FILE_NAME))
        effects.sync_dir(root)


def within(deletions: Deletions, log_begin: int, log_end: int) -> Deletions:
    """Return what still says something of a log with these bounds."""
    cut = {topic: one._replace(offset=min(one.offset, log_end)) for topic, one in deletions.items()}
    return {topic: one for topic, one in cut.items() if one.offset > log_begin or not one.done}


def _built(state: dict[str, Any]) -> Deletions:
    return dict(map(_entry, only(state, ("topics",))["topics"]))


def _entry(row: Iterable[object]) -> tuple[bytes, Deletion]:
    topic, offset, time, done = row
    if not (isinstance(topic, str) and type(offset) is int and type(time) is int and isinstance(done, bool)):
        raise ValueError("a row has members of another type")
    return os.fsencode(topic), Deletion(offset, time, done)


def _file(root: str) -> VersionedJson:
    path = os.path.join(root, FILE_NAME)
    return VersionedJson(path, ("format", FORMAT), lambda error: _refused(path, error), LARGEST)


def _refused(path: str, error: Exception) -> CorruptStoreError:
    advice = "bring it back from a backup, or move it away: then deleted topics may get their messages back"
    return CorruptStoreError(path, 0, f"it cannot be understood ({why(error)})", advice)
