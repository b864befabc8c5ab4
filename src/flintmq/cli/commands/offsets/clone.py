"""`flintmq offsets clone`: the places of one group, for another."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.commands.offsets.changes import ChangeWords, ClampOption, change
from flintmq.cli.declare import Option
from flintmq.cli.options import LocalStoreArgument, TopicsOption, examples

EPILOG = examples(
    "flintmq offsets clone /var/rocketmq/store --from billing --into billing2 --create",
    "flintmq offsets clone /var/rocketmq/store --from billing --into audit --topic Orders --dry-run",
)


def command(
    store: LocalStoreArgument,
    source: Annotated[str, Option("--from G", "The group whose places are taken.", text=True)],
    into: Annotated[str, Option("--into G", "The group that gets them.", text=True)],
    words: ChangeWords,
    topic: TopicsOption = None,
    clamp: ClampOption = False,
) -> int:
    """Give a group the places of another one.

    For a stopped store. Without --topic these are all topics that are there, but the retry topics of the first group:
    they are that group's own. Places of the second group in other queues stay.
    """
    return change(store, words, lambda offsets: offsets.clone(source, into, topic or ()), clamp=clamp)
