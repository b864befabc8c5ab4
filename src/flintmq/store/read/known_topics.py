"""Compares topics that a read names with those of the store.

A misspelled one would silently give no rows.
"""

from __future__ import annotations

import difflib
import os

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.layout.queue_name import is_path
from flintmq.store.read.queue_lookup import KINDS, QueueLookup

SHOWN = 5
NOT_THERE = "not-there"
"""Code of the note on topics, offsets or times that the store does not have."""


def unknown_topics(lookup: QueueLookup, predicate: Predicate, advice: str = "") -> dict[str, UsageError]:
    """Make an error for each named topic that is unknown to the store; by topic, in order.

    An unknown topic has no files, no records and no entry in config/topics.json.

    `advice`: end of the error: how the rest is read. Left out where no named topic is known: there is no rest.
    """
    snapshot = lookup.snapshot
    missing = [name for name in sorted(predicate.named_topics or ()) if not _has_directory(snapshot, name)]
    missing = [name for name in missing if name not in snapshot.broker.topics]
    if not missing:
        return {}
    names = {name.topic for name in lookup.names()}  # slow in a store without queues; but something is wrong here
    known = sorted(names | set(snapshot.broker.topics))
    unknown = [name for name in missing if name not in names]
    end = advice if len(unknown) < len(predicate.named_topics or ()) else ""
    return {name: UsageError(no_topic(snapshot.root, name, known), advice=end) for name in unknown}


def is_log_alone(snapshot: Snapshot) -> bool:
    """Return whether nothing but the log tells the topics: before it is read none is known."""
    return not snapshot.broker.topics and not any(
        snapshot.effects.is_dir(os.path.join(snapshot.root, kind)) for kind in KINDS
    )


def _has_directory(snapshot: Snapshot, topic: str) -> bool:
    return is_path(topic) and any(snapshot.effects.is_dir(os.path.join(snapshot.root, kind, topic)) for kind in KINDS)


def no_topic(root: str, topic: str, known: list[str], what: str = "topic") -> str:
    """Return the text about a topic, or a group, that the store lacks.

    It names a similar one, or the first ones.
    """
    close = difflib.get_close_matches(topic, known, n=1, cutoff=0.6)
    more = f", and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    there = f"it has {', '.join(map(short, known[:SHOWN])) or 'none'}{more}"
    hint = f"did you mean {short(close[0])}?" if close else there
    return f"{root}: the store has no {what} {short(topic)}; {hint}"
