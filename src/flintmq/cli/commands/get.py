"""`flintmq get`: the message at one offset of a queue."""

from __future__ import annotations

import sys
from typing import Annotated

from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    SetOption,
    StoreArgument,
    TopicArgument,
    examples,
    limit_option,
)
from flintmq.cli.output import output
from flintmq.cli.values import store_config
from flintmq.errors import MessageNotFoundError, UsageError

EPILOG = examples(
    "flintmq get /var/rocketmq/store Orders 0 42", "flintmq get /var/rocketmq/store Orders 0 42 --raw > body.bin"
)


def command(
    store: StoreArgument,
    topic: TopicArgument,
    queue_id: Annotated[int, Argument("QUEUE", "The queue's number.")],
    queue_offset: Annotated[int, Argument("OFFSET", "The message's place in the queue.", min=0)],
    bodies_as: BodyWords,
    raw: Annotated[
        bool, Option("--raw", "Write the body's bytes as they are, and nothing else. Not to a terminal.")
    ] = False,
    limit: Annotated[int, limit_option("The N messages from OFFSET on, one a line (1).")] = 1,
    decompress: DecompressOption = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the message at an offset of a queue.

    It prints all fields; of several messages a line each. Exit code 7 if the queue holds no message at that offset.
    """
    if raw and limit != 1:
        raise UsageError("--raw is for one message; leave --limit out")
    if raw and as_json:
        raise UsageError("--raw and --json exclude each other; --json holds the body in base64")
    if raw and bodies_as.keywords() != BodyWords().keywords():
        raise UsageError("--raw writes the body's bytes, which --body would decode; leave one of them out")
    if raw and sys.stdout.isatty():
        raise UsageError("--raw writes unescaped bytes, which can control a terminal; send them to a file or a program")
    import flintmq
    from flintmq.cli.incomplete import report_incomplete
    from flintmq.cli.message_lines import details, json_line, line
    from flintmq.config.text import short
    from flintmq.forensics.topic_tail import check_end, messages_from, must_have
    from flintmq.store.commitlog.report import Report

    with flintmq.open_store(store, config=store_config(settings)) as view:
        try:
            message = view.get(topic, queue_id, queue_offset)
        except MessageNotFoundError:
            check_end(view)  # a better error if the log's last files are missing,
            must_have(view, [topic])  # or if the topic is unknown
            raise
        out, bodies = output(as_json), bodies_as.shown(decompress)
        if limit != 1:
            report, write = Report(), json_line if as_json else line
            messages, _ = messages_from(view, topic, queue_id, queue_offset, limit, report)
            out.lines(write(message, bodies.of(message)) for message in messages)
            incomplete = report_incomplete(out, view, report, f"messages of queue {short(topic)}/{queue_id}")
            return max(incomplete, bodies.report_failures(out))
    body = bodies.of(message)
    if raw:
        out.write(body)
    else:
        out.lines([json_line(message, body)] if as_json else details(message, body))
    return bodies.report_failures(out)
