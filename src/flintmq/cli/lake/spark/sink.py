"""`flintmq spark sink`: lists the queries and replays that put into a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, LocalStoreArgument, examples
from flintmq.cli.output import output
from flintmq.cli.text import printable, size

if TYPE_CHECKING:
    from flintmq.spark.sink.listing import RecordedPuts, RecordedWriter

EPILOG = examples(
    "flintmq spark sink /var/rocketmq/store",
    "flintmq spark sink /var/rocketmq/store --forget 5f1c2f0e-5a0e-4b4e-9b0a-0f6a3a1f2b77",
)


def command(
    store: LocalStoreArgument,
    forget: Annotated[str | None, Option("--forget QUERY", "Drop the record of this query (as listed).")] = None,
    as_json: JsonOption = False,
) -> int:
    """List the queries and replays that put messages into a store.

    The sink records each batch in the store's file flintmq.puts, so that its rows are stored once. A batch that cannot
    be finished is stuck: it ends its own query at each start, and this command ends with exit code 1. --forget drops
    the record of a query: the rows of the batch that are in the store stay, and all of its rows are put if it runs
    again.
    """
    from flintmq.spark.sink import listing

    out = output(as_json)
    if forget is not None:
        out.result(listing.forget(store, forget), _forgotten)
        return 0
    found = listing.read_puts(store)
    out.result(found.as_dict() if as_json else found, _render)
    return 1 if any(giver.state == listing.STUCK for giver in found.givers) else 0


def _render(found: RecordedPuts) -> Iterator[Any]:
    if not found.givers:
        yield "no query or replay has put anything"
    for giver in found.givers:
        where = f"batch {giver.batch}" if giver.batch is not None else f"{giver.rows or 0} messages"
        more = f", {giver.staged_files} staged files, {size(giver.staged_bytes)}" if giver.staged_files else ""
        yield f"{giver.state:<8}{printable(giver.query)}  {where}{more}"
        if giver.checkpoint:
            yield f"        checkpoint {printable(giver.checkpoint)}"
        if giver.why:
            yield f"        {printable(giver.why)}"
    if found.unowned_files:
        yield f"staged  {found.unowned_files} files, {size(found.unowned_bytes)}, of jobs that run or died"


def _forgotten(giver: RecordedWriter) -> Iterator[Any]:
    yield f"forgot  {printable(giver.query)}"
    if giver.state == "done":
        yield "WARNING its last batch is put again if Spark runs it again"
    else:
        yield (
            f"WARNING what of its batch is in the store stays there (after log offset {giver.log_end}); if the batch "
            "runs again, those rows are there twice"
        )
