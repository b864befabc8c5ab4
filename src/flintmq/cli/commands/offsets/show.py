"""`flintmq offsets show`: how far each group has consumed each queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.commands.offsets.changes import NAME_CHARS
from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, TopicsOption, examples
from flintmq.cli.output import dumps, output
from flintmq.cli.terminal import TextTable
from flintmq.cli.text import iso, printable, shorten_text
from flintmq.cli.values import store_config, stores_given

if TYPE_CHECKING:
    from flintmq.cluster.member import Member
    from flintmq.forensics.group_offsets import GroupOffset

EPILOG = examples(
    "flintmq offsets show /var/rocketmq/store",
    "flintmq offsets show /var/rocketmq/store --group billing --topic Orders --json",
)
GroupsOption = Annotated[list[str] | None, Option("--group G", "Only this group. May be repeated.", text=True)]


def command(
    stores: StoresArgument,
    group: GroupsOption = None,
    topic: TopicsOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show how far each group has consumed each queue.

    A line has the queue offset of the next message that the group wants, the queue's first offset and the one after its
    last, the number of unread messages (lag), and when the oldest of them was stored. Only committed offsets are there:
    a queue of which a group has none has no line, and consumers of broadcasts keep theirs themselves. It reads only,
    also from a store that a broker writes. The exit code is 1 if the places are not known, or the end of the log or of
    a queue is damaged or missing.
    """
    from flintmq.errors import UnknownTopicError, UsageError
    from flintmq.forensics.group_offsets import each_store, group_offsets, known_topics
    from flintmq.store.layout.config_reader import LMQ_OFFSETS, OFFSETS
    from flintmq.store.read.known_topics import no_topic

    out, notes = output(as_json), list[str]()
    found: list[tuple[Member, list[GroupOffset]]] = []
    groups, topics, damaged = set[str](), set[str](), False
    for member, lookup in each_store(stores_given(stores), store_config(settings), notes):
        rows, more, is_cut = group_offsets(lookup, group or (), topic or ())
        damaged = damaged or is_cut or bool(lookup.snapshot.broker.problems_of(OFFSETS, LMQ_OFFSETS))
        found.append((member, rows))
        notes += more
        broker = lookup.snapshot.broker
        groups |= {str(name) for name in broker.groups} | {row[0] for row in broker.committed()}
        topics |= {row[1] for row in broker.committed()} | (known_topics(lookup) if topic else set())
    where = found[0][0].path if not found[1:] else f"{len(found)} stores"
    for name in (name for name in group or () if name not in groups):
        raise UsageError(no_topic(where, name, sorted(groups), "group"))
    for name in (name for name in topic or () if name not in topics):
        raise UnknownTopicError(no_topic(where, name, sorted(topics)))
    if as_json:
        out.lines(dumps({**member.words, **asdict(row)}) for member, rows in found for row in rows)
    elif any(rows for _, rows in found):
        out.result(found, _render)
    for text in notes:
        out.note(text)
    if not any(rows for _, rows in found):
        known = " of these" * bool(group or topic) + ", as far as can be read" * damaged
        out.note(f"no group has committed an offset{known}")
    return int(damaged)


def _render(found: Sequence[tuple[Member, list[GroupOffset]]]) -> Iterator[Any]:
    several = bool(found[0][0].broker)
    columns = ("group", "topic", "queue>", "offset>", "first>", "end>", "lag>", "oldest unread", "")
    table = TextTable(*["broker"] * several, *columns)
    for member, rows in found:
        for row in rows:
            names = (shorten_text(printable(name), NAME_CHARS) for name in (member.broker, row.group, row.topic))
            oldest = "" if not row.lag else "unknown" if row.oldest_ms is None else iso(row.oldest_ms)
            numbers = map(str, (row.queue_id, row.offset, row.min_offset, row.max_offset, row.lag))
            table.add_row(*list(names)[not several :], *numbers, oldest, _remark(row))
    yield table


def _remark(row: GroupOffset) -> str:
    if row.offset > row.max_offset:
        return "beyond the end"
    if row.offset < row.min_offset:
        return f"{row.min_offset - max(row.offset, 0)} gone unread"
    return ""
