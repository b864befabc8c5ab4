"""`flintmq query`: the messages with a key, found through the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import Argument, option
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    SetOption,
    SinceOption,
    StoreArgument,
    TopicArgument,
    UntilOption,
    examples,
)
from flintmq.cli.output import output
from flintmq.cli.values import store_config, time_range

EPILOG = examples(
    "flintmq query /var/rocketmq/store Orders order-4711",
    "flintmq query /var/rocketmq/store Orders order-4711 --since -2d --json",
)


@dataclass(frozen=True)
class QueryWords(BodyWords):
    store: StoreArgument
    topic: TopicArgument
    key: Annotated[str, Argument("KEY", "A key, or a unique message id.", text=True)]
    since: SinceOption = None
    until: UntilOption = None
    limit: int = option("--limit -n N", "At most the N newest.", 64, min=1)
    decompress: DecompressOption = False
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: QueryWords) -> int:
    """Find messages by key.

    Prints the newest ones of a topic, in the order in which they were stored. Reads the index, and compares the key
    itself: RocketMQ compares hashes, and may return messages with another key. No message with the key is no error.
    Where damage in the log may hide one, stderr says so, and the exit code is 1. As in RocketMQ, maxMsgsNumBatch (64)
    bounds every answer; --set raises it.
    """
    import flintmq
    from flintmq.cli.incomplete import report_incomplete
    from flintmq.cli.message_lines import json_line, line
    from flintmq.forensics.topic_tail import must_have
    from flintmq.store.commitlog.report import Report

    (begin, end), report = time_range(words.since, words.until), Report()
    out, bodies, write = output(words.as_json), words.shown(words.decompress), json_line if words.as_json else line
    config = store_config(words.settings)
    most = config.max_msgs_num_batch
    with flintmq.open_store(words.store, config=config) as view:
        last = None if end is None else end - 1  # the view's range includes its end
        found = view.query(
            words.topic, words.key, begin=begin, end=last, limit=min(words.limit, most + 1), report=report
        )
        cut = len(found) - most  # 1: there are more
        del found[: max(cut, 0)]
        out.lines(write(message, bodies.of(message)) for message in found)
        incomplete = report_incomplete(out, view, report, "what may have the key")
        if not found and not incomplete and cut <= 0:
            must_have(view, [words.topic])
    if cut > 0:
        out.note(f"there are more than the {most} that maxMsgsNumBatch allows: raise it with --set maxMsgsNumBatch=N")
    elif not found:
        out.note(f"no {'readable ' if incomplete else ''}message of topic {words.topic} with key {words.key}")
    return max(incomplete, bodies.report_failures(out))
