"""`flintmq offsets import`: places of groups from a file."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.commands.offsets.changes import ChangeWords, ClampOption, change
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import LocalStoreArgument, examples

EPILOG = examples(
    "flintmq offsets import /var/rocketmq/store offsets.json --dry-run",
    "flintmq offsets import /data/moved/store offsets.json --broker broker-a --create",
)


def command(
    store: LocalStoreArgument,
    file: Annotated[str, Argument("FILE", "A file that `flintmq offsets export` wrote.")],
    words: ChangeWords,
    broker: Annotated[
        str | None, Option("--broker NAME", "Of a file of several stores: this broker's.", text=True)
    ] = None,
    clamp: ClampOption = False,
) -> int:
    """Set the places of groups as a file has them.

    For a stopped store. All of the file is taken, or nothing of it: an unknown key, topic, queue or group, or an offset
    outside of its queue refuses it. Places that the file does not have stay.
    """
    from flintmq.forensics.offset_file import read_moves

    moves = read_moves(file, broker)
    return change(store, words, lambda _: moves, clamp=clamp)
