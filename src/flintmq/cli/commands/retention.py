"""`flintmq retention explain`: what retention would delete, when, by which rule."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoreArgument, broker_conf_option, examples
from flintmq.cli.output import output
from flintmq.cli.terminal import TextTable
from flintmq.cli.text import duration, iso, printable, shorten_text, size
from flintmq.cli.values import parse_time, store_config

if TYPE_CHECKING:
    from flintmq.forensics.retention_plan import FileFate, RetentionPlan, Unread

EPILOG = examples(
    "flintmq retention explain /var/rocketmq/store --set fileReservedTime=48",
    "flintmq retention explain /var/rocketmq/store --at now --used 88 --json",
)
SHOWN = 20
"""A person sees this many files, and this many queues that lose unread messages."""
NAME_CHARS = 40


def command(
    store: StoreArgument,
    at: Annotated[str | None, Option("--at TIME", "Predict for TIME, with the present files.")] = None,
    used: Annotated[
        int | None, Option("--used PERCENT", "Predict for a disk that is PERCENT full.", min=0, max=100)
    ] = None,
    config: Annotated[str | None, broker_conf_option("The broker's configuration, broker.conf.")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict what would be deleted, when, and what is unread.

    It follows the rules of RocketMQ, which FlintMQ's engine follows too: log files older than fileReservedTime go in
    the hours of deleteWhen (local time), at any hour once the disk is fuller than diskMaxUsedSpaceRatio, and at any age
    above diskSpaceCleanForciblyRatio. Queues and index follow. These keys are the broker's, not the store's: give its
    broker.conf if it changes them. A topic that no group has committed an offset for has group "-". This command
    deletes nothing.
    """
    from flintmq.forensics.retention_plan import explain

    keys = store_config(settings, config)
    at_ms = None if at is None else parse_time("--at", at)
    plan = explain(store, keys, at_ms, used)
    output(as_json).result(plan, _render)
    return int(plan.damaged)


def _render(plan: RetentionPlan) -> Iterator[Any]:
    rules = plan.rules
    hours = ", ".join(f"{hour:02d}" for hour in rules["hours"]) or "none: never"
    if rules["no_hours"]:
        hours += f" ({printable(', '.join(map(repr, rules['no_hours'][:SHOWN])))}: no hour of the day)"
    force = f"above {rules['force_at']} % whatever its age" if rules["may_force"] else "never before it is old"
    yield f"store  {printable(plan.root)}"
    yield f"at     {_local(plan.at)}"
    yield f"rules  a file goes {rules['reserved_hours']} h after it was last written, in the hours {hours}, and at any"
    yield f"       hour above {rules['delete_at']} % of the disk; {force}; {rules['at_once']} at a time"
    yield f"disk   {plan.used} % used" + (": puts are refused" if plan.refuses_puts else "")
    yield (
        f"now    cleaning runs: {plan.now}"
        if plan.now
        else "now    no cleaning: not an hour of deleteWhen, and no lack of space"
    )
    yield _next(plan)
    yield ""
    yield _files(plan)
    if len(plan.files) > SHOWN:
        yield f"and {len(plan.files) - SHOWN} later files (--json shows all)"
    unread = sorted((row for row in plan.unread if row.unread), key=lambda row: (row.group is None, -row.unread))
    if unread:
        yield ""
        yield _groups(unread[:SHOWN])
        if len(unread) > SHOWN:
            yield f"and {len(unread) - SHOWN} queues with fewer (--json shows all)"
    elif plan.next_when is not None and not plan.unknown:
        yield (
            f"\nin the {plan.queues} queues that there are, every message in what goes next was consumed by every "
            "group that has an offset for its topic"
        )
    for text in (*plan.unknown, *(one.text for one in plan.undelivered)):
        yield f"note   {printable(text)}"


def _next(plan: RetentionPlan) -> str:
    if plan.next_when is None:
        return "next   nothing is due" + " of the files that are there" * plan.damaged
    goes = f"{plan.next_files} file{'s' * (plan.next_files != 1)} of the log ({size(plan.next_bytes)})"
    when = "now" if plan.next_when <= plan.at else f"{_local(plan.next_when)}, in {duration(plan.next_when - plan.at)}"
    follow = f"{plan.queue_files} of queues and {plan.index_files} of the index follow"
    return f"next   {when}: {goes};\n       {follow}; the log then begins at {plan.log_begin}"


def _local(ms: int) -> str:
    """Return a time in UTC and in local time, in which deleteWhen is given."""
    try:
        return f"{iso(ms)} ({datetime.fromtimestamp(ms / 1000).astimezone():%H:%M %Z})"
    except (OverflowError, ValueError, OSError):
        return iso(ms)


def _files(plan: RetentionPlan) -> Any:
    found = TextTable("file", "size>", "last written", "goes", "why")
    for fate in plan.files[:SHOWN]:
        written = "unknown" if fate.written is None else iso(fate.written)
        found.add_row(os.path.basename(fate.file), size(fate.size), written, _when(fate, plan), fate.rule)
    return found


def _when(fate: FileFate, plan: RetentionPlan) -> str:
    if fate.when is None:
        return "-"
    return "now" if fate.when <= plan.at else iso(fate.when)


def _groups(rows: list[Unread]) -> Any:
    found = TextTable("unread by group", "topic", "queue>", "committed>", "goes>", "of it unread>")
    for row in rows:
        group = "-" if row.group is None else shorten_text(printable(row.group), NAME_CHARS)
        numbers = ("none" if row.committed is None else str(row.committed), str(row.messages), str(row.unread))
        found.add_row(group, shorten_text(printable(row.topic), NAME_CHARS), str(row.queue_id), *numbers)
    return found
