"""The file `flintmq.follow` in a store's root: this store is a copy of a master's log.

JSON, replaced as a whole. A follower writes it before the first byte. A start that finds it knows that what follows the
last whole record is the beginning of a record that comes again. A store that is opened as a master notes there where
its log ended, so that a follower does not go on where others have written. RocketMQ does not know the file; what it
wrote, a follower finds when it compares.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from flintmq.errors import CorruptStoreError, FlintError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.versioned_json import VersionedJson, only, why

FILE_NAME = "flintmq.follow"
NOT_ASKED = "no broker was asked for its topics and where its queues go on (--config-from, --namesrv)"
BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Followed:
    """The content of the file.

    Attributes:
        mastered_at: log offset where the log ended when the store was first opened as a master since; None: it was not.
        cut_at: log offset at which the log is to be cut (`flintmq follow --resync`), until that is done; else None.
        unsure_from: log offset from which on bytes may have been lost with the power, where no checksum shows it, until
            they were compared with the master's; else None.
        lacks: why a RocketMQ, or our engine, that carries on here may not go on as the master would: the kind of a
            queue, its next offset, or messages that the master still has; None: it lacks nothing.
    """

    master: str  # address of the master's replication port, `host:port`
    begin: int  # log offset of the first file at the begin
    file_size: int
    chosen: str = "first"  # how the begin was chosen: "first", "last" or a log offset
    mastered_at: int | None = None
    cut_at: int | None = None
    unsure_from: int | None = None
    lacks: str | None = NOT_ASKED


def read(root: str, effects: Effects) -> Followed | None:
    return _file(root).load(_built, effects)


def write(root: str, followed: Followed, effects: Effects) -> None:
    """Replace the file. Durability: on return. Raises OSError: the old one is untouched then."""
    state = {
        "master": followed.master,
        "begin": followed.begin,
        "fileSize": followed.file_size,
        "from": followed.chosen,
        "masteredAt": followed.mastered_at,
        "cutAt": followed.cut_at,
        "unsureFrom": followed.unsure_from,
        "promotable": followed.lacks is None,
        "lacks": followed.lacks,
    }
    _file(root).save(state, effects)


def is_followed(root: str, effects: Effects) -> bool:
    return effects.size(os.path.join(root, FILE_NAME)) is not None


def note_master(root: str, end: int, effects: Effects) -> None:
    """Note that a followed store is opened as a master, with its log's end.

    Of a store that nobody followed nothing is noted.

    Durability: on return.
    """
    followed = read(root, effects)
    if followed is not None and followed.mastered_at is None:
        write(root, replace(followed, mastered_at=end), effects)


def note_unsure(root: str, offset: int, effects: Effects) -> None:
    """Note that a power cut came, and how far the log was certainly on disk.

    Call it before recovery changes anything, so that no later start takes the log for certain.

    Durability: on return.
    """
    followed = read(root, effects)
    if followed is not None and (followed.unsure_from is None or followed.unsure_from > offset):
        write(root, replace(followed, unsure_from=offset), effects)


def _file(root: str) -> VersionedJson:
    path = os.path.join(root, FILE_NAME)
    return VersionedJson(path, ("version", 1), lambda error: _refused(path, error), BYTES_MAX, {"indent": 1})


def _refused(path: str, error: Exception) -> FlintError:
    return CorruptStoreError(
        path,
        0,
        f"it cannot be understood ({why(error)})",
        "remove it, and follow with --adopt, which compares the logs",
    )


_KNOWN = ("master", "begin", "fileSize", "from", "masteredAt", "cutAt", "unsureFrom", "promotable", "lacks")


def _built(state: dict[str, Any]) -> Followed:
    only(state, _KNOWN)
    begin, size = state["begin"], state["fileSize"]
    mastered, cut, unsure = state.get("masteredAt"), state.get("cutAt"), state.get("unsureFrom")
    for number in (begin, size, mastered, cut, unsure):
        if number is not None and (not isinstance(number, int) or not 0 <= number < 1 << 63):
            raise ValueError(f"{number!r} is no log offset")
    lacks = state.get("lacks") or NOT_ASKED  # also of a file that an older version wrote
    lacks = None if state.get("promotable") is True else str(lacks)
    return Followed(str(state["master"]), begin, size, str(state.get("from", "first")), mastered, cut, unsure, lacks)
