"""Collects the metrics of all stores that a user names, in bounded time, again and again.

Each look finds the stores anew, looks at each in a thread of its own, and takes the figures of those that answered in
time. A store that is gone, cannot be read or does not answer is a sample (flintmq_store_up 0) and a line in the log
when that begins; so is a directory that a pattern matches and that is no store, because a disk that is not mounted
looks like that, also to the first look. Of a master and its slaves, which have one broker name, the log that goes
further counts.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping

from flintmq.cluster.member import Member
from flintmq.cluster.members import NamedStores, Stores, list_members, not_there, nothing_found
from flintmq.cluster.same_log import furthest
from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError, NotAStoreError, UsageError
from flintmq.forensics.store_figures import StoreFigures, StoreWatch
from flintmq.metrics.background import BackgroundCall
from flintmq.metrics.families import add_copy, add_figures, add_presence, add_queue_lags
from flintmq.metrics.page import STORE_METRICS, Page
from flintmq.storage.threads.mutex import Lock
from flintmq.store.commitlog.report import Report

log = logging.getLogger("flintmq.metrics")

PATIENCE_S = 8.0
"""Longest duration of a look: Prometheus waits 10 s by default (scrape_timeout)."""
FIRST_S = 60.0
"""Longest duration of the first look, which reads all queues: 8 s of processor time for 10,000 of them."""


def store_metrics(
    stores: Stores,
    *,
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    queue_lag: int | None = None,
) -> str:
    """Return the metrics of one or many stores as Prometheus text.

    Args:
        stores: a store's directory or URL, a pattern, a manifest, or a list of these.
        config: a StoreConfig or the path of a broker.conf: the keys of retention are the broker's, not the store's.
        set: single keys over it, by RocketMQ's names.
        queue_lag: show the lag of groups by queue too, of each store at most so many, the largest.

    Returns:
        The text, version 0.0.4. A store that cannot be read has flintmq_store_up 0 in it, and a warning in the log.

    Raises:
        UsageError: a pattern or manifest that is not understood, or a negative `queue_lag`.
        NotAStoreError: no store is there.
        StoreAccessError: a directory may not be listed.
        UnfinishedError: the stores could not be listed within a minute.
        ConfigError: an unknown key or an impossible value.
    """
    if queue_lag is not None and queue_lag < 0:
        raise UsageError(f"queue_lag {queue_lag} is negative")
    return StoresWatch(stores, StoreConfig.of(config, set), queue_lag=queue_lag).text()


class StoresWatch:
    """Looks at all stores that a user names, as often as asked.

    `first_seconds`, `seconds`: longest duration of the first look, and of any other one. Thread: any.

    `failures`: the stores that could not be read at the last look, with the reason.
    """

    def __init__(
        self,
        stores: Stores,
        config: StoreConfig,
        *,
        first_seconds: float = FIRST_S,
        seconds: float = PATIENCE_S,
        queue_lag: int | None = None,
    ) -> None:
        self._given, self._config, self._patience = stores, config, (first_seconds, seconds)
        self._queue_lag = queue_lag  # number of queues of a store whose lag is shown; None: of none
        self._lock = Lock()  # of the next two
        self._calls: dict[Member, BackgroundCall[StoreFigures]] = {}
        self.failures: dict[Member, Exception] = {}
        self._listing: NamedStores | None = None
        self._said: list[str] = []  # notes of the last listing
        self._list = BackgroundCall(self._list_members, "flintmq-list")

    @property
    def stores(self) -> int:
        return len(self._calls)

    def text(self) -> str:
        """Look at all stores; return their metrics as Prometheus text.

        Raises:
            The errors of store_metrics, at the first look only. Later a failed listing is logged, and the stores that
            were seen before are looked at.
        """
        deadline = time.monotonic() + self._patience[self._listing is not None]
        listing = self._found(deadline)
        answers, failures = self._look(listing, deadline)
        page = Page(STORE_METRICS)
        chosen = _one_of_each(answers, failures)
        for member in sorted({**answers, **failures}, key=lambda member: (member.broker, member.path)):
            add_presence(page, member, member not in failures)
            if member in answers:
                add_copy(page, member, answers[member])
            if member in chosen:
                add_figures(page, member, answers[member])
                if self._queue_lag is not None:
                    add_queue_lags(page, member, answers[member], self._queue_lag)
        self._tell(failures)
        return page.text()

    def _found(self, deadline: float) -> NamedStores:
        try:
            listing = self._list.start()(deadline)
            if not listing.found and self._listing is None:
                raise nothing_found(self._given, listing)
            self._listing = listing
        except (FlintError, OSError) as error:
            if self._listing is None:
                raise
            log.warning("the stores could not be listed again: %s", error)
        return self._listing

    def _list_members(self) -> NamedStores:
        """List the stores, and log what is said of them for the first time."""
        report = Report()
        listing = list_members(self._given, self._config, report)
        texts = [note.text for note in report.notes]
        for text in texts:
            if text not in self._said:
                log.warning("%s", text)
        self._said = texts
        return listing

    def _look(
        self, listing: NamedStores, deadline: float
    ) -> tuple[dict[Member, StoreFigures], dict[Member, Exception]]:
        there = set(listing.found)
        with self._lock:
            self._add_new(listing.found)
            calls = dict(self._calls)
        failures: dict[Member, Exception] = {
            member: NotAStoreError(not_there(member)) for member in (*listing.missing, *calls) if member not in there
        }
        waits = {member: call.start() for member, call in calls.items() if member in there}
        answers: dict[Member, StoreFigures] = {}
        for member, wait in waits.items():
            try:
                answers[member] = wait(deadline)
            except Exception as error:  # whatever it is: the other stores have their metrics
                failures[member] = error
        return answers, failures

    def _add_new(self, members: Iterable[Member]) -> None:
        """Add a call for each store that has none. The caller has the lock."""
        for member in members:
            if member not in self._calls:
                self._calls[member] = BackgroundCall(StoreWatch(member, self._config).look, "flintmq-look")

    def _tell(self, failures: dict[Member, Exception]) -> None:
        """Log which stores cannot be read from now on, and which can again."""
        with self._lock:
            before, self.failures = self.failures, failures
        for member, error in failures.items():
            if str(before.get(member)) != str(error):
                text = str(error) if isinstance(error, (FlintError, OSError)) else f"{type(error).__name__}: {error}"
                log.warning("%s", text if member.path in text else f"{member.path}: {text}")
        for member in before:
            if member not in failures:
                log.warning("%s: read again", member.path)


def _one_of_each(answers: Mapping[Member, StoreFigures], failures: dict[Member, Exception]) -> set[Member]:
    """Return the stores whose figures count; two different logs of one name are failures."""
    of: dict[str, list[Member]] = {}
    for member in answers:
        of.setdefault(member.broker, []).append(member)
    chosen = set()
    for members in of.values():
        if len(members) == 1:
            chosen.add(members[0])
            continue
        try:
            chosen.add(furthest([(member, answers[member].snapshot) for member in members], Report()))
        except FlintError as error:
            failures.update(dict.fromkeys(members, error))
    return chosen
