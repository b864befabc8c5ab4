"""Export: what a table of exports holds, how far it is, and what differs between it and its stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flintmq import hooks
from flintmq.cli.commands.diff import json_lines
from flintmq.cli.output import dumps
from flintmq.cli.values import stores_given
from flintmq.errors import MessageNotFoundError, UnfinishedError, UsageError, without_secrets
from flintmq.ui.asked import Ask
from flintmq.ui.background import AGAIN_S, BackgroundCheck, acted, current
from flintmq.ui.links import command_of, option
from flintmq.ui.page import UiPage
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.ui.app import Ui

BROKERS_SHOWN = 200
RUNS_SHOWN = 100


@dataclass(frozen=True)
class NamedTable:
    """The table that a server was given.

    `stores`: the words that name its stores; those found may have other names elsewhere.
    """

    path: str
    catalog: str | None
    stores: Sequence[str]
    config: StoreConfig

    def content(self) -> Any:
        load = hooks.load("table_content")
        return load(self.path, stores_given(self.stores), self.config, catalog=self.catalog)


class TableCheck(BackgroundCheck[Any]):
    """One comparison of the table with its stores, as `flintmq diff` does it."""

    def __init__(self, table: NamedTable, stores: Sequence[OpenStore]) -> None:
        self.table = table
        super().__init__(stores)

    def work(self) -> Any:
        one = self.table
        compare = hooks.load("compare_table")
        return compare(stores_given(one.stores), one.path, one.config, catalog=one.catalog, progress=self.note)

    def note(self, done: int, total: int) -> None:
        super().note(done, total)
        if self.stop.is_set():
            raise UnfinishedError(f"the comparison was stopped after {done} of {total} parts of the logs")


def export(ui: Ui, _: OpenStore | None, ask: Ask) -> UiPage:
    table, check = _named(ui), current(ui.comparison)
    try:
        content = table.content()
    except UsageError as error:  # it was there at the start
        raise MessageNotFoundError(str(error)) from error
    found, running = (None, False) if check is None else (check.found, check.running)
    words = {
        "content": content,
        "path": without_secrets(table.path),
        "check": check,
        "replaced": check is not ui.comparison,
        "found": found,
        "most": BROKERS_SHOWN,
        "runs_most": RUNS_SHOWN,
    }

    def lines() -> Iterator[str]:
        yield dumps(content)
        if found is not None:
            yield from json_lines(found)
        elif check is not None:
            yield dumps(check.progress)

    catalog = option("--catalog", table.catalog)
    command = command_of("inspect", *table.stores, options=[*option("--history", table.path), *catalog])
    # `diff` takes a pattern, and no list.
    compare = [command_of("diff", *table.stores, table.path, options=catalog)] if len(table.stores) == 1 else []
    only, again = ui.stores.all[0] if len(ui.stores) == 1 else None, AGAIN_S * running
    return UiPage("export.html", "Export", words, command, lines, tab="export", store=only, again_s=again, also=compare)


def act(ui: Ui, action: str) -> None:
    """Begin or stop a comparison.

    Raises UsageError: as acted.
    """
    table = _named(ui)
    ui.comparison = acted(action, current(ui.comparison), lambda: TableCheck(table, ui.stores.all), ui.all_checks)


def _named(ui: Ui) -> NamedTable:
    if ui.table is None:
        raise MessageNotFoundError("no table was named; start this page with --history TABLE")
    return ui.table
