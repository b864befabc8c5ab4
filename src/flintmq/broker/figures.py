"""Figures of a running broker as Prometheus reads them.

Names and labels are RocketMQ's where it has them (BrokerMetricsManager, ConsumerLagCalculator). Nothing is counted for
a page that is not counted anyhow: it comes of the tables as they are, read by the thread that asks. So the loop is held
up by nobody; a figure may be a request older than the next one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.pop import Pops, now_ms
from flintmq.broker.recent import Recent
from flintmq.broker.routes import Routes
from flintmq.broker.served import READABLE, WRITABLE, Offsets
from flintmq.broker.served_store import ServedStore
from flintmq.broker.served_view import ServedView
from flintmq.broker.stats import BrokerStats
from flintmq.errors import FlintError
from flintmq.format.group_topics import DEAD, RETRY
from flintmq.message import StoredMessage
from flintmq.metrics.engine import add_engine
from flintmq.metrics.families import group_labels, is_system, labels_of
from flintmq.metrics.page import BROKER_METRICS, ENGINE_METRICS, Page
from flintmq.remoting.frames import VERSION, release_name
from flintmq.store.view import StoreView

SAMPLES_MAX: Final = 1000  # of one metric: of so many topics, or pairs of a group and a topic
TIMES_S: Final = 2.0  # for looking up how old messages are
_LANGUAGE_MAX: Final = 20  # letters
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push"}


class BrokerPage:
    """Writes the figures of a broker as Prometheus text. Thread: any.

    Args:
        pops: None: nobody pops here.
    """

    def __init__(
        self,
        served: ServedStore | ServedView,
        offsets: Offsets,
        clients: Clients,
        recent: Recent,
        routes: Routes,
        pops: Pops | None,
    ) -> None:
        self._served, self._offsets, self._clients, self._recent = served, offsets, clients, recent
        self._pops, self._labels = pops, labels_of(routes.name, routes.cluster)

    def text(self, stats: BrokerStats, languages: Iterable[str]) -> str:
        """Return the text. `languages`: of the producers by gRPC."""
        page, labels, served = Page(ENGINE_METRICS | BROKER_METRICS, SAMPLES_MAX), self._labels, self._served
        permission = READABLE
        if isinstance(served, ServedStore):
            permission |= WRITABLE
            self._add_puts(page, served)
        page.add("rocketmq_broker_permission", permission, labels)
        page.add("rocketmq_topic_number", len(served.topic_names()), labels)
        page.add("rocketmq_consumer_group_number", len(served.group_names()), labels)
        for (topic, group), messages in sorted(dict(self._recent.got).items()):
            page.add("rocketmq_messages_out_total", messages, group_labels(labels, group, topic))
        for topic, size in sorted(dict(served.bytes_read).items()):
            page.add("rocketmq_throughput_out_total", size, {**labels, "topic": topic})
        self._add_clients(page, languages)
        self._add_lags(page)
        for name in ("connections", "held"):
            page.add(f"flintmq_broker_{name}", getattr(stats, name), labels)
        for name in ("accepted", "broken", "failed"):
            page.add(f"flintmq_broker_{name}_total", getattr(stats, name), labels)
        for request, count in stats.unsupported.items():
            page.add("flintmq_broker_unsupported_total", count, {**labels, "request": str(request)})
        page.add("flintmq_broker_left_out", page.left_out, labels)
        return page.text()

    def _add_puts(self, page: Page, served: ServedStore) -> None:
        """Add what was put; of a topic's messages all have the type that the topic says."""
        stats, labels = served.store.stats(), self._labels
        add_engine(page, stats, labels)
        for topic, puts in sorted(stats.puts_by_topic.items()):
            if topic.startswith(DEAD):
                group = topic.removeprefix(DEAD)
                of = {**labels, "consumer_group": group, "is_system": _flag(is_system("", group))}
                page.add("rocketmq_send_to_dlq_messages_total", puts, of)
            elif not topic.startswith(RETRY):
                kind = served.message_type(topic).lower() or "normal"
                of = {**labels, "topic": topic, "message_type": kind, "is_system": _flag(is_system(topic, ""))}
                page.add("rocketmq_messages_in_total", puts, of)

    def _add_clients(self, page: Page, languages: Iterable[str]) -> None:
        producers = Counter(_client(one.language, one.version) for one in self._clients.producers())
        producers.update(_client(language, VERSION) for language in languages)
        for (language, release), count in sorted(producers.items()):
            page.add("rocketmq_producer_connections", count, {**self._labels, "language": language, "version": release})
        members = Counter(
            (group, *_client(one.language, one.version), _MODES.get(str(one.settings.get("consumeType")), "other"))
            for group, members in self._clients.groups()
            for one in list(members.values())
        )
        names = "consumer_group", "language", "version", "consume_mode"
        for found, count in sorted(members.items()):
            of = {**self._labels, **dict(zip(names, found, strict=True)), "is_system": _flag(is_system("", found[0]))}
            page.add("rocketmq_consumer_connections", count, of)

    # -- lag ----------------------------------------------------------------------------------------------------------

    def _add_lags(self, page: Page) -> None:
        """Add how far each group is, of each topic that it has an offset of."""
        offsets, limit = self._offsets.all(), time.monotonic() + TIMES_S
        page.left_out += max(len(offsets) - SAMPLES_MAX, 0)
        with self._served.reading() as view:
            for topic, group in sorted(offsets)[:SAMPLES_MAX]:
                self._add_lag(page, view, topic, group, offsets[topic, group], limit)

    def _add_lag(
        self, page: Page, view: StoreView, topic: str, group: str, queues: Mapping[int, int], limit: float
    ) -> None:
        of, oldest = group_labels(self._labels, group, topic), list[tuple[int, int]]()
        ready, in_flight, is_popped = 0, 0, False
        for queue_id, offset in queues.items():
            low, high = self._served.bounds(topic, queue_id)
            popped = self._pops.in_flight(group, topic, queue_id) if self._pops is not None else None
            waiting, following = (0, offset) if popped is None else popped
            unread = max(high - max(following, low), 0)
            if waiting or unread:
                oldest.append((queue_id, max(offset, low)))
            ready, in_flight, is_popped = ready + unread, in_flight + waiting, is_popped or popped is not None
        page.add("rocketmq_consumer_lag_messages", ready + in_flight, of)
        if is_popped:
            page.add("rocketmq_consumer_inflight_messages", in_flight, of)
            page.add("rocketmq_consumer_ready_messages", ready, of)
        if time.monotonic() > limit:
            page.left_out += 1
            return
        times = [ms for place in oldest if (ms := _time(view, topic, *place)) is not None]
        page.add("rocketmq_consumer_lag_latency", max(now_ms() - min(times), 0) if times else 0, of)


def _time(view: StoreView, topic: str, queue_id: int, offset: int) -> int | None:
    """Return the store time of a message; None if it cannot be read."""
    with suppress(FlintError, OSError):
        found = view.get_raw(topic, queue_id, offset, 1)
        if found.count:
            return StoredMessage(found.data).store_timestamp
    return None


def _client(language: str, version: int) -> tuple[str, str]:
    """Return the labels of a client, of whatever it says of itself."""
    return language.lower()[:_LANGUAGE_MAX], release_name(version).lower()


def _flag(value: bool) -> str:
    return str(value).lower()
