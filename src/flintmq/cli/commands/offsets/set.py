"""`flintmq offsets set`: one place of a group."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.commands.offsets.changes import ChangeWords, GroupOption, change
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import LocalStoreArgument, examples

EPILOG = examples(
    "flintmq offsets set /var/rocketmq/store 1200 --group billing --topic Orders --queue 3 --dry-run",
    "flintmq offsets set /var/rocketmq/store 1200 --group billing --topic Orders --queue 3",
)


def command(
    store: LocalStoreArgument,
    offset: Annotated[int, Argument("OFFSET", "Queue offset of the next message that the group shall get.")],
    group: GroupOption,
    topic: Annotated[str, Option("--topic T", "The topic.", text=True, topics=True)],
    queue: Annotated[int, Option("--queue N", "The queue's number.")],
    words: ChangeWords,
) -> int:
    """Set the place of a group in one queue.

    For a stopped store. The offset is one of the queue, or the one after its last message; any other is refused, with
    these bounds. Shows the place before and after.
    """
    from flintmq.forensics.offset_changes import Move

    return change(store, words, lambda _: [Move(group, topic, queue, offset)])
