"""`flintmq tail`: the newest messages of a topic, and new ones as they arrive."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.body_option import Bodies
from flintmq.cli.declare import Option
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
from flintmq.errors import NotAStoreError, UsageError
from flintmq.storage.stop_event import StopEvent
from flintmq.store.layout.directories import LOG

if TYPE_CHECKING:
    from flintmq.forensics.topic_tail import TopicTail
    from flintmq.message import StoredMessage

EPILOG = examples(
    "flintmq tail /var/rocketmq/store Orders --tag TagA --lines 3",
    "flintmq tail /var/rocketmq/store Orders --since -15m --follow --limit 0",
)
LINES = 10


class ReaderGone(StopEvent):
    """Set once the reader of our output has gone, noticed also while nothing is printed.

    Args:
        store: what is followed; a store that is gone is an error, as nothing would come any more.
    """

    def __init__(self, store: str) -> None:
        super().__init__()
        self._there = [path for path in (store, os.path.join(store, LOG)) if os.path.isdir(path)]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for that; return whether the reader has gone.

        Raises:
            NotAStoreError: the store is gone.
        """
        if gone := [path for path in self._there if not os.path.isdir(path)]:
            raise NotAStoreError(f"{gone[0]}: it is not there any more; bring it back (is its disk mounted?)")
        try:
            watched = select.poll()
            watched.register(sys.stdout.fileno(), 0)  # errors and hang-ups are reported anyway
        except (OSError, ValueError, AttributeError):  # no real file, as in a test, or a system without poll
            return super().wait(timeout)
        if watched.poll(None if timeout is None else timeout * 1000):
            self.set()
        return self.is_set()


def command(
    store: StoreArgument,
    topic: TopicArgument,
    begin: Annotated[
        str | None,
        Option(
            "--since",
            "--from",
            metavar="TIME",
            show_default=False,
            help="From the first one stored at TIME or later on, as RocketMQ finds it, instead of the newest.",
        ),
    ] = None,
    until: UntilOption = None,
    lines: Annotated[
        int | None,
        Option("--lines", "-n", metavar="N", min=0, show_default=False, help="Number of the newest messages (10)."),
    ] = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Continue with new messages until Ctrl-C (code 130).")
    ] = False,
    queue: QueuesOption = None,
    tag: TagOption = None,
    limit: Annotated[int | None, limit_option(help="Stop after N messages.")] = None,
    template: Annotated[str | None, template_option("A line of your own, as with scan.")] = None,
    decompress: DecompressOption = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the newest messages of a topic, or follow it.

    With --follow it continues with new messages as they arrive. The store may be in use by RocketMQ or FlintMQ. Prints
    one line a message, in the order of the log: time, queue and offset, log offset, size, tags, keys, the start of the
    body; with --json one object a line with exactly the keys of the schema. Light queues are topics of their own
    (%LMQ%...). --since bisects each queue by store time: where the clock was set back it may begin too late; `scan
    --since` has all. Where damage in the log may hide some, stderr says so, and the exit code is 1.
    """
    if begin is not None and lines is not None:
        raise UsageError("--since and --lines exclude each other; give a time, or a number of messages")
    if until is not None and (begin is None or follow):
        raise UsageError("--until goes with --since, and not with --follow; give both ends of the time")
    since, end = time_range(begin, until)
    import flintmq
    from flintmq.cli.incomplete import report_incomplete
    from flintmq.cli.template import message_writer
    from flintmq.forensics.topic_tail import TopicTail

    out, bodies, show = output(as_json), Bodies(decompress), message_writer(template, as_json)
    with flintmq.open_store(store, config=store_config(settings)) as view:
        gone = ReaderGone(view.root)
        tail = TopicTail(view, topic, queue, parse_tags(tag), expected=follow)
        first = tail.last(LINES if lines is None else lines) if since is None else tail.since(since, end)
        _report_gaps(tail, out, follow)
        shown = (show(message, bodies.of(message)) for message in islice(first, limit))
        incomplete = 0

        def more() -> Iterator[StoredMessage]:
            """Yield the stored messages, say what they may lack, and yield the coming ones."""
            nonlocal incomplete
            yield from first
            incomplete = report_incomplete(out, view, tail.report, f"messages of topic {topic}")
            yield from tail.coming(gone)

        if follow:
            shown = (show(message, bodies.of(message)) for message in islice(more(), limit))
            for line in shown:  # each at once, for a reader of the pipe
                out.lines([line])
        else:
            out.lines(shown)
            incomplete = report_incomplete(out, view, tail.report, f"messages of topic {topic}")
    return max(incomplete, bodies.report_failures(out))


def _report_gaps(tail: TopicTail, out: Output, follow: bool) -> None:
    if follow and not tail.queues:
        out.note(f"topic {tail.topic} has no messages here yet; waiting for the first")
    if not tail.complete:
        out.note("there may be more among the older messages, which were not read; --since TIME reaches further back")
