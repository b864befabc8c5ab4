"""The stores that were named, each opened once and looked at again when it is asked for."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from flintmq.cli.text import duration
from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, MessageNotFoundError, without_secrets
from flintmq.forensics.store_figures import StoreFigures, StoreMark, StoreWatch
from flintmq.storage.files.store_url import effects_for
from flintmq.store.layout.directories import find_root
from flintmq.store.view import StoreView, open_store
from flintmq.ui.links import command_of

FRESH_S = 1.0
"""Seconds for which a look at a store counts; several requests of one page share it."""


@dataclass(frozen=True)
class Look:
    """What is known of a store now: its figures, or why it cannot be read."""

    store: OpenStore
    figures: StoreFigures | None
    error: str = ""


class OpenStore:
    """One store of those named. Thread: any."""

    def __init__(self, number: int, member: Member, config: StoreConfig, name: str = "") -> None:
        self.number, self.member, self.config = number, member, config
        self.path = member.path
        self.shown_path = without_secrets(self.path)
        self.name = name or "/".join(self.shown_path.rstrip("/").split("/")[-2:])
        self.effects = effects_for(self.path, config.s3)
        self._lock = threading.Lock()
        self._view: StoreView | None = None
        self._mark = StoreMark(None, None)
        self._watch = StoreWatch(member, config)
        self._figures: StoreFigures | None = None
        self._viewed = self._looked = -FRESH_S

    def command(self, name: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return the words of a command on this store, as command_of."""
        return command_of(name, self.path, *arguments, options=options)

    def view(self) -> StoreView:
        """Return the view as it is now.

        Raises NotAStoreError: the store is gone; so do all that read it.
        """
        with self._lock:
            now = time.monotonic()
            if self._view is not None and now - self._viewed <= FRESH_S:
                return self._view
            if self._view is not None:
                find_root(self.path, self.config, self.effects)
                self._view.refresh()
            if self._view is None or not self._mark.is_of(self._view._now.snapshot):
                self._view = open_store(self.path, config=self.config)
            self._mark = StoreMark.of(self._view._now.snapshot)
            self._viewed = time.monotonic()
            return self._view

    def mark(self) -> StoreMark | None:
        """Mark the store that is there now; None if it cannot be opened."""
        with suppress(FlintError, OSError):
            return StoreMark.of(self.view()._now.snapshot)
        return None

    def has(self, mark: StoreMark | None) -> bool:
        """Return whether the store of a mark is there now; True also where none could be made."""
        with suppress(FlintError, OSError):
            return mark is None or mark.is_of(self.view()._now.snapshot)
        return False

    def figures(self) -> StoreFigures:
        with self._lock:
            if self._figures is None or time.monotonic() - self._looked > FRESH_S:
                self._figures = self._watch.look()
                self._looked = time.monotonic()
            return self._figures

    def look(self) -> Look:
        try:
            return Look(self, self.figures())
        except (FlintError, OSError) as error:
            return Look(self, None, str(error))


class Stores:
    def __init__(self, members: Sequence[Member], config: StoreConfig) -> None:
        # Of a list of paths they are the last parts, which may be equal.
        names = Counter(member.broker for member in members)
        self.all = [
            OpenStore(number, member, config, member.broker if names[member.broker] == 1 else "")
            for number, member in enumerate(members)
        ]

    def __len__(self) -> int:
        return len(self.all)

    def looks(self) -> list[Look]:
        return [one.look() for one in self.all]

    def at(self, number: str) -> OpenStore:
        """Return the store of this number in an address."""
        if number.isascii() and number.isdigit() and len(number) <= 6 and int(number) < len(self.all):
            return self.all[int(number)]
        raise MessageNotFoundError("there is no store of this number; the overview lists those that there are")


def state_text(figures: StoreFigures) -> str:
    """Say in words how the store is."""
    content, copy = figures.content, figures.copy
    state = "in use" if content.live else "stopped cleanly" if content.clean else "not stopped cleanly"
    if content.log.ending != "end":
        state += f", its log ends in a {content.log.ending.replace('_', ' ')}"
    if content.copy is None:
        return state
    behind = ""
    if copy is not None and copy.lag_ms is not None:
        behind = ", has all" if not copy.lag_ms else f", {duration(copy.lag_ms)} behind"
    follows = "follows" if copy is not None and copy.connected else "a copy, not connected, of"
    return f"{state}; {follows} {content.copy.master}{behind}"
