"""`flintmq put`: store messages from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import JsonOption, SetOption, TopicArgument, examples
from flintmq.cli.output import output
from flintmq.cli.text import printable
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.message import PutResult

EPILOG = examples(
    "flintmq put /tmp/store Orders hello --tag paid --key order-1",
    "flintmq put /tmp/store Orders hello --set flushDiskType=SYNC_FLUSH --json",
)
LINES_AT_ONCE = 1000


def command(
    store: Annotated[
        str,
        Argument(metavar="STORE", show_default=False, help="The store's directory; created if missing."),
    ],
    topic: TopicArgument,
    body: Annotated[
        str | None,
        Argument(metavar="BODY", show_default=False, help="The body; without it, standard input.", may_be_empty=True),
    ] = None,
    queue_id: Annotated[int, Option("--queue", metavar="N", min=0, max=0x7FFFFFFF, help="The queue's number.")] = 0,
    tag: Annotated[str | None, Option("--tag", metavar="TAG", help="The message's tags.", text=True)] = None,
    key: Annotated[
        str | None, Option("--key", metavar="KEYS", help="Its keys, separated by spaces.", text=True)
    ] = None,
    lines: Annotated[bool, Option("--lines", help="Each line of standard input is a message.")] = False,
    no_unique_key: Annotated[bool, Option("--no-unique-key", help="Give messages no unique key (msg_id).")] = False,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Store messages in a store that no broker has open.

    The store is recovered first if it was not stopped cleanly, and stopped cleanly afterwards. Ends with exit code 3 at
    the first message that is not stored, and with 12 at the first that may be stored or not.
    """
    if lines and body is not None:
        raise UsageError("--lines reads standard input; leave BODY out")
    if body is None and sys.stdin is None:
        raise UsageError("standard input is closed; give BODY, or the messages by < FILE")
    import flintmq
    from flintmq.format.text import java_encode
    from flintmq.store.append.checks import topic_status
    from flintmq.store.layout.queue_name import refuse_other_encoding

    refuse_other_encoding(topic)
    if topic_status(topic, java_encode(topic)) is not None:  # before a store is created for it
        flintmq.message.refused(flintmq.PutRule.TOPIC).raise_for_status()
    out = output(as_json)
    with flintmq.MessageStore(store, config=store_config(settings), unique_keys=not no_unique_key) as opened:
        for bodies in _bodies(body, lines):
            messages = [flintmq.Message(topic, one, tags=tag, keys=key, queue_id=queue_id) for one in bodies]
            results = opened.put_many(messages, until_refused=True)
            out.lines([_json(r) if as_json else _line(r, topic, queue_id) for r in results])
            failed = next((r for r in results if r.outcome is not flintmq.Outcome.OK), None)
            if failed is not None:
                failed.raise_for_status()
    return 0


def _bodies(body: str | None, lines: bool) -> Iterator[list[bytes]]:
    """Yield groups of bodies to store together."""
    if body is not None:
        yield [os.fsencode(body)]
    elif not lines:
        yield [sys.stdin.buffer.read()]
    else:
        group: list[bytes] = []
        for line in sys.stdin.buffer:
            group.append(line.rstrip(b"\r\n"))
            if len(group) == LINES_AT_ONCE:
                yield group
                group = []
        if group:
            yield group


def _fields(result: PutResult) -> dict[str, Any]:
    return {
        "status": result.status.name,
        "outcome": result.outcome.value,
        "reason": None if result.reason is None else result.reason.id,
        "queue_offset": result.queue_offset,
        "physical_offset": result.physical_offset,
        "size": result.size,
        "store_timestamp": result.store_timestamp,
        "offset_msg_id": result.offset_msg_id,
        "msg_id": result.msg_id,
    }


def _json(result: PutResult) -> str:
    import json

    return json.dumps(_fields(result))


def _line(result: PutResult, topic: str, queue_id: int) -> str:
    if result.physical_offset < 0:
        return f"{result.status.name}  not stored"
    place = f"{printable(topic)}/{queue_id}/{result.queue_offset}"
    key = f"  msg_id {result.msg_id}" if result.msg_id else ""
    return f"{result.status.name}  {place}  @{result.physical_offset}  {result.size} B  {result.offset_msg_id}{key}"
