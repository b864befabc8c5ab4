"""`flintmq tail`: the newest messages of a topic, and new ones as they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.body_option import BodyWords
from flintmq.cli.declare import flag, option
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    QueuesOption,
    SetOption,
    StoreArgument,
    TagOption,
    TopicArgument,
    UntilOption,
    examples,
    limit_option,
    template_option,
)
from flintmq.cli.output import Output, output
from flintmq.cli.values import parse_tags, store_config, time_range
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.topic_tail import TopicTail
    from flintmq.message import StoredMessage

EPILOG = examples(
    "flintmq tail /var/rocketmq/store Orders --tag TagA --limit 3",
    "flintmq tail /var/rocketmq/store Orders --since -15m --follow --limit 0",
)
LINES = 10


@dataclass(frozen=True)
class TailWords(BodyWords):
    store: StoreArgument
    topic: TopicArgument
    begin: str | None = option(
        "--since TIME",
        "From the first one stored at TIME or later on, as RocketMQ finds it, instead of the newest.",
        old=("--from",),
    )
    until: UntilOption = None
    limit: Annotated[
        int | None,
        limit_option("The N newest messages (10); with --since the first N, then it ends.", old=("--lines",)),
    ] = None
    follow: bool = flag("--follow -f", "Continue with new messages until Ctrl-C (code 130).")
    queue: QueuesOption = None
    tag: TagOption = None
    template: Annotated[str | None, template_option("A line of your own, as with scan.")] = None
    decompress: DecompressOption = False
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: TailWords) -> int:
    """Show the newest messages of a topic, or follow it.

    With --follow it continues with new messages as they arrive. The store may be in use by RocketMQ or FlintMQ. Prints
    one line a message, in the order of the log: time, queue and offset, log offset, size, tags, keys, the start of the
    body; with --json one object a line with exactly the keys of the schema. Light queues are topics of their own
    (%LMQ%...). --since bisects each queue by store time: where the clock was set back it may begin too late; `scan
    --since` has all. Where damage in the log may hide some, stderr says so, and the exit code is 1.
    """
    if words.until is not None and (words.begin is None or words.follow):
        raise UsageError("--until goes with --since, and not with --follow; give both ends of the time")
    since, end = time_range(words.begin, words.until)
    import flintmq
    from flintmq.cli.incomplete import report_incomplete
    from flintmq.cli.reader_gone import ReaderGone
    from flintmq.cli.template import message_writer
    from flintmq.forensics.topic_tail import TopicTail

    out, bodies = output(words.as_json), words.shown(words.decompress)
    show = message_writer(words.template, words.as_json)
    with flintmq.open_store(words.store, config=store_config(words.settings)) as view:
        gone = ReaderGone(view.root)
        tail = TopicTail(view, words.topic, words.queue, parse_tags(words.tag), expected=words.follow)
        if since is None:
            newest, limit = LINES if words.limit is None else words.limit, None
            first: Iterable[StoredMessage] = tail.last(newest)
        else:
            limit, first = words.limit, tail.since(since, end)
        _report_gaps(tail, out, words.follow)
        shown = (show(message, bodies.of(message)) for message in islice(first, limit))
        incomplete = 0

        def more() -> Iterator[StoredMessage]:
            """Yield the stored messages, say what they may lack, and yield the coming ones."""
            nonlocal incomplete
            yield from first
            incomplete = report_incomplete(out, view, tail.report, f"messages of topic {words.topic}")
            yield from tail.coming(gone)

        if words.follow:
            shown = (show(message, bodies.of(message)) for message in islice(more(), limit))
            for line in shown:  # each at once, for a reader of the pipe
                out.lines([line])
        else:
            begin = list(islice(shown, 1))
            out.lines(chain(begin, shown))
            if not begin and words.limit != 0:
                out.note(f"no such message of topic {words.topic} is there; flintmq inspect shows the topics and times")
            incomplete = report_incomplete(out, view, tail.report, f"messages of topic {words.topic}")
    return max(incomplete, bodies.report_failures(out))


def _report_gaps(tail: TopicTail, out: Output, follow: bool) -> None:
    if follow and not tail.queues:
        out.note(f"topic {tail.topic} has no messages here yet; waiting for the first")
    if not tail.complete:
        out.note("there may be more among the older messages, which were not read; --since TIME reaches further back")
