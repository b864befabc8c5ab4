"""What a walk found besides records: damage and notes.

Walkers tell a report instead of only logging, so that `verify` can print it, `salvage` count it and tests assert it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

KEPT = 10_000  # findings kept one by one; beyond that they are only counted


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the log that holds no record that counts although records follow.

    Attributes:
        file: path of the log file.
        position: byte position in it where the walk stopped.
        offset: the same place as log offset.
        lost: bytes from there to the next record that counts, or to the file's end.
        reason: what does not hold.
    """

    file: str
    position: int
    offset: int
    lost: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogNote:
    """Something worth telling that is no damage. `code` is stable, `text` is for people."""

    code: str
    text: str


@dataclass
class Report:
    """Collects damage and notes. Keeps the first 10,000 of each and counts the rest."""

    damages: list[Damage] = field(default_factory=list)
    notes: list[LogNote] = field(default_factory=list)
    damage_count: int = 0
    lost_bytes: int = 0
    note_counts: Counter[str] = field(default_factory=Counter)

    def damage(self, damage: Damage) -> None:
        """Take a damaged range."""
        self.damage_count += 1
        self.lost_bytes += damage.lost
        if len(self.damages) < KEPT:
            self.damages.append(damage)

    def note(self, code: str, text: str) -> None:
        """Take a note."""
        self.note_counts[code] += 1
        if len(self.notes) < KEPT:
            self.notes.append(LogNote(code, text))
