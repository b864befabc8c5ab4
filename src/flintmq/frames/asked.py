"""Refuses topics that none of the stores of a read has, nor its history.

Only topics of arguments: those of a filter of DuckDB, Polars or Arrow are conditions, which no row need meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flintmq.config.keys import StoreConfig
from flintmq.errors import UnknownTopicError, UsageError
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report

ADVICE = "strict=False reads the rest"


def refuse_unknown_topics(
    paths: Sequence[str],
    predicate: Predicate,
    config: StoreConfig,
    strict: bool,
    report: Report,
    in_history: Callable[[str], bool] = lambda topic: False,
) -> None:
    """Check that each topic that a predicate names is one of a store, or of the history.

    Of a commit log alone nobody knows the topics before it is read; there every topic may be one.

    Args:
        paths: the stores.
        predicate: made from arguments.
        config: RocketMQ's keys.
        strict: an unknown topic is an error; otherwise a note.
        report: receives the note.
        in_history: returns whether the table has rows of a topic.

    Raises:
        UnknownTopicError: (strict) a topic is unknown; the text names a similar one.
        NotAStoreError, UnsupportedFormatError, StoreAccessError: a store cannot be read.
    """
    if not predicate.named_topics:
        return
    # Not above: few scans name topics.
    from flintmq.store.commitlog.snapshot import Snapshot
    from flintmq.store.read.known_topics import NOT_THERE, is_log_alone, unknown_topics
    from flintmq.store.read.queue_lookup import QueueLookup

    unknown: dict[str, UsageError] | None = None
    for path in paths:
        snapshot = Snapshot.open(path, config)
        if is_log_alone(snapshot):
            return
        found = unknown_topics(QueueLookup(snapshot), predicate, ADVICE)
        unknown = found if unknown is None else {topic: unknown[topic] for topic in unknown if topic in found}
        if not unknown:
            return
    for topic, error in (unknown or {}).items():
        if in_history(topic):
            continue
        others = f" (nor have {len(paths) - 1} other stores)" if paths[1:] else ""
        if strict:
            raise UnknownTopicError(f"{error}{others}")
        report.note(NOT_THERE, f"{error.without_advice}{others}")
