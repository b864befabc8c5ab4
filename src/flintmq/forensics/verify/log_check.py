"""Checks the commit log itself: files, the walk's report, end-of-file records, odd text."""

from __future__ import annotations

import os

from flintmq.errors import StoreAccessError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.queue_files import report_stray
from flintmq.format.properties import INNER_MULTI_DISPATCH
from flintmq.format.record import BLANK, MAGIC_BLANK
from flintmq.format.record_view import HEAD_SIZE, magic_at
from flintmq.kernels.read import odd_text as kernel
from flintmq.message import stored_message
from flintmq.storage.files.filesystem import Effects
from flintmq.store.commitlog.files import LogFile, LogFiles, file_start
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.start_records import wrong_at
from flintmq.store.commitlog.walk import Piece

ODD_TEXTS = 20  # records with odd text that are reported one by one


class LogReport(Report):
    """Turns the walk's report into findings, and keeps the damaged ranges for later checks.

    The end of a walk (`end_of_log.Verdict`) becomes:

    END          no finding
    TORN_TAIL    note `torn-tail`
    STALE_TAIL   note `stale-tail`
    UNORDERED    defect `log-unordered`
    DAMAGE       defect `record-damaged`; `log-gap` if files are missing
    """

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground = ground

    def damage(self, damage: Damage) -> None:
        self.damage_count += 1
        self.lost_bytes += damage.lost
        self.ground.lost.add(damage.offset, damage.offset + damage.lost)
        if damage.kind is DamageKind.GAP:
            return  # check_files reports it
        if damage.kind is DamageKind.END:
            self.ground.findings.defect("log-gap", damage.file, None, "the log's next file", damage.reason)
            return
        code = "log-unordered" if damage.kind is DamageKind.UNORDERED else "record-damaged"
        found = f"{damage.reason}; {damage.lost} bytes without an intact record"
        expected = f"a record at log offset {damage.offset}"
        self.ground.findings.defect(code, damage.file, damage.position, expected, found)

    def note(self, code: str, text: str, path: str | None = None) -> None:
        """Report a note of the walker, whose codes have underscores."""
        self.note_counts[code] += 1
        self.ground.findings.note(code.replace("_", "-"), text)


def check_files(log: LogFiles, directories: list[str], findings: Findings, effects: Effects) -> None:
    """Check names and sizes of the log's files: one size, no gap, no overlap, no other files."""
    for path in log.doubled:
        findings.defect("log-gap", path, None, "one file of this name", "another in a second directory")
    due = log.min_offset
    for number, file in enumerate(log.files):
        last = number + 1 == len(log.files)
        if file.size == 0 and last:
            findings.note("empty-file", f"{file.path} is empty", file.path)
        elif file.size != log.file_size:
            findings.defect("log-file-size", file.path, None, f"{log.file_size} bytes", f"{file.size} bytes")
        if file.start != due:
            inside = ", inside the file before: one is too many" if file.start < due else ""
            found = f"name {file.start:020}{inside}"
            findings.defect("log-gap", file.path, None, f"name {due:020}", found)
        if file.start >= due:
            due = file.start + log.file_size
    for directory in directories:
        for name in effects.listdir(directory):
            path = os.path.join(directory, name)
            if file_start(name) is None:
                report_stray(path, effects.listdir(directory), "a log file", findings, effects)
            elif effects.size(path) is None and name in effects.listdir(directory):
                findings.defect("log-file-unreadable", path, None, "a regular file", "something else")


class LogCheck:
    """Checks every piece of a walk: end-of-file records between files, text that is not UTF-8."""

    def __init__(self, log: LogFiles, ground: Ground, multi_dispatch: bool = False) -> None:
        self.log, self.ground, self.findings = log, ground, ground.findings
        self.multi_dispatch = multi_dispatch
        self.records = 0
        self.end = log.min_offset  # log offset after the last one
        self.latest_time = 0  # the latest store time in ms, 0 without records
        self._file: LogFile | None = None
        self._odd = 0

    def take(self, piece: Piece) -> None:
        if self._file is not None and piece.file.start != self._file.start:
            self._blank(self._file)
        self._file = piece.file
        self.records += piece.count
        self.end = piece.base + piece.end
        at = 0
        while True:
            at, self.latest_time, what = kernel.scan(piece.data, piece.positions, at, piece.count, self.latest_time)
            if not what:
                return
            if what & kernel.ODD:
                self._odd_text(piece, at)
            if what & kernel.PARSED:
                self._start_fields(piece, at)
            at += 1

    def _odd_text(self, piece: Piece, at: int) -> None:
        self._odd += 1
        if self._odd <= ODD_TEXTS:
            offset = piece.base + piece.positions[at]
            topic = stored_message(piece.data, piece.positions[at]).topic
            text = f"log offset {offset}: topic {topic[:60]!r} or its properties are not UTF-8, or hold a NUL"
            self.findings.note("text-odd", text, piece.file.path, offset - piece.file.start)

    def _start_fields(self, piece: Piece, at: int) -> None:
        wrong = wrong_at(piece, at)
        if wrong is None:
            return
        offset, field = piece.base + piece.positions[at], wrong.field
        topic = stored_message(piece.data, piece.positions[at]).topic
        place, position = f"log offset {offset}, topic {topic[:60]!a}", offset - piece.file.start
        if field.beside == INNER_MULTI_DISPATCH and not self.multi_dispatch:
            text = f"{place}: {wrong}; with enableMultiDispatch RocketMQ would not start"
            self.findings.note("light-offsets", text, piece.file.path, position)
            return
        expected = f"{place}: {field.name}, {field.wanted}"
        self.findings.defect(field.effect, piece.file.path, position, expected, str(wrong))

    def _blank(self, file: LogFile) -> None:
        """Check the end-of-file record after the last record of a file, if there is one."""
        position = self.end - file.start
        head = head_at(self.log, file, position)
        if magic_at(head) != MAGIC_BLANK:
            return
        size = BLANK.unpack(head).size
        if size != file.size - position:
            self.findings.defect("blank-size", file.path, position, f"{file.size - position} bytes left", f"{size}")

    def finish(self) -> None:
        """Check the last file, after the walk."""
        if self._file is not None:
            self._blank(self._file)
        if self._odd > ODD_TEXTS:
            self.findings.note("text-odd", f"{self._odd - ODD_TEXTS} further records with odd text")


def check_spares(log: LogFiles, end: int, ground: Ground) -> None:
    """Note the files allocated after the log's end: RocketMQ has up to two while it runs."""
    for file in log.files:
        if file.start < end or file.start == log.min_offset:
            continue
        if head_at(log, file, 0) == bytes(HEAD_SIZE):
            ground.findings.note("spare-file", f"{file.path} holds nothing yet", file.path)
        elif file.size and file.start not in ground.lost:
            text = f"{file.path}: bytes after the log's end that are not a record"
            ground.findings.note("torn-tail", text, file.path)


def head_at(log: LogFiles, file: LogFile, position: int) -> bytes:
    """Read some bytes of a log file, fewer if it ends; none if it is unreadable."""
    try:
        with log.effects.reading(file.path) as fd:
            return log.effects.pread(fd, HEAD_SIZE, position)
    except (FileNotFoundError, StoreAccessError):
        return b""
