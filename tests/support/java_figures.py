"""What operators should see of a golden store, from what Java wrote and Java's own answers; nothing of FlintMQ."""

import json
import re
from collections import Counter
from typing import NamedTuple

from tests.compat.stores import Golden


class JavaLag(NamedTuple):
    """Messages after a group's offsets in a topic, and the store time of the oldest; None without any."""

    messages: int
    oldest_ms: int | None


def bounds(store: Golden) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, queue id) -> Java's least and greatest offset."""
    rows = (row for row in store.queue_rows if row["kind"] == "queue")
    return {(row["topic"], row["queue_id"]): (row["min"], row["max"]) for row in rows}


def offsets(store: Golden) -> dict[tuple[str, str], dict[int, int]]:
    """(group, topic) -> queue id -> committed offset, from the file that Java's broker wrote."""
    text = (store.path / "config" / "consumerOffset.json").read_text(encoding="utf-8")
    table = json.loads(re.sub(r"(?<=[{,])(\s*)(\d+):", r'\1"\2":', text))["offsetTable"]
    found = {}
    for key, value in table.items():
        topic, _, group = key.partition("@")
        found[group, topic] = {int(queue): offset for queue, offset in value.items()}
    return found


def lags(store: Golden) -> dict[tuple[str, str], JavaLag]:
    """(group, topic) -> lag."""
    queues, found = bounds(store), {}
    for (group, topic), committed in offsets(store).items():
        messages, times = 0, []
        for queue, offset in committed.items():
            low, high = queues.get((topic, queue), (0, 0))
            first = max(offset, low)
            if first < high:
                messages += high - first
                times.append(_stored(store, topic, queue, first))
        found[group, topic] = JavaLag(messages, min(times, default=None))
    return found


def _stored(store: Golden, topic: str, queue: int, offset: int) -> int:
    """The store time of the record at an offset of a queue; of an inner batch the one that begins at or before it."""
    rows = [row for row in store.rows if (row["topic"], row["queue_id"]) == (topic, queue)]
    return max((row for row in rows if row["queue_offset"] <= offset), key=lambda row: row["queue_offset"])[
        "store_timestamp"
    ]


def unread_below(store: Golden, log_offset: int) -> Counter[tuple[str | None, str]]:
    """(group, topic) -> messages of records below a log offset that the group has not consumed; for plain topics.

    Group None: of topics for which no group has an offset.
    """
    found: Counter[tuple[str | None, str]] = Counter()
    of_topic: dict[str, list[str]] = {}
    committed = offsets(store)
    for group, topic in committed:
        of_topic.setdefault(topic, []).append(group)
    for row in store.rows:
        if row["physical_offset"] < log_offset and (row["topic"], row["queue_id"]) in bounds(store):
            topic = row["topic"]
            for group in of_topic.get(topic, ()):
                if row["queue_offset"] >= committed[group, topic].get(row["queue_id"], 0):
                    found[group, topic] += 1
            if topic not in of_topic:
                found[None, topic] += 1
    return found
