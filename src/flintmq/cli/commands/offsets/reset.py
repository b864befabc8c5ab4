"""`flintmq offsets reset`: a group to a time, or to an end of its queues."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.commands.offsets.changes import ChangeWords, GroupOption, change
from flintmq.cli.declare import Option
from flintmq.cli.options import LocalStoreArgument, TopicsOption, examples
from flintmq.cli.values import parse_time

EPILOG = examples(
    "flintmq offsets reset /var/rocketmq/store --group billing --to 2026-11-29T14:00 --dry-run",
    "flintmq offsets reset /var/rocketmq/store --group billing --topic Orders --to -1h",
)


def command(
    store: LocalStoreArgument,
    group: GroupOption,
    to: Annotated[
        str,
        Option(
            "--to TIME|first|last", "A store time: ISO 8601, ms since 1970, -15m. Or the first message, or the end."
        ),
    ],
    words: ChangeWords,
    topic: TopicsOption = None,
) -> int:
    """Move a group to a time, or to an end of its queues.

    For a stopped store. In each queue the group goes to the first message stored at TIME or later, by RocketMQ's own
    lookup; to the end if there is none. Without --topic these are the topics that it has an offset of. Its retry topics
    stay, unless --topic names them: messages that it gave back come as before. So do those that a pop consumer had
    taken and not acknowledged.
    """
    from flintmq.forensics.offset_changes import FIRST, LAST

    target = to if to in (FIRST, LAST) else parse_time("--to", to)
    return change(store, words, lambda offsets: offsets.reset(group, topic or (), target))
