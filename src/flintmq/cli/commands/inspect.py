"""`flintmq inspect`: a summary of a store's content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flintmq.cli.options import JsonOption, SetOption, StoreArgument, examples
from flintmq.cli.output import output
from flintmq.cli.table import plain_table, plain_text
from flintmq.cli.text import duration, iso, printable, shorten_text, size
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from rich.table import Table

    from flintmq.forensics.inspect import Folder, GroupSummary, Inspection, LogSummary, QueueSummary, TopicSummary

EPILOG = examples("flintmq inspect /var/rocketmq/store", "flintmq inspect /var/rocketmq/store --json")
TOPICS_SHOWN = 100
"""A person sees this many topics, those with most messages; and this many groups and notes."""
QUEUES_SHOWN = 16
INDEX_SHOWN = 8
NAMES_SHOWN = 24
NAME_CHARS = 60
SPARSE = 16 << 20
"""Bytes by which files must be larger than on disk to be reported as sparse."""


def command(store: StoreArgument, settings: SetOption = None, as_json: JsonOption = False) -> int:
    """Summarize a store's content.

    Shows files, topics and queues with their offsets, groups and their lag, the range of times, and the last shutdown.
    Fast: only the ends of the log are read. `flintmq verify` checks whether the files agree with each other.
    """
    from flintmq.forensics.inspect import inspect

    output(as_json).result(inspect(store, store_config(settings)), _render)
    return 0


def _render(found: Inspection) -> Iterator[Any]:
    yield _overview(found)
    topics = [topic for topic in found.topics if topic.queues]
    if topics:
        yield ""
        yield _topics(topics)
    if len(topics) > TOPICS_SHOWN:
        yield f"and {len(topics) - TOPICS_SHOWN} topics with fewer messages (--json shows all)"
    yield from _named("topics without queues", [topic.name for topic in found.topics if not topic.queues])
    groups = [group for group in found.groups if group.offsets]
    if groups:
        yield ""
        yield _groups(groups)
    yield from _named("groups without offsets", [group.name for group in found.groups if not group.offsets])
    if any(level.lag for level in found.delays):
        waiting = ", ".join(f"level {d.queue_id + 1}: {d.lag}" for d in found.delays if d.lag)
        yield f"\ndelayed and not yet delivered, {waiting}"
    if found.index:
        yield ""
        yield _index(found)
    for note in found.notes[:TOPICS_SHOWN]:
        yield f"note {note.code}: {printable(note.text)}"


def _named(what: str, names: Sequence[str]) -> Iterator[Any]:
    """List names without further facts, in one line."""
    if names:
        shown = ", ".join(shorten_text(printable(name), NAME_CHARS) for name in names[:NAMES_SHOWN])
        more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        yield plain_text(f"{what}: {shown}{more}")


def _overview(found: Inspection) -> Table:
    table = plain_table(header=False)
    state = "stopped cleanly" if found.clean else "not stopped cleanly (abort is there)"
    queues = sum(len(topic.queues) for topic in found.topics)
    rows = [
        ("store", printable(found.root)),
        ("state", "in use: a running store holds its lock" if found.live else state),
        ("log", _log(found.log)),
        ("stored", _times(found.log)),
        ("messages", f"{found.messages} in {queues} queues of {len(found.topics)} topics"),
        ("files", ", ".join(f"{folder.kind} {folder.files} ({_size(folder)})" for folder in found.folders)),
        ("checkpoint", _checkpoint(found.checkpoint)),
    ]
    if found.timer is not None:
        timer = found.timer
        rows.append(("timer", f"{timer.log_files} log files, delivered up to {iso(timer.last_read_time)}"))
    for name, value in rows:
        table.add_row(name, plain_text(value))
    return table


def _size(folder: Folder) -> str:
    """Return the size of files, and their size on disk if that is much less (sparse files)."""
    sparse = folder.on_disk is not None and folder.bytes - folder.on_disk >= SPARSE
    return f"{size(folder.bytes)}, on disk {size(folder.on_disk or 0)}" if sparse else size(folder.bytes)


def _log(log: LogSummary) -> str:
    files = f"{log.files} file{'' if log.files == 1 else 's'} of {size(log.file_size)}"
    text = f"{files}, offsets {log.begin} to {log.end} ({size(log.end - log.begin)})"
    return text if len(log.directories) == 1 else f"{text}, in {len(log.directories)} directories"


def _times(log: LogSummary) -> str:
    if log.first_time is None or log.last_time is None:
        return "nothing"
    return f"{iso(log.first_time)} to {iso(log.last_time)} ({duration(log.last_time - log.first_time)})"


def _checkpoint(checkpoint: dict[str, int] | None) -> str:
    if checkpoint is None:
        return "none"
    names = {"physic_timestamp": "log", "logics_timestamp": "queues", "index_timestamp": "index"}
    return ", ".join(f"{name} {_time(checkpoint.get(key, 0))}" for key, name in names.items())


def _time(ms: int) -> str:
    return iso(ms) if ms else "never"


def _topics(topics: Sequence[TopicSummary]) -> Table:
    table = plain_table("topic", "type", "messages>", "queues>", "queue offsets")
    for topic in sorted(topics, key=lambda topic: -topic.messages)[:TOPICS_SHOWN]:
        name = printable(topic.name) + (" (not configured)" if topic.configured is False else "")
        numbers = (str(topic.messages), str(len(topic.queues)))
        table.add_row(
            plain_text(shorten_text(name, NAME_CHARS)), topic.type, *numbers, plain_text(_offsets(topic.queues))
        )
    return table


def _offsets(queues: Sequence[QueueSummary]) -> str:
    shown = [f"{q.queue_id}: {q.min_offset}-{q.max_offset}" for q in queues[:QUEUES_SHOWN]]
    return ", ".join(shown) + (f", and {len(queues) - QUEUES_SHOWN} more" if len(queues) > QUEUES_SHOWN else "")


def _groups(groups: Sequence[GroupSummary]) -> Table:
    table = plain_table("group", "lag>", "topic", "committed offsets (queue: offset of max)")
    for group in groups[:TOPICS_SHOWN]:
        name = plain_text(shorten_text(printable(group.name), NAME_CHARS))
        for topic in sorted({offset.topic for offset in group.offsets})[:TOPICS_SHOWN]:
            mine = [offset for offset in group.offsets if offset.topic == topic]
            places = ", ".join(f"{o.queue_id}: {o.offset} of {o.max_offset}" for o in mine[:QUEUES_SHOWN])
            lag = str(sum(offset.lag for offset in mine))
            table.add_row(name, lag, plain_text(shorten_text(printable(topic), NAME_CHARS)), plain_text(places))
    return table


def _index(found: Inspection) -> Table:
    table = plain_table("index file", "keys>", "log offsets", "stored")
    if len(found.index) > INDEX_SHOWN:
        table.add_row(f"{len(found.index) - INDEX_SHOWN} before", "", "", "")
    for file in found.index[-INDEX_SHOWN:]:
        offsets = f"{file.begin_offset} to {file.end_offset}"
        times = f"{iso(file.begin_time)} to {iso(file.end_time)}"
        table.add_row(plain_text(printable(file.name)), str(file.items), offsets, times)
    return table
