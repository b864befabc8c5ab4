"""`flintmq inspect`: a summary of a store's content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from flintmq import hooks
from flintmq.cli.declare import Option
from flintmq.cli.options import JsonOption, SetOption, StoresArgument, catalog_option, examples
from flintmq.cli.output import dumps, output
from flintmq.cli.terminal import TextTable
from flintmq.cli.text import duration, iso, near, printable, shorten_text, size
from flintmq.cli.values import members_of, store_config
from flintmq.errors import NotAStoreError

if TYPE_CHECKING:
    from flintmq.cluster.member import Member
    from flintmq.forensics.cluster_figures import ClusterGroup, ClusterTopic
    from flintmq.forensics.inspect import (
        CopySummary,
        Folder,
        GroupSummary,
        Inspection,
        LogSummary,
        QueueSummary,
        TopicSummary,
    )
    from flintmq.forensics.retention_plan import RetentionPlan
    from flintmq.forensics.store_figures import StoreFigures

EPILOG = examples(
    "flintmq inspect /var/rocketmq/store",
    "flintmq inspect cluster.toml --json",
    "flintmq inspect /var/rocketmq/store --history /tmp/lake",
)
T = TypeVar("T")
TOPICS_SHOWN = 100
"""A person sees this many topics, those with most messages; and this many groups and notes."""
QUEUES_SHOWN = 16
INDEX_SHOWN = 8
NAMES_SHOWN = 24
NAME_CHARS = 60
SPARSE = 16 << 20
"""Bytes by which files must be larger than on disk to be reported as sparse."""


def command(
    stores: StoresArgument,
    history: Annotated[
        str | None, Option("--history TABLE", "What this table of their exports holds, and lacks.")
    ] = None,
    catalog: Annotated[str | None, catalog_option("Of an Iceberg TABLE")] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Summarize the content of a store, or of several, or of a table of exports.

    Shows files, topics and queues with their offsets, groups and their lag, the range of times, and the last shutdown.
    Fast: only the ends of the log are read, so of queue files that lack messages from before its last 4 MiB no note
    tells. `flintmq verify` checks whether the files agree with each other. The exit code is 1 if files of the log are
    missing or its end is damaged; a note says where.

    Of several stores people see a line each, and the topics and groups of all: lag, the share of the largest queue, and
    what is unread and goes with each broker's next deletion (`flintmq retention explain`). --json has an object a line
    for each store.

    --history shows the table in place of its stores: its format, exports and options, of each broker the messages and
    the range of its log, and how much of the log no export has read. Without it `flintmq inspect TABLE` says nothing of
    the stores. The exit code is 1 if messages went before any export read them; `flintmq diff` compares all.
    """
    from flintmq.forensics.inspect import inspect

    config, out = store_config(settings), output(as_json)
    if history is not None or catalog is not None:
        return int(hooks.load("inspect_table")(out, stores, history, catalog, config))
    members = members_of(stores, config, out)
    if not members[0].words:
        try:
            found = inspect(stores[0], config)
        except NotAStoreError:
            code: int | None = hooks.load("inspect_table")(out, stores, None, None, config)
            if code is None:
                raise
            return code
        out.result(found, _render)
        return _exit_code([found])
    if as_json:
        contents = []
        for member in members:
            contents.append(inspect(member.path, config))
            out.lines([json_line_of(member, contents[-1])])
        return _exit_code(contents)
    from flintmq.forensics.store_figures import StoreWatch

    looks = [(member, StoreWatch(member, config).look()) for member in members]
    out.result(looks, _render_many)
    return _exit_code([figures.content for _, figures in looks])


def json_line_of(member: Member, content: Inspection) -> str:
    """Return the content of a store as JSON, with the names of one of several."""
    words = {"cluster": member.cluster, "broker": member.broker, "store": member.path} if member.words else {}
    return dumps({**words, **asdict(content)})


def _exit_code(found: Sequence[Inspection]) -> int:
    return int(any(one.damaged for one in found))


def _render_many(found: Sequence[tuple[Member, StoreFigures]]) -> Iterator[Any]:
    from flintmq.forensics.cluster_figures import cluster_groups, cluster_topics

    yield _brokers(found)
    yield from _first(cluster_topics(one for _, one in found), _topics_of_many, "topics with fewer messages")
    yield from _first(cluster_groups(one for _, one in found), _groups_of_many, "groups with less lag")
    for member, figures in found:
        for note in figures.content.notes[:TOPICS_SHOWN]:
            yield f"note {note.code} ({printable(member.broker)}): {printable(note.text)}"


def _first(rows: Sequence[T], table: Callable[[Sequence[T]], TextTable], others: str) -> Iterator[Any]:
    """Yield a table of the first rows, and how many others there are."""
    if rows:
        yield ""
        yield table(rows)
    if len(rows) > TOPICS_SHOWN:
        yield f"and {len(rows) - TOPICS_SHOWN} {others} (--json shows all)"


def _brokers(found: Sequence[tuple[Member, StoreFigures]]) -> TextTable:
    table = TextTable("broker", "store", "state", "log>", "messages>", "topics>", "stored", "next deletion")
    for member, figures in found:
        one, plan = figures.content, figures.retention
        state = "in use" if one.live else "stopped cleanly" if one.clean else "not stopped cleanly"
        names = (shorten_text(printable(text), NAME_CHARS) for text in (member.broker, near(member.path)))
        numbers = (size(one.log.end - one.log.begin), str(one.messages), str(len(one.topics)))
        table.add_row(*names, state, *numbers, _times(one.log), "unknown" if plan is None else _next_deletion(plan))
    return table


def _next_deletion(plan: RetentionPlan) -> str:
    return "none" if plan.next_when is None else f"{iso(plan.next_when)} ({size(plan.next_bytes)})"


def _topics_of_many(topics: Sequence[ClusterTopic]) -> TextTable:
    table = TextTable("topic", "brokers>", "queues>", "messages>", "largest queue>")
    for topic in topics[:TOPICS_SHOWN]:
        numbers = (topic.brokers, topic.queues, topic.messages)
        share = f"{100 * topic.largest / topic.messages:.0f} %" if topic.messages else ""
        table.add_row(shorten_text(printable(topic.name), NAME_CHARS), *map(str, numbers), share)
    return table


def _groups_of_many(groups: Sequence[ClusterGroup]) -> TextTable:
    table = TextTable("group", "brokers>", "lag>", "oldest unread", "unread and next to go>")
    for group in groups[:TOPICS_SHOWN]:
        oldest = "" if group.oldest_ms is None else iso(group.oldest_ms)
        if group.name is None:
            table.add_row("- (topics without a group)", "", "", "", str(group.goes))
        else:
            name = shorten_text(printable(group.name), NAME_CHARS)
            table.add_row(name, str(group.brokers), str(group.lag), oldest, str(group.goes))
    return table


def _render(found: Inspection) -> Iterator[Any]:
    yield _overview(found)
    topics = [topic for topic in found.topics if topic.queues]
    yield from _first(topics, _topics, "topics with fewer messages")
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
        yield f"{what}: {shown}{more}"


def _overview(found: Inspection) -> TextTable:
    table = TextTable()
    state = "stopped cleanly" if found.clean else "not stopped cleanly (abort is there)"
    queues = sum(len(topic.queues) for topic in found.topics)
    rows = [
        ("store", printable(found.root)),
        ("state", "in use: a running store holds its lock" if found.live else state),
        *([("copy", _copy(found.copy))] if found.copy is not None else []),
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
        table.add_row(name, value)
    return table


def _copy(copy: CopySummary) -> str:
    fit = "fit to be carried on" if copy.promotable else f"not known to be fit to be carried on: {copy.lacks}"
    return printable(f"of {copy.master}, {fit}")


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


def _topics(topics: Sequence[TopicSummary]) -> TextTable:
    table = TextTable("topic", "type", "messages>", "queues>", "queue offsets")
    for topic in sorted(topics, key=lambda topic: -topic.messages)[:TOPICS_SHOWN]:
        name = printable(topic.name) + (" (not configured)" if topic.configured is False else "")
        numbers = (str(topic.messages), str(len(topic.queues)))
        table.add_row(shorten_text(name, NAME_CHARS), topic.type, *numbers, _offsets(topic.queues))
    return table


def _offsets(queues: Sequence[QueueSummary]) -> str:
    shown = [f"{q.queue_id}: {q.min_offset}-{q.max_offset}" for q in queues[:QUEUES_SHOWN]]
    return ", ".join(shown) + (f", and {len(queues) - QUEUES_SHOWN} more" if len(queues) > QUEUES_SHOWN else "")


def _groups(groups: Sequence[GroupSummary]) -> TextTable:
    table = TextTable("group", "lag>", "topic", "committed offsets (queue: offset of max)")
    for group in groups[:TOPICS_SHOWN]:
        name = shorten_text(printable(group.name), NAME_CHARS)
        for topic in sorted({offset.topic for offset in group.offsets})[:TOPICS_SHOWN]:
            mine = [offset for offset in group.offsets if offset.topic == topic]
            places = ", ".join(f"{o.queue_id}: {o.offset} of {o.max_offset}" for o in mine[:QUEUES_SHOWN])
            lag = str(sum(offset.lag for offset in mine))
            table.add_row(name, lag, shorten_text(printable(topic), NAME_CHARS), places)
    return table


def _index(found: Inspection) -> TextTable:
    table = TextTable("index file", "keys>", "log offsets", "stored")
    if len(found.index) > INDEX_SHOWN:
        table.add_row(f"{len(found.index) - INDEX_SHOWN} before", "", "", "")
    for file in found.index[-INDEX_SHOWN:]:
        offsets = f"{file.begin_offset} to {file.end_offset}"
        times = f"{iso(file.begin_time)} to {iso(file.end_time)}"
        table.add_row(printable(file.name), str(file.items), offsets, times)
    return table
