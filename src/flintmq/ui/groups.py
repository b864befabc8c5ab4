"""Consumer groups: their lag, the oldest message that they have not read, and what retention takes from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flintmq.errors import MessageNotFoundError
from flintmq.forensics.cluster_figures import unread_by_group
from flintmq.forensics.inspect import GroupSummary
from flintmq.forensics.store_figures import StoreFigures
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import LMQ_OFFSETS, OFFSETS
from flintmq.ui.asked import Ask
from flintmq.ui.overview import inspect_lines
from flintmq.ui.page import UiPage
from flintmq.ui.stores import OpenStore

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

GROUPS_SHOWN = 500
QUEUES_SHOWN = 500


def groups(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    assert one is not None
    figures = one.figures()
    oldest: dict[str, int] = {}
    for lag in figures.lags:
        if lag.oldest_ms is not None:
            oldest[lag.group] = min(lag.oldest_ms, oldest.get(lag.group, lag.oldest_ms))
    text = ask.text("q")
    found = [group for group in figures.content.groups if text.lower() in group.name.lower()]
    words = {
        "groups": sorted(found, key=lambda group: (not group.offsets, -group.lag, group.name)),
        "oldest": oldest,
        "goes": _goes(figures),
        "at_ms": figures.at_ms,
        "written_ms": _written_ms(one),
        "problems": _problems(figures),
        "q": text,
        "most": GROUPS_SHOWN,
    }
    return UiPage("groups.html", "Groups", words, one.command("inspect"), inspect_lines([one]), tab="groups", store=one)


def group(ui: Ui, one: OpenStore | None, ask: Ask) -> UiPage:
    """Show one group: each topic and queue that it has an offset in."""
    assert one is not None
    figures, name = one.figures(), ask.needed("name")
    found = next((group for group in figures.content.groups if group.name == name), None)
    if found is None:
        raise MessageNotFoundError(f"there is no group {name[:120]} here; the tab Groups lists those that there are")
    words = {
        "group": found,
        "lags": {lag.topic: lag for lag in figures.lags if lag.group == name},
        "topics": _by_topic(found),
        "goes": {topic: count for (of, topic), count in _unread(figures).items() if of == name},
        "at_ms": figures.at_ms,
        "written_ms": _written_ms(one),
        "problems": _problems(figures),
        "most": QUEUES_SHOWN,
    }
    return UiPage("group.html", name, words, one.command("inspect"), inspect_lines([one]), tab="groups", store=one)


def _problems(figures: StoreFigures) -> list[str]:
    """Return what keeps the offsets of groups from being known."""
    return [problem.text for problem in figures.snapshot.broker.problems_of(OFFSETS, LMQ_OFFSETS)]


def _written_ms(one: OpenStore) -> int | None:
    """Return when the file of the groups' offsets was last written; no file says when each was committed."""
    names = (directories.CONFIG + "/" + name for name in (OFFSETS, LMQ_OFFSETS))
    times = (one.effects.modified_ms(f"{one.view().root}/{name}") for name in names)
    return max((time for time in times if time is not None), default=None)


def _by_topic(group: GroupSummary) -> Mapping[str, list[object]]:
    found: dict[str, list[object]] = {}
    for offset in group.offsets[:QUEUES_SHOWN]:
        found.setdefault(offset.topic, []).append(offset)
    return found


def _unread(figures: StoreFigures) -> Mapping[tuple[str | None, str], int]:
    return {} if figures.retention is None else unread_by_group(figures.retention)


def _goes(figures: StoreFigures) -> Mapping[str | None, int]:
    found: dict[str | None, int] = {}
    for (name, _), count in _unread(figures).items():
        found[name] = found.get(name, 0) + count
    return found
