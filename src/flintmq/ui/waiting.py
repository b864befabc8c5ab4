"""What waits: for its time, for the end of its transaction, and among the dead letters of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from flintmq.cli.answers import SHOWN
from flintmq.cli.output import dumps
from flintmq.cli.text import size
from flintmq.cluster.member import ONLY, Member
from flintmq.errors import FlintError, MessageNotFoundError, UnfinishedError, UsageError
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.reading import bytes_for_queues
from flintmq.forensics.answers.timers import timers
from flintmq.forensics.answers.trace import HANGING
from flintmq.format.group_topics import OUTCOME_TOPIC
from flintmq.store.view import StoreView
from flintmq.ui.asked import Ask
from flintmq.ui.became import OUTCOMES_MAX, READ_MAX
from flintmq.ui.links import option
from flintmq.ui.page import UiPage, incomplete
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

LIMIT_MAX: Final = 1000
ROWS_SHOWN: Final = 1000
"""Of dead letters, which are limited by group."""
NOTES_SHOWN: Final = 20
TIMERS, HALVES, DEAD = "timers", "halves", "dead"


@dataclass
class WaitingPart:
    """The answer of one command, as a part of the page.

    Attributes:
        answer: None: `error` says why.
        rows: those shown, in the order of the page.
    """

    kind: str
    command: list[str]
    answer: Answer[Any] | None = None
    error: FlintError | None = None

    @property
    def rows(self) -> list[Any]:
        rows = self.answer.rows if self.answer else []
        return sorted(rows, key=lambda row: row.state != HANGING) if self.kind == HALVES else rows

    @property
    def by_group(self) -> list[tuple[str, list[Any]]]:
        """The newest rows, by group; each group's are in the order in which they were stored."""
        rows = sorted(self.rows[-ROWS_SHOWN:], key=lambda row: row.group)
        return [(group, list(found)) for group, found in groupby(rows, lambda row: row.group)]

    @property
    def notes(self) -> list[str]:
        """What the command says besides."""
        assert self.answer is not None
        found = self.answer.notes[:NOTES_SHOWN]
        if self.answer.report.damage_count:
            found.append("damage in the log may hide some, or how they ended: Health reads all of it")
        return found

    def lines(self) -> Iterator[str]:
        if self.answer is None:
            raise self.error or UnfinishedError("nothing was read")
        yield from map(dumps, self.answer.rows)
        if self.answer.report.damage_count:
            yield from incomplete(*self.notes)


def waiting(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show what waits: all three kinds, or one of them (`what`), at most `limit` of each."""
    assert one is not None
    what, limit, group = ask.text("what"), ask.number("limit", SHOWN, LIMIT_MAX), ask.text("group")
    if what not in ("", *KINDS):
        raise UsageError(f"what: {what[:60]!r} is none of {', '.join(KINDS)}")
    parts = [_part(one, kind, limit, group) for kind in ([what] if what else KINDS)]
    if what and isinstance(parts[0].error, MessageNotFoundError):
        raise parts[0].error
    words = {
        "sections": parts,
        "what": what,
        "group": group if what == DEAD else "",
        "limit": limit,
        "most": LIMIT_MAX,
        "rows_most": ROWS_SHOWN,
        "undelivered": [] if what else one.figures().content.undelivered,
    }

    def lines() -> Iterator[str]:
        for part in parts:
            yield from part.lines()

    command, *also = [part.command for part in parts]
    return UiPage("waiting.html", "Waiting", words, command, lines, tab="waiting", store=one, also=also)


def _part(one: OpenStore, kind: str, limit: int, group: str) -> WaitingPart:
    words = [*option("--group", group if kind == DEAD else ""), *option("--limit", limit if limit != SHOWN else None)]
    part = WaitingPart(kind, one.command(kind, options=words))
    try:
        if much := _too_much(one.view(), kind):
            raise UnfinishedError(f"not looked up here, as it takes reading {much}; the command has no limit")
        part.answer = KINDS[kind]([Member(one.path, ONLY)], one, limit, group)
    except FlintError as error:
        part.error = error
    return part


def _too_much(view: StoreView, kind: str) -> str:
    """Say what would be read, if that is more than a page reads."""
    if (read := bytes_for_queues(view)) > READ_MAX:
        return f"{size(read)} of the log, as queues lack their files"
    first, stop = view.bounds(OUTCOME_TOPIC, 0) if kind == HALVES else (0, 0)
    return f"{stop - first:,} outcomes of transactions" if stop - first > OUTCOMES_MAX else ""


KINDS: Mapping[str, Callable[[Sequence[Member], OpenStore, int, str], Answer[Any]]] = {
    TIMERS: lambda members, one, limit, _: timers(members, one.config, limit=limit),
    HALVES: lambda members, one, limit, _: halves(members, one.config, limit=limit),
    DEAD: lambda members, one, limit, group: dead(members, one.config, groups=[group] if group else None, limit=limit),
}
"""The commands, and what answers them."""
