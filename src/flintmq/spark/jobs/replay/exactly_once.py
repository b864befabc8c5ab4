"""Puts messages into a store in a known order, each exactly once, whatever crashes.

The store's file `flintmq.puts` records for each writer id (a replay, a streaming query) its progress and where the log
ended then. It is written before the first put and after each flush, so messages that a writer has put since then are
in the log after that place, in the order of its source, without a gap. The next run compares its next messages with
these records: a message that it finds, in that order, has already been put. Others may have put messages in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError
from flintmq.format import properties
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult, StoredMessage, stored_message
from flintmq.spark.jobs.replay.rows import LEAST_MS, Records
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.store.commitlog.anchor import KnownLog, LogAnchor, anchor_at, why_lost
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.message_store import MessageStore

FILE_NAME = "flintmq.puts"
FORMAT = 2  # 1, of FlintMQ 0.1, did not name the writer, nor a record of the log
BYTES_MAX = 64 << 20
UNREADABLE = (
    "not readable ({}); it records the messages that were put: restore it from a backup, or remove it if they may be "
    "put again"
)
# Keys of a writer's record: of all, of a replay (live.Position), and of a batch of the sink.
KNOWN = frozenset(
    (
        *("log_end", "running", "anchor"),
        *("after", "rows"),
        *("batch", "files", "skip", "checkpoint", "bad", "bad_path", "stuck"),
    )
)
_BY_STORE = (properties.CRC32, properties.INNER_MULTI_QUEUE_OFFSET)  # properties that a store itself adds


class WriterIds:
    """The file `flintmq.puts` of a store. Change it only with the store's lock held."""

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, FILE_NAME)
        style = {"ensure_ascii": False, "indent": 1}
        refused = unreadable(self.path, UNREADABLE)
        self._file = VersionedJson(self.path, ("format", FORMAT), refused, BYTES_MAX, style, older=(1,))
        self._givers: dict[str, dict[str, Any]] = self._file.load(_checked, REAL) or {}

    def get(self, writer_id: str) -> dict[str, Any] | None:
        return self._givers.get(writer_id)

    def of(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the last records of all writers whose ids begin with this prefix."""
        return {name: value for name, value in self._givers.items() if name.startswith(prefix)}

    def check(self, writer_id: str, end: int, config: StoreConfig) -> None:
        """Check that the store's log still has what a writer has put, as far as that can be seen.

        Raises StoreError: the log was put back to an earlier copy, or replaced, and this file was not.
        """
        value, why = self.get(writer_id) or {}, ""
        if value.get("anchor") is not None:
            root = os.path.dirname(self.path)
            why = why_lost(KnownLog(list_log(root, config), end), LogAnchor(**value["anchor"]))
        elif value and not value["running"] and value["log_end"] > end:
            why = f"the log ends at offset {end}, before {value['log_end']}: it was put back, or replaced"
        if why:
            raise StoreError(
                f"{self.path}: {writer_id} put messages that the log has no more: {why}; bring that log back, or put "
                "all of them again: into a new store, or into this one without this file"
            )

    def set(self, writer_id: str, value: dict[str, Any] | None) -> None:
        """Write the progress of a writer; None removes it.

        Durability: on return. Raises OSError: the old file is untouched then.
        """
        self._write({**self._givers, writer_id: value})

    def rename(self, writer_id: str, name: str, value: dict[str, Any]) -> None:
        """Rename a writer, and write its progress, in one step.

        Durability: on return. Raises OSError: the old file is untouched then.
        """
        self._write({**self._givers, writer_id: None, name: value})

    def _write(self, givers: dict[str, dict[str, Any] | None]) -> None:
        self._givers = {name: each for name, each in givers.items() if each is not None}
        self._file.save({"givers": self._givers})


def noted(root: str, config: StoreConfig, physical_offset: int | None) -> dict[str, int] | None:
    """Return the anchor of the last record that a writer put, as the file has it.

    `physical_offset`: of the record; None: there is none yet.
    """
    found = None if physical_offset is None else anchor_at(list_log(root, config), physical_offset)
    return None if found is None else asdict(found)


def _checked(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    for giver in only(value, ("givers",))["givers"].values():
        only(giver, KNOWN)
        only(giver.get("anchor") or {}, LogAnchor.__dataclass_fields__)
    return dict(value["givers"])


class WriterTail:
    """The records after a place in a store's log, some of which a writer may have put.

    Raises StoreError: (in the first call of `holds`) the records at `begin` have expired.
    """

    def __init__(self, root: str, begin: int, end: int, config: StoreConfig) -> None:
        self.root, self.begin, self.end, self.config = root, begin, end, config
        self._records: Iterator[StoredMessage] | None = self._read() if begin < end else None

    @property
    def over(self) -> bool:
        """True after a message was missing: then all later ones are missing, too."""
        return self._records is None

    @property
    def expired(self) -> str:
        """Why the records at `begin` can no longer be read; empty if they can."""
        if self.begin >= self.end or (first := list_log(self.root, self.config).min_offset) <= self.begin:
            return ""
        return (
            f"the log begins at offset {first}, and the messages put were after offset {self.begin}; they have "
            "expired, so it is not known which messages are in the store"
        )

    def holds(self, message: Message) -> bool:
        """Return whether the writer's next message is in the log, after the one of the last call."""
        for found in self._records or ():
            if is_same(message, found):
                return True
        # Rows are put in order, so after one that is missing none can be there.
        self._records = None
        return False

    def _read(self) -> Iterator[StoredMessage]:
        if expired := self.expired:
            raise StoreError(f"{self.root}: {expired}: use a new directory")
        log = list_log(self.root, self.config)
        for piece in LogWalk(log, begin=self.begin, end=self.end):
            for at in piece.positions[: piece.count]:
                yield stored_message(piece.data, at)


def is_same(message: Message, found: StoredMessage) -> bool:
    """Return whether a record is the result of a put of this message."""
    if (message.topic, message.queue_id, message.flag) != (found.topic, found.queue_id, found.flag):
        return False
    if message.body != found.body or message.born_timestamp not in (None, found.born_timestamp):
        return False
    given = properties.parse_bytes(message.properties_bytes or b"")
    pairs = (given, found.properties)
    ours, theirs = ({k: v for k, v in each.items() if k not in _BY_STORE} for each in pairs)
    return ours == theirs


def alike(message: Message, other: Message) -> bool:
    """Return whether two messages are the same row, except for the unique key.

    A unique key may be made anew in each attempt.
    """
    ours, theirs = (
        {k: v for k, v in properties.parse_bytes(each.properties_bytes or b"").items() if k != properties.UNIQ_KEY}
        for each in (message, other)
    )
    names = ("topic", "queue_id", "body", "flag", "born_timestamp")
    return ours == theirs and all(getattr(message, name) == getattr(other, name) for name in names)


def messages_of(batch: pa.RecordBatch) -> list[Message]:
    records = Records(batch)
    data, begins, ends = records.properties
    pairs = [bytes(data[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    born = [None if time == LEAST_MS else time for time in records.born_times.tolist()]
    texts = [batch.column(name).to_pylist() for name in ("topic", "body", "born_host")]
    numbers = ("queue_id", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset")
    columns = [*texts, *(batch.column(name).fill_null(0).to_pylist() for name in numbers)]
    return [
        Message(
            topic,
            body,
            queue_id=queue_id,
            flag=flag,
            sys_flag=sys_flag,
            reconsume_times=reconsumed,
            prepared_transaction_offset=prepared,
            properties_bytes=text,
            born_timestamp=time,
            born_host=host,
        )
        for topic, body, host, queue_id, flag, sys_flag, reconsumed, prepared, text, time in zip(
            *columns, pairs, born, strict=True
        )
    ]


_BY_RULE = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)  # a retry cannot help


def put_all(store: MessageStore, messages: list[Message], what: Iterable[str]) -> PutResult:
    """Put messages in order, and return the result of the last.

    Raises StoreError: a message was not stored, or may not be; those before it are stored, none after it was tried.
    """
    assert messages  # there is a last one
    # A replay copies delivered messages; rows of a sink that ask for a timer are refused before they are staged.
    results = store.put_many(messages, until_refused=True, delivered=True)
    for result, name in zip(results, what, strict=False):
        if result.status is not PutMessageStatus.PUT_OK:
            why = f": {result.reason.text}" if result.reason is not None else ""
            again = (
                "" if result.outcome is Outcome.FAILED and result.status in _BY_RULE else "; then run the same again"
            )
            raise StoreError(f"{store.root}: {name}: {result.status.name}{why}{again}")
    assert len(results) == len(messages)
    return results[-1]
