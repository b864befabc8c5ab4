"""What is wrong with an answer about a store of the matrix, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from flintmq.errors import FlintError
from flintmq.format import record
from tests.robustness.hostile.commands import exit_codes, stamps
from tests.robustness.matrix import truth
from tests.robustness.matrix.stores import Case
from tests.robustness.matrix.truth import Row

ALLOWED_EXITS = exit_codes()


class Answer(NamedTuple):
    """What a cell found: rows (None where it gives none), and what it said of trouble ("" for nothing)."""

    rows: list[Row] | None
    told: str = ""


@dataclass
class Subject:
    """A store that was made, and everything that cells need to ask about it.

    Attributes:
        name, case: its line of the table.
        path: the store, which no cell may change.
        work: a directory for what cells write.
    """

    name: str
    case: Case
    path: Path
    work: Path
    _number: list[int] = field(default_factory=list)

    @cached_property
    def records(self) -> list[record.Record]:
        """Every record by the slow codec."""
        return truth.records(self.path)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of all records, in log order."""
        return [truth.row_of(found) for found in self.records]

    @cached_property
    def queued(self) -> list[Row]:
        """The rows of all records that have a unit."""
        return [truth.row_of(found) for found in self.records if truth.has_unit(found)]

    @cached_property
    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Everything in the store with size, time and inode, as it was when first asked."""
        return stamps(self.path)

    def fresh(self) -> list[Row]:
        """The rows of all records as they are now: of a store that somebody writes."""
        return truth.rows(self.path)

    def new(self, name: str) -> Path:
        """A path below `work` that nobody has used."""
        self._number.append(1)
        return self.work / f"{len(self._number)}-{name}"


def wrong_rows(subject: Subject, kind: str, answer: Answer) -> list[str]:
    """Rows that are lost, doubled, altered or hidden without a word.

    Args:
        kind: "log": strict and by the log; "lenient": by the log, past damage; "queues": by consume queues.
    """
    if answer.rows is None:
        return [] if answer.told or subject.case.state == "sound" else ["damage that nobody told"]
    wanted = Counter(subject.queued if kind == "queues" else subject.rows)
    found = Counter(answer.rows)
    lost, more = wanted - found, found - wanted
    state = subject.case.state
    wrong = [f"{more.total()} rows that are not there, as {next(iter(more))}"] if more else []
    if lost and not (answer.told and (state == "hole" or (state == "derived" and kind == "queues"))):
        wrong.append(
            f"{lost.total()} of {wanted.total()} rows lost, as {next(iter(lost))}; told: {answer.told[-200:]!r}"
        )
    if lost and state == "hole" and kind == "lenient":
        wrong.append(f"{lost.total()} rows behind the hole are not given, as {next(iter(lost))}")
    if state == "sound" and answer.told:
        wrong.append(f"a sound store, and it says {answer.told[-300:]!r}")
    if state == "hole" and kind in ("log", "lenient") and not answer.told:
        wrong.append("records below the durable mark are missing, and nothing was said")
    return wrong


def wrong_while_written(answer: Answer, earlier: list[Row], later: list[Row]) -> list[str]:
    """What is wrong with rows of a store that was written meanwhile: lost since before, or not there even now."""
    found = Counter(answer.rows or ())
    lost, more = Counter(earlier) - found, found - Counter(later)
    wrong = [f"{more.total()} rows that are not there, as {next(iter(more))}"] if more else []
    wrong += [f"{lost.total()} rows lost that stood there before, as {next(iter(lost))}"] if lost else []
    return wrong + ([f"a store that is written, and it says {answer.told[-300:]!r}"] if answer.told else [])


def is_ours(error: BaseException) -> bool:
    """Whether an error is one of FlintMQ's own, which callers are meant to see."""
    return isinstance(error, FlintError)
