"""`flintmq salvage`: what is left of a damaged store, in a store that a broker starts on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flintmq.cli.options import JsonOption, SetOption, StoreArgument, examples, store_config
from flintmq.cli.output import output
from flintmq.cli.rebuild import Peer, PeerOption
from flintmq.cli.text import printable, size
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.salvage import Salvaged

EPILOG = examples(
    "flintmq salvage /var/rocketmq/store --into /data/saved",
    "flintmq salvage /var/rocketmq/store --into /data/saved --json",
)


def command(
    store: StoreArgument,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="DIR", show_default=False, help="Write a new store here; it must not be there."),
    ] = None,
    peer: PeerOption = Peer.v533,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Save what damage has left of a store.

    --into writes every intact record into a new store, with new offsets in order; queues, index, configuration and
    committed offsets follow, and salvage.jsonl in it maps old to new and lists what was lost. The old store is only
    read. Stop the broker before.
    """
    if into is None:
        raise UsageError("say where the salvaged store goes: --into DIR")
    from flintmq.forensics.salvage import salvage_into

    out, config = output(as_json), store_config(settings)
    with out.progress("salvage") as progress:
        done = salvage_into(store, into, config, peer.value, progress)
    out.result(done, _salvaged)
    return 0


def _salvaged(done: Salvaged) -> Iterable[Any]:
    """What a salvage into a new store made, for people."""
    yield f"log      {done.records} records, {size(done.log_bytes)}"
    yield f"lost     {done.lost_ranges} damaged ranges, {size(done.lost_bytes)}"
    if done.dropped:
        yield f"dropped  {done.dropped} records that cannot be written anew"
    yield f"queues   {done.queues} with {done.units} units"
    yield f"index    {done.index_files} files with {done.keys} keys"
    yield f"offsets  {done.offsets} committed offsets were translated"
    for code, count in sorted(done.notes.items()):
        yield f"note     {code.replace('_', '-')} ({count}x)"
    yield f"result   {printable(done.into)}; old and new offsets: {printable(done.report)}"
