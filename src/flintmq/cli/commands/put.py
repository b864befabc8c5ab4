"""`flintmq put`: store messages from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Argument, flag, option
from flintmq.cli.options import JsonOption, SetOption, TopicArgument, examples
from flintmq.cli.output import output
from flintmq.cli.text import printable
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.message import PutResult

EPILOG = examples(
    "flintmq put /tmp/store Orders hello --tag paid --key order-1",
    "flintmq put /tmp/store Orders hello --set flushDiskType=SYNC_FLUSH --json",
)
PLACE = ("queue_offset", "physical_offset", "size", "store_timestamp", "offset_msg_id", "msg_id")
LINES_AT_ONCE = 1000
BLOCK = 1 << 20
"""Bytes of standard input that are taken at once, if so many are there."""


@dataclass(frozen=True)
class PutWords:
    store: Annotated[str, Argument("STORE", "The store's directory; created if missing.")]
    topic: TopicArgument
    body: Annotated[str | None, Argument("BODY", "The body; without it, standard input.", may_be_empty=True)] = None
    queue_id: int = option("--queue N", "The queue's number.", 0, min=0, max=0x7FFFFFFF)
    tag: str | None = option("--tag TAG", "The message's tags.", text=True)
    key: str | None = option("--key KEYS", "Its keys, separated by spaces.", text=True)
    lines: bool = flag("--lines", "Each line of standard input is a message.")
    no_unique_key: bool = flag("--no-unique-key", "Give messages no unique key (msg_id).")
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: PutWords) -> int:
    """Store messages in a store that no broker has open.

    The store is recovered first if it was not stopped cleanly, and stopped cleanly afterwards. With --lines each line
    is stored and acknowledged as it comes, also from a pipe that stays open; Ctrl-C and SIGTERM say how many were. Ends
    with exit code 3 at the first message that is not stored, and with 12 at the first that may be stored or not.
    """
    if words.lines and words.body is not None:
        raise UsageError("--lines reads standard input; leave BODY out")
    if words.body is None and sys.stdin is None:
        raise UsageError("standard input is closed; give BODY, or the messages by < FILE")
    out = output(words.as_json)
    import flintmq
    from flintmq.format.text import java_encode
    from flintmq.store.append.checks import topic_status
    from flintmq.store.layout.queue_name import refuse_other_encoding

    refuse_other_encoding(words.topic)
    if topic_status(words.topic, java_encode(words.topic)) is not None:  # before a store is created for it
        flintmq.message.refused(flintmq.PutRule.TOPIC).raise_for_status()
    config = store_config(words.settings)
    is_new = _is_new(words.store, config)
    groups = _line_groups() if words.lines else _one_body(words.body)
    try:
        first = next(groups, None)  # before a store is created for nothing
    except KeyboardInterrupt:
        out.note("stopped: no message stored")
        raise
    if first is None:
        out.note("standard input is empty: 0 messages stored")
        return 0
    with flintmq.MessageStore(words.store, config=config, unique_keys=not words.no_unique_key) as opened:
        if is_new:  # a misspelled path would be one, too
            out.note(f"made a new store in {words.store}")
        stored = going = 0
        try:
            for bodies in chain([first], groups):
                messages = [
                    flintmq.Message(words.topic, one, tags=words.tag, keys=words.key, queue_id=words.queue_id)
                    for one in bodies
                ]
                going = len(messages)
                results = opened.put_many(messages, until_refused=True)
                stored, going = stored + sum(r.outcome is flintmq.Outcome.OK for r in results), 0
                out.lines([_json(r) if words.as_json else _line(r, words.topic, words.queue_id) for r in results])
                failed = next((r for r in results if r.outcome is not flintmq.Outcome.OK), None)
                if failed is not None:
                    failed.raise_for_status()
        except KeyboardInterrupt:  # of any signal that ends a command
            maybe = f", and up to {going} more" if going else ""
            out.note(f"stopped: {stored} message{'s' * (stored != 1)} stored{maybe}; later input was not")
            raise
    return 0


def _is_new(path: str, config: StoreConfig) -> bool:
    """Return whether a store will be made at this path."""
    from flintmq.storage.files.store_url import local_only
    from flintmq.store.layout.directories import LOG
    from flintmq.store.layout.root_names import other_things

    root = local_only(path)
    if os.path.isfile(root) or os.path.isdir(os.path.join(root, LOG)) or config.store_path_commit_log.strip():
        return False
    if others := other_things(root):
        raise UsageError(
            f"{path}: no store, and holds other things ({others[0]!a}); give a store or an empty directory"
        )
    return True


def _one_body(given: str | None) -> Iterator[list[bytes]]:
    body = sys.stdin.buffer.read() if given is None else os.fsencode(given)
    if given is None and not body:
        raise UsageError("standard input is empty; give BODY ('' for an empty one), or the message by < FILE")
    yield [body]


def _line_groups() -> Iterator[list[bytes]]:
    """Yield groups of lines of standard input, without their ends, as soon as they are there."""
    begun: list[bytes] = []  # pieces of a line whose end did not come yet
    given: Any = sys.stdin.buffer
    while block := given.read1(BLOCK):  # what is there by now; it waits for the first byte only
        *lines, rest = block.split(b"\n")
        if lines:
            lines[0], begun = b"".join([*begun, lines[0]]), []
        if rest:
            begun.append(rest)
        for start in range(0, len(lines), LINES_AT_ONCE):
            yield [line.rstrip(b"\r") for line in lines[start : start + LINES_AT_ONCE]]
    if begun:
        yield [b"".join(begun).rstrip(b"\r")]


def _json(result: PutResult) -> str:
    import json

    reason = None if result.reason is None else result.reason.id
    told = {"status": result.status.name, "outcome": result.outcome.value, "reason": reason}
    return json.dumps({**told, **{name: getattr(result, name) for name in PLACE}})


def _line(result: PutResult, topic: str, queue_id: int) -> str:
    if result.physical_offset < 0:
        return f"{result.status.name}  not stored"
    place = f"{printable(topic)}/{queue_id}/{result.queue_offset}"
    key = f"  msg_id {result.msg_id}" if result.msg_id else ""
    return f"{result.status.name}  {place}  @{result.physical_offset}  {result.size} B  {result.offset_msg_id}{key}"
