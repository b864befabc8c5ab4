"""New messages of a topic as they come, by server-sent events.

A thread follows the log for each reader and keeps the newest rows; what a reader could not take in time is counted,
not kept. A reader that takes nothing for some seconds is let go; its browser connects again, at the end of the log.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from flintmq.cli.text import printable_bytes
from flintmq.cli.values import parse_tags
from flintmq.config.text import closest
from flintmq.errors import FlintError, UsageError
from flintmq.forensics.topic_tail import TopicTail
from flintmq.message import StoredMessage
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store.commitlog.report import Report
from flintmq.store.view import open_store
from flintmq.ui.asked import Ask
from flintmq.ui.links import message_link, option
from flintmq.ui.page import UiPage, time_text, visible
from flintmq.ui.stores import OpenStore
from flintmq.ui.topics import json_lines

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

NEWEST = 20
ROWS = 40  # of one event: what a person can still see pass by
EVERY_S = 0.25
QUIET_S = 10.0
"""Seconds without a message after which an empty event shows that the connection lives."""
BODY_BYTES = 400
TOPICS_OFFERED = 500


def tail(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show the newest messages of a topic; the page's script adds new ones."""
    assert one is not None
    view, topic, tag, text = one.view(), ask.text("topic"), ask.text("tag"), ask.text("text")
    newest, report, complete = list[StoredMessage](), Report(), True
    if topic:
        found = TopicTail(view, topic, tags=parse_tags([tag]) if tag else None, expected=True)
        newest = [message for message in found.last(NEWEST) if text.encode() in message.body]
        report, complete = found.report, found.complete
    words = {
        "topic": topic,
        "tag": tag,
        "text": text,
        "rows": [row(one, message) for message in newest[::-1]],
        "topics": view.topics()[:TOPICS_OFFERED],
        "live": view.live,
        "unknown": bool(topic) and topic not in view.topics(),
        "complete": complete,
        "newest": NEWEST,
        "lost": report.damage_count,
        "near": closest(topic, {name: name for name in view.topics()}) if topic else None,
    }
    command = one.command("tail", topic, options=[*option("--tag", tag), "--follow"]) if topic else ()
    return UiPage("tail.html", "Tail", words, command, json_lines(newest, report), tab="tail", store=one)


def row(one: OpenStore, message: StoredMessage) -> dict[str, object]:
    """Return what a row shows; texts, no markup."""
    return {
        "time": time_text(message.store_timestamp),
        "place": f"{message.queue_id} / {message.queue_offset}",
        "href": message_link(one.number, message),
        "tags": visible(message.tags or ""),
        "keys": visible(message.keys or ""),
        "body": visible(printable_bytes(message.body[:BODY_BYTES]), 160),
    }


class TailFeed:
    """Follows a topic in a thread, and keeps the newest rows that were not taken yet."""

    def __init__(self, one: OpenStore, topic: str, tag: str, text: str) -> None:
        self.one, self.topic, self.tag, self.text = one, topic, tag, text.encode()
        self.stop: threading.Event = StopEvent()
        self.error = ""
        self._rows: deque[StoredMessage] = deque(maxlen=ROWS)
        self._lock = threading.Lock()
        self._came = 0
        self.ready = threading.Event()  # what is stored from now on is seen
        threading.Thread(target=self._run, name=f"flintmq-ui-tail-{one.number}", daemon=True).start()

    def _run(self) -> None:
        try:
            with open_store(self.one.path, config=self.one.config) as view:
                found = TopicTail(view, self.topic, tags=parse_tags([self.tag]) if self.tag else None, expected=True)
                self.ready.set()
                for message in found.coming(self.stop):
                    if self.text in message.body:
                        with self._lock:
                            self._rows.append(message)
                            self._came += 1
        except (FlintError, OSError) as error:
            self.error = str(error)

    def take(self) -> tuple[list[StoredMessage], int]:
        """Return the newest messages since the last call, and how many others passed."""
        with self._lock:
            rows, passed = list(self._rows), self._came - len(self._rows)
            self._rows.clear()
            self._came = 0
        return rows, passed


def events(ui: Ui, one: OpenStore, ask: Ask) -> AsyncIterator[str]:
    """Return events of new messages, which go on until their reader leaves or the server ends.

    Raises UsageError: no topic is named, or enough tails run.
    """
    if ui.tails >= ui.tails_most:
        raise UsageError(f"{ui.tails_most} tails run; close one")
    return _events(ui, one, ask.needed("topic"), ask.text("tag"), ask.text("text"))


async def _events(ui: Ui, one: OpenStore, topic: str, tag: str, text: str) -> AsyncIterator[str]:
    ui.tails += 1
    followed, quiet = TailFeed(one, topic, tag, text), QUIET_S
    try:
        yield "retry: 2000\n\n"
        while not ui.closing.is_set():
            rows, passed = followed.take()
            quiet += EVERY_S
            if followed.ready.is_set() and (rows or quiet >= QUIET_S):
                quiet = 0.0
                given = {"rows": [row(one, message) for message in rows], "passed": passed}
                yield f"data: {json.dumps(given)}\n\n"
            if followed.error:
                yield f"event: over\ndata: {json.dumps(visible(followed.error, 500))}\n\n"
                return
            await anyio.sleep(EVERY_S)
    finally:
        followed.stop.set()
        ui.tails -= 1
