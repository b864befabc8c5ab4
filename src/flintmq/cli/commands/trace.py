"""`flintmq trace`: what became of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.answers import SHOWN, cell, place, print_answer, when
from flintmq.cli.declare import Option
from flintmq.cli.options import (
    JsonOption,
    SetOption,
    SinceOption,
    StoresArgument,
    UntilOption,
    broker_conf_option,
    examples,
    limit_option,
    topics_option,
)
from flintmq.cli.output import output
from flintmq.cli.values import members_of, store_config, time_range
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.answers.trace import Retry, Trace

EPILOG = examples(
    "flintmq trace /var/rocketmq/store --key order-4711",
    "flintmq trace cluster.toml --topic Orders --since -15m --json",
)


def command(
    stores: StoresArgument,
    key: Annotated[str | None, Option("--key K", "Messages with this key or unique id.", text=True)] = None,
    id: Annotated[str | None, Option("--id ID", "By unique id, offset message id or transaction id.")] = None,
    property: Annotated[str | None, Option("--property NAME=VALUE", "Messages with this property.", text=True)] = None,
    topic: Annotated[str | None, topics_option("All messages of this topic, or those with the key in it.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, limit_option("At most N messages, those stored first.")] = SHOWN,
    config: Annotated[str | None, broker_conf_option("The broker's broker.conf: it says when logs expire.")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tell what became of a message.

    One row a message: where it is, and since when; whether it waited for a delay, a timer or its transaction; each
    retry of each group; dead letters; which groups have passed it by their committed offsets; and when retention will
    delete it. All records of the message that are in the stores count, in whatever topic of RocketMQ's own.

    One pass over the log, or with --topic and --key by the index, if that covers the log. `delivered` says that
    consumers can get it; a group with an offset after it has passed it, and may have given it back or filtered it out.
    Offsets are those on disk: a broker writes them every 5 s. Damage that may hide rows makes the exit code 1.
    """
    from flintmq.forensics.answers.collect import TraceAsked
    from flintmq.forensics.answers.trace import trace
    from flintmq.forensics.topic_tail import one_must_have

    pair = None
    if property is not None:
        name, sign, value = property.partition("=")
        if not (name and sign and value):
            raise UsageError(f"--property {property[:60]!a}: write NAME=VALUE")
        pair = name, value
    first, end = time_range(since, until)
    keys = store_config(settings, config)
    members = members_of(stores, keys, output(as_json))
    answer = trace(members, TraceAsked(key, id, pair, topic, first, end, limit), keys)
    if topic and not answer.rows and not answer.report.damage_count:
        one_must_have([member.path for member in members], [topic], keys)
    return print_answer(answer, as_json, _render, "no message matches; flintmq inspect shows the topics and times")


def _render(rows: list[Trace]) -> Iterator[str]:
    for row in rows:
        yield "\n".join(_lines(row))


def _lines(row: Trace) -> Iterator[str]:
    broker = f"  on {cell(row.broker)}" if row.broker else ""
    yield f"{place(row.topic, row.queue_id, row.queue_offset)}  {row.state}{broker}  key {cell(row.keys)}"
    yield f"  id       {cell(row.msg_id)}, {cell(row.offset_msg_id)}"
    if row.source and row.stored_ms != row.first_ms:
        yield f"  waited   for a {row.source} since {when(row.first_ms)}" + (
            f", due {when(row.due_ms)}" if row.due_ms is not None else ""
        )
    if row.asked:
        yield f"  asked    {row.asked} times"
    if row.stored_ms is not None:
        yield f"  stored   {when(row.stored_ms)}" + (f", by a {row.source}" if row.source else "")
    elif row.ended_ms is not None:
        yield f"  ended    {when(row.ended_ms)}"
    for retry in row.retries:
        yield f"  retry    {cell(retry.group)}: {_retry(retry)}"
    for letter in row.dead:
        where, times = place(letter.topic, letter.queue_id, letter.queue_offset), max(letter.times - 1, 0)
        yield f"  dead     {cell(letter.group)}: {when(letter.stored_ms)} after {times} retries, {where}"
    for passed, word in ((True, "passed"), (False, "not yet")):
        groups = [f"{cell(one.group)} (at {cell(one.offset)})" for one in row.groups if one.passed is passed]
        if groups:
            more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
            yield f"  {word:<8} {', '.join(groups[:SHOWN])}{more}"
    if row.delete_rule:
        yield f"  deleted  {'-' if row.delete_ms is None else when(row.delete_ms)}: {row.delete_rule}"


def _retry(one: Retry) -> str:
    parts = [f"retry {one.times}"]
    if one.waits_ms is not None:
        parts.append(f"given back {when(one.waits_ms)}")
    if one.stored_ms is None:
        parts.append(f"waits until {when(one.due_ms)}")
    else:
        parts.append(f"came again {when(one.stored_ms)}")
        parts.append("passed" if one.passed else "not passed yet")
    return ", ".join(parts)
