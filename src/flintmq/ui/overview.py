"""The first page: all stores, what needs attention, one store, and what its retention deletes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintmq.cli.commands.inspect import json_line_of
from flintmq.cli.output import dumps
from flintmq.cli.text import size
from flintmq.forensics import retention_plan
from flintmq.forensics.cluster_figures import cluster_groups, cluster_topics, unread_by_group
from flintmq.forensics.inspect import inspect
from flintmq.forensics.store_figures import StoreFigures
from flintmq.store.read.undelivered import DELAYS, HALVES, POPS, TIMERS
from flintmq.ui import rates
from flintmq.ui.asked import Ask
from flintmq.ui.background import current
from flintmq.ui.links import command_of
from flintmq.ui.page import UiPage, time_text
from flintmq.ui.stores import Look, OpenStore, state_text

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

TOPICS_SHOWN = 12
ROWS_SHOWN = 500
NOTES_SHOWN = 20
BEHIND_BYTES = 64 << 20
UNDELIVERED = (TIMERS, HALVES, DELAYS, POPS)


@dataclass(frozen=True)
class Attention:
    """Something to look at: how bad (0 is worst), what it is, and the page that shows it."""

    grade: int
    store: OpenStore
    text: str
    page: str = ""


def inspect_lines(stores: Sequence[OpenStore]) -> Callable[[], Iterator[str]]:
    """Make what `flintmq inspect --json` prints of these stores."""
    return lambda: (json_line_of(one.member, inspect(one.path, one.config)) for one in stores)


def home(ui: Ui, _: OpenStore | None, ask: Ask) -> UiPage:
    """Show all stores; an only one in full."""
    if len(ui.stores) == 1:
        return store(ui, ui.stores.all[0], ask)
    looks = ui.stores.looks()
    figures = [look.figures for look in looks if look.figures is not None]
    groups = cluster_groups(figures)
    words = {
        "looks": looks,
        "state_text": state_text,
        "attention": _sorted(one for look in looks for one in _attention(ui, look)),
        "topics": cluster_topics(figures)[:TOPICS_SHOWN],
        "groups": groups[:TOPICS_SHOWN],
        "messages": sum(one.content.messages for one in figures),
        "bytes": sum(one.content.log.end - one.content.log.begin for one in figures),
    }
    command = command_of("inspect", *(one.path for one in ui.stores.all))
    title = f"{len(looks)} stores"
    return UiPage("overview.html", title, words, command, inspect_lines(ui.stores.all), tab="overview")


def store(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show one store: its state, what needs attention, rates, topics, disk."""
    assert one is not None
    figures = one.figures()
    content = figures.content
    words = {
        "figures": figures,
        "content": content,
        "state": state_text(figures),
        "attention": _sorted(_attention(ui, Look(one, figures))),
        "chart": rates.log_chart(figures.snapshot),
        "topics": sorted((topic for topic in content.topics if topic.queues), key=lambda topic: -topic.messages),
        "shown": TOPICS_SHOWN,
        "queues": sum(len(topic.queues) for topic in content.topics),
        "going": unread_by_group(figures.retention) if figures.retention is not None else {},
        "groups": sorted(content.groups, key=lambda group: (-group.lag, group.name)),
    }
    command = one.command("inspect")
    return UiPage("store.html", one.name, words, command, inspect_lines([one]), tab="overview", store=one)


def retention(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show which files retention deletes next, and who has not read what is in them."""
    assert one is not None
    plan = one.figures().retention
    if plan is not None:
        unread = sorted((row for row in plan.unread if row.unread), key=lambda row: (row.group is None, -row.unread))
    else:
        unread = []
    words = {"plan": plan, "unread": unread, "most": ROWS_SHOWN}

    def lines() -> Iterable[str]:
        return [dumps(retention_plan.explain(one.path, one.config))]

    command = one.command("retention explain")
    return UiPage("retention.html", "Retention", words, command, lines, tab="retention", store=one)


def _sorted(found: Iterable[Attention]) -> list[Attention]:
    return sorted(found, key=lambda one: one.grade)


def _attention(ui: Ui, look: Look) -> Iterator[Attention]:
    one, figures = look.store, look.figures
    if figures is None:
        yield Attention(0, one, f"it cannot be read: {look.error}")
        return
    content, check = figures.content, current(ui.checks.get(one.number))
    checks = [] if check is None else [check, *([check.last_whole] if check.last_whole else [])]
    if count := max((found.findings.defect_count for found in checks), default=0):
        yield Attention(0, one, f"the check found {count:,} defect{'s' * (count != 1)}", "health")
    if content.damaged:
        yield Attention(0, one, "log files are missing, or the log's end is damaged", "health")
    yield from _retention(one, figures)
    gone = Counter({group.name: sum(at.gone for at in group.offsets) for group in content.groups})
    for name, count in (+gone).most_common(NOTES_SHOWN):
        yield Attention(1, one, f"{count:,} messages were deleted before group {name} had read them", "groups")
    if figures.copy is not None and not figures.copy.connected:
        yield Attention(1, one, "the copy has no connection to its master")
    if not content.clean and not content.live:
        yield Attention(1, one, "it was not stopped cleanly; the next start recovers it", "health")
    if content.live and figures.dispatch_behind > BEHIND_BYTES:
        yield Attention(1, one, f"queues and index lag the log by {size(figures.dispatch_behind)}")
    for note in content.notes[:NOTES_SHOWN]:
        yield Attention(2, one, f"{note.code}: {note.text}", "waiting" if note.code in UNDELIVERED else "health")


def _retention(one: OpenStore, figures: StoreFigures) -> Iterator[Attention]:
    plan = figures.retention
    if plan is None:
        return
    if plan.refuses_puts:
        yield Attention(0, one, f"the disk is {plan.used} % full: puts are refused", "retention")
    elif plan.used > plan.rules["delete_at"]:
        yield Attention(1, one, f"the disk is {plan.used} % full: old files go at any hour", "retention")
    if plan.next_when is None:
        return
    when = "now" if plan.next_when <= plan.at else f"at {time_text(plan.next_when)}"
    unread = unread_by_group(plan)
    for (group, topic), count in unread.most_common(NOTES_SHOWN):
        if count and group is not None:
            text = f"{count:,} messages of topic {topic} are deleted {when}: group {group} has not read them"
            yield Attention(1, one, text, "retention")
    alone = {topic: count for (group, topic), count in unread.items() if group is None and count}
    if alone:
        of = f"topic {min(alone)}" if len(alone) == 1 else f"{len(alone)} topics"
        text = f"{sum(alone.values()):,} messages of {of} for which no group has an offset are deleted {when}"
        yield Attention(2, one, text, "retention")
