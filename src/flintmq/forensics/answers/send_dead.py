"""Sends dead letters to their first topic again, each once.

Each message that is put has a property that names its dead letter. The ledger is a file with a line for each batch that
is on disk: which dead letters, how far the log went then, and the last record, by which that log is known. A start
reads the ledger, and the log of the store from there on: what a kill left without a line is found by its property. Who
loses the ledger has the whole log searched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import islice
from typing import Any, Final

from flintmq.errors import UsageError
from flintmq.forensics.answers.reading import first_copy, queue_messages
from flintmq.forensics.answers.steps import step_of
from flintmq.format import properties
from flintmq.format.group_topics import dead_letter_topic, is_system_topic
from flintmq.format.record import TRANSACTION_MASK
from flintmq.message import Message, PutMessageStatus, StoredMessage, stored_message
from flintmq.storage.files.whole_file import new_file
from flintmq.store.commitlog.anchor import KnownLog, LogAnchor, anchor_at, why_lost
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.message_store import MessageStore
from flintmq.store.read.log_map import records_with
from flintmq.store.view import StoreView

MARK: Final = "FLINTMQ_DEAD_LETTER"
AT_ONCE: Final = 500
LINE_MAX: Final = 64 << 20
_OF_RETRIES: Final = (
    properties.RETRY_TOPIC, properties.ORIGIN_MESSAGE_ID, properties.DELAY, properties.REAL_TOPIC, properties.REAL_QID,
    properties.FIRST_POP_TIME, properties.POP_CK, properties.CRC32, properties.TRAN_MSG, properties.WAIT,
    properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS, properties.TIMER_OUT_MS,
    properties.TIMER_ENQUEUE_MS, properties.TIMER_DEQUEUE_MS, properties.TIMER_ROLL_TIMES,
)  # fmt: skip
"""Properties that would have the message wait, or count as a retry, once more."""


_NEVER: Final = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


@dataclass
class SentAgain:
    """Counts dead letters.

    `left_out`: they name no topic of users, or no put takes them.
    """

    sent: int = 0
    before: int = 0
    left_out: int = 0


class _Ledger:
    """The file, and what is sent by it and by the log of the store."""

    def __init__(self, path: str, store: MessageStore) -> None:
        self.path, self.store = path, store
        self.done, self.end = set[str](), store.min_physical_offset
        rows = _rows(path)
        for row in rows:
            self.done.update(row["sent"])
            self.end = max(self.end, row["end"])
        if why := self._why_lost(next((row["anchor"] for row in reversed(rows) if row["anchor"]), None)):
            raise UsageError(
                f"{path}: what it says was sent is not in {store.root}: {why}; bring that log back, or name a ledger "
                "that is not there yet, and what is not in the log is sent again"
            )
        if not rows:
            with new_file(path) as part:
                self._write(part, [])
        self._search()

    def _why_lost(self, anchor: Mapping[str, int] | None) -> str:
        log = KnownLog(list_log(self.store.root, self.store.config), self.store.max_physical_offset)
        return why_lost(log, LogAnchor(**anchor)) if anchor is not None else ""

    def _search(self) -> None:
        """Find what was put and has no line: a kill came between, or the ledger is a new one.

        It gets a line, as the next one ends after it.
        """
        found = dict[str, int]()
        with self.store.view() as view:
            snapshot = view._now.snapshot
            begin = first_record(snapshot.log, self.end)
            for piece in LogWalk(snapshot.log, snapshot.facts, begin, view.max_physical_offset):
                for at in records_with(re.compile(MARK.encode()), piece):
                    record = stored_message(piece.data, at)
                    if mark := record.properties.get(MARK):
                        found[mark] = record.physical_offset
        if found:
            self.sent(list(found), max(found.values()))

    def sent(self, marks: list[str], last: int | None = None) -> None:
        """Write a line. Durability: on return, and the messages were before.

        `last`: log offset of one of them, for the anchor.
        """
        self.done.update(marks)
        self._write(self.path, marks, last)

    def _write(self, path: str, marks: list[str], last: int | None = None) -> None:
        anchor = None if last is None else anchor_at(list_log(self.store.root, self.store.config), last)
        row = {
            "sent": marks, "end": self.store.max_physical_offset, "anchor": None if anchor is None else asdict(anchor)
        }  # fmt: skip
        with open(path, "a", encoding="ascii") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _rows(path: str) -> list[dict[str, Any]]:
    """Return the lines of a ledger; of a file that is not there, none.

    The last one may be cut off, by a kill. It is cut from the file then, once all others are known to be those of a
    ledger: any other file stays as it is.
    """
    rows, whole = list[dict[str, Any]](), 0
    try:
        with open(path, "rb") as file:
            while (line := file.readline(LINE_MAX)).endswith(b"\n"):
                rows.append(_row(line))
                whole += len(line)
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError):
        rows = []
    if not rows or not b'{"sent": '.startswith(line[:9]):
        raise UsageError(f"{path}: it is no ledger of `flintmq dead`; name one, or a file that is not there yet")
    if line:
        os.truncate(path, whole)
    return rows


def _row(line: bytes) -> dict[str, Any]:
    """Return a line. Raises ValueError, TypeError, KeyError: it is none of a ledger."""
    row = json.loads(line)
    numbers = [row["end"], *astuple(LogAnchor(**row["anchor"]))] if row["anchor"] is not None else [row["end"]]
    if any(type(one) is not int for one in numbers) or any(type(one) is not str for one in row["sent"]):
        raise TypeError
    return dict(row)


def send_dead(
    view: StoreView,
    groups: Sequence[str],
    into: MessageStore,
    ledger: str,
    limit: int | None = None,
    report: Report | None = None,
) -> SentAgain:
    """Put the dead letters of groups into a store, the oldest first.

    They go to their first topics and queues. They keep body, keys, tags, the sender's id, time and host, and lose what
    made them retries.

    Args:
        limit: at most so many are sent; None: all.
        report: receives the places of dead letters that cannot be read.

    Raises:
        UsageError: the ledger is of another log, or of one that was put back since; or no ledger.
        CorruptStoreError: damage in the log of `into`, from where the ledger ends on.
        PutFailedError, PutUnknownError: the store takes no more now. What is on disk is not sent twice.
        OSError: the ledger cannot be written.

    Durability: on return. After a kill the same call with the same ledger goes on.
    """
    found, known, report = SentAgain(), _Ledger(ledger, into), Report() if report is None else report
    letters = (
        letter for group in dict.fromkeys(groups) for queue in view.queues(dead_letter_topic(group))
        for letter in queue_messages(view, queue.topic, queue.queue_id, None, report)
    )  # fmt: skip
    wanted = islice(_unsent(view, letters, known, found), limit)
    while batch := list(islice(wanted, AT_ONCE)):
        results = into.put_many([message for _, message in batch])
        refused = [result for result in results if result.physical_offset < 0]
        found.left_out += len(refused)
        into.flush()
        marks = {
            mark: result.physical_offset
            for (mark, _), result in zip(batch, results, strict=True)
            if result.physical_offset >= 0
        }
        if marks:
            known.sent(list(marks), max(marks.values()))
        found.sent += len(marks)
        for result in refused:
            if result.status not in _NEVER:
                result.raise_for_status()
    return found


def _unsent(
    view: StoreView, letters: Iterator[StoredMessage], known: _Ledger, found: SentAgain
) -> Iterator[tuple[str, Message]]:
    for letter in letters:
        mark = f"{letter.offset_msg_id}-{letter.msg_id or ''}"
        message = _first(view, letter, mark)
        if mark in known.done:
            found.before += 1
        elif message is None:
            found.left_out += 1
        else:
            yield mark, message


def _first(view: StoreView, letter: StoredMessage, mark: str) -> Message | None:
    """Return the message to put for a dead letter; None if it names no topic of users."""
    step = step_of(letter)
    if step is None or step.topic in ("", letter.topic) or is_system_topic(step.topic):
        return None  # of RocketMQ's own topics no consumer gets it as what it is
    first = first_copy(view, step.origin)
    kept = {name: value for name, value in letter.properties.items() if name not in _OF_RETRIES}
    return Message(
        step.topic,
        letter.body,
        queue_id=first.queue_id if first else 0,
        flag=letter.flag,
        born_timestamp=letter.born_timestamp,
        sys_flag=letter.sys_flag & ~TRANSACTION_MASK,
        born_host=letter.born_host,
        properties_bytes=properties.encode({**kept, MARK: mark}),
    )
