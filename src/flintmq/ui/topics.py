"""Topics, one topic with its queues, and the messages of one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintmq.cli.message_lines import json_line
from flintmq.config.text import closest, short
from flintmq.errors import FlintError, MessageNotFoundError
from flintmq.forensics.topic_tail import TopicTail, messages_from, must_have
from flintmq.format.consume_queue import Unit
from flintmq.message import StoredMessage
from flintmq.store.commitlog.report import Damage, Report
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.view import QueueInfo, StoreView
from flintmq.ui import rates
from flintmq.ui.asked import Ask
from flintmq.ui.links import link
from flintmq.ui.overview import inspect_lines
from flintmq.ui.page import UiPage, incomplete, places_lost, visible
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

TOPICS_SHOWN = 500
QUEUES_SHOWN = 256
NEWEST = 10
MESSAGES_SHOWN = 50
GROUPS_DRAWN = 24
ALL_TOPICS = "all topics"


class Nearest(MessageNotFoundError):
    """A place that is gone or never was, and the nearest one that is there: its words and its address."""

    def __init__(self, text: str, words: str = "", href: str = "") -> None:
        super().__init__(text)
        self.words, self.href = words, href


@dataclass(frozen=True)
class GroupMark:
    """The committed offset of a group in a queue, and where that is between its ends, from 0 to 1000."""

    group: str
    offset: int
    lag: int
    x: int


def topics(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """List the topics; `q` is a part of their names, `sort` the column."""
    assert one is not None
    content, text, by = one.figures().content, ask.text("q"), ask.text("sort", "messages")
    found = [topic for topic in content.topics if text.lower() in topic.name.lower()]
    if by == "name":
        found.sort(key=lambda topic: topic.name)
    elif by == "queues":
        found.sort(key=lambda topic: (-len(topic.queues), topic.name))
    else:
        found.sort(key=lambda topic: (-topic.messages, topic.name))
    words = {"topics": found, "all": len(content.topics), "q": text, "most": TOPICS_SHOWN}
    return UiPage("topics.html", "Topics", words, one.command("inspect"), inspect_lines([one]), tab="topics", store=one)


def topic(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show a topic: its queues and their skew, rates, groups, first and newest messages."""
    assert one is not None
    view, name = one.view(), ask.needed("name")
    queues = queues_of(one, view, name)
    tail = TopicTail(view, name, expected=True)
    newest = tail.last(NEWEST)
    figures = one.figures()
    words = {
        "queues": queues,
        "kind": queues[0].type if queues else "",
        "messages": sum(queue.max_offset - queue.min_offset for queue in queues),
        "largest": max((queue.max_offset - queue.min_offset for queue in queues), default=0),
        "chart": rates.topic_chart(view, queues),
        "newest": rows_of(newest, tail.report)[::-1],
        "passed": passed_over(one, newest),
        "first": _first(view, queues),
        "lags": sorted((lag for lag in figures.lags if lag.topic == name), key=lambda lag: -lag.messages),
        "at_ms": figures.at_ms,
        "most": QUEUES_SHOWN,
        "lost": tail.report.damage_count,
    }
    command = one.command("tail", name, options=["--limit", str(NEWEST)])
    return UiPage("topic.html", name, words, command, json_lines(newest, tail.report), tab="topics", store=one)


def queue(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show messages of a queue from an offset or a time on; without either the newest."""
    assert one is not None
    view, name, number = one.view(), ask.needed("topic"), ask.number("queue", most=(1 << 31) - 1)
    known = queues_of(one, view, name)
    info = next((queue for queue in known if queue.queue_id == number), None)
    if info is None:
        text = f"topic {short(name)} has no queue {number}"
        raise Nearest(text, "its queues", link(one.number, "topic", name=name))
    at, last = ask.time("time"), max(info.max_offset - MESSAGES_SHOWN, info.min_offset)
    offset = ask.number("offset", last) if at is None else view.offset_at_time(name, number, at)
    report = Report()
    begin = max(min(offset, info.max_offset - 1), info.min_offset)
    messages, following = messages_from(view, name, number, begin, MESSAGES_SHOWN, report)
    words = {
        "info": info,
        "topic": name,
        "rows": rows_of(messages, report),
        "passed": passed_over(one, messages),
        "given": ask.typed,
        "begin": begin,
        "asked": offset,
        "next": following,
        "step": MESSAGES_SHOWN,
        "groups": _places(one, info),
        "all_queues": known[:QUEUES_SHOWN],
    }
    limit = ["--limit", str(MESSAGES_SHOWN)]
    if begin == last:
        command = one.command("tail", name, options=["--queue", str(number), *limit])
    else:
        command = one.command("get", name, str(number), str(begin), options=limit)
    title = f"{visible(name)} / {number}"
    return UiPage("queue.html", title, words, command, json_lines(messages, report), tab="topics", store=one)


def json_lines(messages: Sequence[StoredMessage], report: Report) -> Callable[[], Iterator[str]]:
    """Make what `--json` prints of messages, their bodies as stored, and say what of them cannot be read."""

    def lines() -> Iterator[str]:
        yield from (json_line(message, message.body) for message in messages)
        yield from incomplete(places_lost(report))

    return lines


def rows_of(messages: Sequence[StoredMessage], report: Report) -> list[StoredMessage | Damage]:
    """Return messages with the places among them that cannot be read, in the order of the log."""
    lost = {damage.offset: damage for damage in report.damages[:MESSAGES_SHOWN]}
    rows: list[StoredMessage | Damage] = [*messages, *lost.values()]
    return sorted(rows, key=lambda row: row.offset if isinstance(row, Damage) else row.physical_offset)


def passed_over(one: OpenStore, messages: Sequence[StoredMessage]) -> set[int]:
    """Return the log offsets of messages whose units are lost or point elsewhere: consumers do not get them."""
    queues: dict[QueueName, dict[int, StoredMessage]] = {}
    for message in messages:
        queues.setdefault(QueueName(message.topic, message.queue_id), {})[message.queue_offset] = message
    view, found = one.view(), set[int]()
    for name, at in queues.items():
        with suppress(FlintError, OSError, ValueError):  # then it is not known
            for number, unit in plain_queue(view.root, name, one.effects).units(min(at), max(at) + 1):
                stored = at.get(number)
                if stored is None or not isinstance(unit, Unit) or unit[:2] == (stored.physical_offset, stored.size):
                    continue
                # One that is zeros may only not be dispatched yet.
                if (unit.size or one.figures().content.clean) and is_in_queue(view, stored):
                    found.add(stored.physical_offset)
    return found


def is_in_queue(view: StoreView, message: StoredMessage) -> bool:
    """Return whether a message is the one at its place in its queue, by the queue or by the log."""
    try:
        found = view.get(message.topic, message.queue_id, message.queue_offset)
        return found.physical_offset == message.physical_offset
    except MessageNotFoundError:
        return False


def queues_of(one: OpenStore, view: StoreView, topic: str) -> list[QueueInfo]:
    """Return the queues of a topic; of one that is unknown say which name is near."""
    queues = view.queues(topic)
    if not queues and topic not in view.configured_topics:
        try:
            view.read_log_of(topic)
            must_have(view, [topic])
        except MessageNotFoundError as error:
            near = closest(topic, {name: name for name in view.topics()})
            if near is None:
                raise Nearest(str(error), ALL_TOPICS, link(one.number, "topics")) from None
            raise Nearest(str(error), f"topic {visible(near)}", link(one.number, "topic", name=near)) from None
        queues = view.queues(topic)
    return queues


def _first(view: StoreView, queues: Sequence[QueueInfo]) -> StoredMessage | None:
    """Return the first message of a topic by the log, of the queues that are looked at."""
    found = [
        message
        for queue in queues[:QUEUES_SHOWN]
        for message in view.read(queue.topic, queue.queue_id, queue.min_offset, 1)
    ]
    return min(found, key=lambda message: message.physical_offset, default=None)


def _places(one: OpenStore, info: QueueInfo) -> list[GroupMark]:
    """Return where groups are in a queue, those that are furthest behind first."""
    found, length = [], max(info.max_offset - info.min_offset, 1)
    for group in one.figures().content.groups:
        for at in group.offsets:
            if at.topic == info.topic and at.queue_id == info.queue_id:
                x = min(max(1000 * (at.offset - info.min_offset) // length, 0), 1000)
                found.append(GroupMark(group.name, at.offset, at.lag, x))
    return sorted(found, key=lambda place: (place.offset, place.group))[:GROUPS_DRAWN]
