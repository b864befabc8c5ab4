"""Collects damage and notes of a walk, besides its records.

Walkers report to an object instead of only logging, so that `verify` can print it, `salvage` count it and tests assert
it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

KEPT = 10_000  # findings kept; further ones are only counted
LOST = "lost"  # code of a note on messages, or on a store, that a lenient read goes on without
NOT_IN_STORES = "not-in-stores"  # code of the note on a broker that a table has rows of, and whose store is not read
OF_STREAM = "stream"  # code of the notes of a stream's plan: on brokers that are gone, and on topics not there yet
UNDECODED = "undecoded-body"  # code that counts bodies that are null in rows without the reason, in no note
VANISHED = "vanished"  # code of a note on a log file that was deleted while the log was read


class DamageKind(Enum):
    """Kind of damage, for programs; `Damage.reason` says it to people.

    RECORD: bytes that form no record. UNORDERED: the same, by unordered write-back. GAP: a file is missing, too short,
    or no regular file. END: the end of the log, or of a queue's files, is missing. DELETED: a file was deleted while
    the log was read.
    """

    RECORD = "record"
    UNORDERED = "unordered"
    GAP = "gap"
    END = "end"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the log without valid records that is followed by records.

    Attributes:
        file: path of the log file.
        position: byte position in the file where the walk stopped.
        offset: the same position as log offset.
        lost: bytes from there to the next valid record, or to the file's end.
        reason: the rule that is violated, for people.
        kind: for programs.
    """

    file: str
    position: int
    offset: int
    lost: int
    reason: str
    kind: DamageKind

    @property
    def end(self) -> int:
        """Log offset after it; at least one byte is damaged."""
        return self.offset + max(self.lost, 1)


@dataclass(frozen=True, slots=True)
class LogNote:
    """An observation that is no damage.

    Attributes:
        code: stable.
        text: for people.
        path: of the log file that it is about, where programs ask for it.
    """

    code: str
    text: str
    path: str | None = None


@dataclass
class Report:
    """Collects damage and notes. Keeps the first 10,000 of each and counts the rest.

    `undecoded` takes the log offsets of bodies that do not decompress, where the reader has a place for such
    bodies; None makes them an error, or a note.
    """

    damages: list[Damage] = field(default_factory=list)
    notes: list[LogNote] = field(default_factory=list)
    damage_count: int = 0
    lost_bytes: int = 0
    note_counts: Counter[str] = field(default_factory=Counter)
    undecoded: set[int] | None = None

    def damage(self, damage: Damage) -> None:
        """Add a damaged range."""
        self.damage_count += 1
        self.lost_bytes += damage.lost
        if len(self.damages) < KEPT:
            self.damages.append(damage)

    def note(self, code: str, text: str, path: str | None = None) -> None:
        """Add a note."""
        self.note_counts[code] += 1
        if len(self.notes) < KEPT:
            self.notes.append(LogNote(code, text, path))

    def vanished(self, path: str) -> None:
        """Note that a log file was deleted while the log was read."""
        self.note(VANISHED, f"{path} was deleted while the log was read", path)

    def texts(self, most: int = 3) -> dict[str, list[str]]:
        """Return the first texts of the notes by code, at most so many of each."""
        found: dict[str, list[str]] = {}
        for note in self.notes:
            kept = found.setdefault(note.code, [])
            if len(kept) < most:
                kept.append(note.text)
        return found

    def add(self, other: Report) -> None:
        """Add what another report has, after what is here."""
        self.damages += other.damages[: max(0, KEPT - len(self.damages))]
        self.notes += other.notes[: max(0, KEPT - len(self.notes))]
        self.damage_count += other.damage_count
        self.lost_bytes += other.lost_bytes
        self.note_counts += other.note_counts
