"""The result of a question about messages: rows, and what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, fields
from importlib import import_module
from typing import Any, Generic, TypeVar

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.view import StoreView, open_store
from flintmq.tabular import Tabular

Row = TypeVar("Row")


@dataclass
class Answer(Tabular, Generic[Row]):
    """Rows of one dataclass.

    Attributes:
        kind: the class of the rows. Its fields that end in `_ms` are times: Unix time in ms.
        is_cut: there are more rows than were asked for.
        counts: numbers of all, also of those that are no rows, by name.
        notes: what cannot be known here, one line each.
        report: damage of the logs that may hide rows.
    """

    kind: type[Row]
    rows: list[Row] = field(default_factory=list)
    is_cut: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    def _table(self, columns: Sequence[str] | None) -> Any:
        return import_module("flintmq.arrow.answers").table(self.rows, self.kind, columns)

    def _shown(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        names = [one.name for one in fields(self.kind)]  # type: ignore[arg-type]  # a dataclass
        return names, (astuple(row) for row in self.rows)  # type: ignore[call-overload]

    def count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def lost(self, text: str) -> None:
        """Note damage that hides rows."""
        self.report.damage_count += 1
        self.note(text)

    def note_end(self, snapshot: Snapshot) -> None:
        """Note that the end of a log is missing or damaged, as rows may be."""
        try:
            snapshot.check_end()
        except CorruptStoreError as error:
            self.lost(f"{error.file}, position {error.position}: {error.reason}; run `flintmq verify`")


def each_view(
    members: Sequence[Member], config: StoreConfig | None, answer: Answer[Any]
) -> Iterator[tuple[Member, StoreView]]:
    """Yield each store, opened, and note what its log lacks once its rows are there."""
    with ExitStack() as stack:
        for member, view in zip(members, opened(members, config, stack), strict=True):
            yield member, view
            answer.note_end(view._now.snapshot)


def opened(members: Sequence[Member], config: StoreConfig | None, stack: ExitStack) -> list[StoreView]:
    """Open all stores before the first is read: of one that cannot be, the caller hears at once."""
    return [stack.enter_context(open_store(member.path, config=config or StoreConfig())) for member in members]


def member_words(member: Member) -> tuple[str, str]:
    """Return the broker's name and the path of a store; two empty texts of an only one."""
    return (member.broker, member.path) if member.broker else ("", "")
