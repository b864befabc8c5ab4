"""The findings of verify: defects, and notes, which are harmless.

A defect is a contradiction that no healthy store has, neither after a clean stop nor after a crash; it makes the exit
code 1. A note is worth reporting and harmless. Codes are stable and listed in `codes.py`, the source of
docs/operations/verify.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from flintmq.forensics.verify.codes import DEFECTS, NOTES
from flintmq.format.text import shorten_text

KEPT_DEFECTS = 10_000  # kept one by one; beyond that they are only counted
KEPT_NOTES = 1_000
TEXT_LIMIT = 200  # characters kept of expected, found, cost and of a note


@dataclass(frozen=True, slots=True)
class Defect:
    """One contradiction.

    Attributes:
        code: a key of codes.DEFECTS.
        file: path of the file that has it.
        position: byte position in that file; None for a whole file or directory.
        expected: the correct state.
        found: the present state.
        cost: the consequence for users of the store.
    """

    code: str
    file: str
    position: int | None
    expected: str
    found: str
    cost: str


@dataclass(frozen=True, slots=True)
class Note:
    """A harmless observation; `code` is a key of codes.NOTES."""

    code: str
    text: str
    file: str | None = None
    position: int | None = None


@dataclass
class Findings:
    """Collects defects and notes; keeps the first ones of each and counts all."""

    defects: list[Defect] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    defect_counts: Counter[str] = field(default_factory=Counter)
    note_counts: Counter[str] = field(default_factory=Counter)

    @property
    def defect_count(self) -> int:
        """All defects, including those that were not kept."""
        return self.defect_counts.total()

    def defect(self, code: str, file: str, position: int | None, expected: str, found: str) -> None:
        cost = DEFECTS[code].cost
        self.defect_counts[code] += 1
        if len(self.defects) < KEPT_DEFECTS:
            texts = (shorten_text(text, TEXT_LIMIT) for text in (expected, found, cost))
            self.defects.append(Defect(code, file, position, *texts))

    def note(self, code: str, text: str, file: str | None = None, position: int | None = None) -> None:
        assert code in NOTES, code
        self.note_counts[code] += 1
        if len(self.notes) < KEPT_NOTES:
            self.notes.append(Note(code, shorten_text(text, TEXT_LIMIT), file, position))

    def forget(self, *codes: str) -> None:
        self.notes[:] = [note for note in self.notes if note.code not in codes]
        for code in codes:
            self.note_counts.pop(code, None)
