"""Summarizes a table of exports, for `flintmq inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flintmq.cli.lake.table_diff import holds_table
from flintmq.cli.output import dumps
from flintmq.cli.parser import need
from flintmq.cli.text import iso, printable, shorten_text, size
from flintmq.cli.values import stores_given
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.cli.output import Output
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.history.table_content import BrokerContent, TableContent

SHOWN = 100  # a person sees this many brokers, and notes
NAME_CHARS = 60


def inspect_table(
    out: Output, stores: Sequence[str], history: str | None, catalog: str | None, config: StoreConfig
) -> int | None:
    """Print the content of a table; return the exit code, or None if no table is named.

    `history`: the table of the stores; None: the only store may be one.
    """
    if history is None and catalog is not None:
        raise UsageError("--catalog is for --history, the directory of an Iceberg table")
    if history is None and (len(stores) > 1 or not holds_table(stores[0], config)):
        return None
    need("pyarrow", "arrow")
    from flintmq.lake.history.table_content import table_content

    given = None if history is None else stores_given(stores)
    found = table_content(history or stores[0], given, config, catalog=catalog)
    out.result(found, _render)
    return int(found.lacks)


def _render(found: TableContent) -> Iterator[str]:
    yield f"table    {printable(found.table)}: {found.format}, export {found.number} of {iso(found.made)}"
    yield f"messages {found.messages} in {found.files} file{'s' * (found.files != 1)}"
    if found.options:
        yield f"options  {printable(', '.join(f'{name} {dumps(value)}' for name, value in found.options.items()))}"
    for one in found.brokers[:SHOWN]:
        yield from _lines(one)
    if len(found.brokers) > SHOWN:
        yield f"and {len(found.brokers) - SHOWN} brokers more (--json shows all)"
    yield from (f"note     {printable(text)}" for text in found.notes[:SHOWN])


def _lines(one: BrokerContent) -> Iterator[str]:
    of = f" of {shorten_text(printable(one.broker), NAME_CHARS)}" if one.broker else ""
    times = " to ".join(iso(ms) for ms in (one.first_time, one.last_time) if ms is not None)
    span = f"offsets {one.begin} to {one.end}" if one.begin is not None else f"up to offset {one.end}"
    yield f"log      {span}{of}: {one.messages} messages{times and f', stored {times}'}"
    if one.unread:
        last = "" if one.log_time is None else f", up to {iso(one.log_time)}"
        yield f"waiting  {size(one.unread)} of log{of}{last}"
    if one.lost:
        yield f"lost     {size(one.lost)} of log{of} were deleted before an export had read them"
