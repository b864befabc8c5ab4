"""Figures of a running broker as Prometheus reads them.

Names and labels are RocketMQ's where it has them (BrokerMetricsManager, ConsumerLagCalculator). Nothing is counted for
a page that is not counted anyhow: it comes of the tables as they are, read by the thread that asks. So the loop is held
up by nobody; a figure may be a request older than the next one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from contextlib import suppress
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.pop import Pops
from flintmq.broker.receipts import RETRIES, RETRIES_V2, asked_topic, pop_retry_topic
from flintmq.broker.recent import Recent
from flintmq.broker.routes import Routes
from flintmq.broker.served import READABLE, WRITABLE, Offsets, Place
from flintmq.broker.served_store import ServedStore
from flintmq.broker.served_view import ServedView
from flintmq.broker.stats import BrokerStats
from flintmq.errors import FlintError
from flintmq.format.group_topics import DEAD, RETRY, retry_topic
from flintmq.message import StoredMessage
from flintmq.metrics.engine import add_engine
from flintmq.metrics.families import group_labels, is_system, labels_of
from flintmq.metrics.page import BROKER_METRICS, ENGINE_METRICS, Page
from flintmq.remoting.frames import VERSION, release_name
from flintmq.storage.files.filesystem import REAL
from flintmq.store.view import StoreView

TIMES_S: Final = 2.0  # for looking up how old messages are
_LANGUAGE_MAX: Final = 20  # letters
_Pair = tuple[bool, str, str, bool]
"""The key of a group and a topic: whether it is shown last, topic asked for, group, whether its retries are meant."""
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class BrokerPage:
    """Writes the figures of a broker as Prometheus text. Thread: any.

    Args:
        pops: None: nobody pops here.
        most: samples of one metric.
    """

    def __init__(
        self,
        served: ServedStore | ServedView,
        offsets: Offsets,
        clients: Clients,
        recent: Recent,
        routes: Routes,
        pops: Pops | None,
        most: int,
    ) -> None:
        self._served, self._offsets, self._clients, self._recent = served, offsets, clients, recent
        self._pops, self._most, self._labels = pops, most, labels_of(routes.name, routes.cluster)
        self._now_ms = served.store.effects.now_ms if isinstance(served, ServedStore) else REAL.now_ms

    def text(self, stats: BrokerStats, languages: Iterable[str]) -> str:
        """Return the text. `languages`: of the producers by gRPC."""
        page, labels, served = Page(ENGINE_METRICS | BROKER_METRICS, self._most), self._labels, self._served
        permission = READABLE
        if isinstance(served, ServedStore):
            permission |= WRITABLE
            self._add_puts(page, served)
        page.add("rocketmq_broker_permission", permission, labels)
        got = dict(self._recent.got.messages)  # before the names: who is in it now, and not in them, is gone
        topics, groups = served.topic_names(), served.group_names()
        page.add("rocketmq_topic_number", len(topics), labels)
        page.add("rocketmq_consumer_group_number", len(groups), labels)
        self._add_got(page, got, topics, groups)
        self._add_clients(page, languages)
        self._add_lags(page, topics - set(map(retry_topic, groups)))
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

    def _add_got(
        self, page: Page, got: Mapping[tuple[str, str], int], topics: Set[str], groups: Collection[str]
    ) -> None:
        """Add what groups got, and forget what is counted of a topic or a group that was deleted."""
        messages, sizes = Counter[_Pair](), Counter[_Pair]()
        for key, count in got.items():
            if key[0] not in topics or key[1] not in groups:
                self._recent.got.forget(key)
            elif size := self._recent.got.sizes[key]:
                messages[_pair(*key)] += count
                sizes[_pair(*key)] += size
        for name, found in (("messages", messages), ("throughput", sizes)):
            for pair, count in sorted(found.items()):
                page.add(f"rocketmq_{name}_out_total", count, self._of(pair))

    def _of(self, pair: _Pair) -> dict[str, str]:
        _, topic, group, is_retry = pair
        return {**group_labels(self._labels, group, topic), "is_retry": _flag(is_retry)}

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

    def _add_lags(self, page: Page, retries: Set[str]) -> None:
        """Add how far each group is in the topics of its offsets, and in their retries.

        `retries`: topics, among them those of retries that a group has while it pops, also before it has an offset.
        """
        offsets, limit = dict(self._offsets.all()), time.monotonic() + TIMES_S
        for topic, group in list(offsets):
            for name in {pop_retry_topic(group, topic, kind) for kind in (RETRIES, RETRIES_V2)} & retries:
                facts = self._served.topic(name)
                queues = range(0 if facts is None else facts.read_queues)
                offsets[name, group] = {**dict.fromkeys(queues, 0), **offsets.get((name, group), {})}
        pairs = dict[_Pair, list[tuple[Place, int]]]()
        for (topic, group), found in offsets.items():
            pairs.setdefault(_pair(topic, group), []).extend(((topic, one), at) for one, at in found.items())
        page.left_out += max(len(pairs) - self._most, 0)
        with self._served.reading() as view:
            for pair in sorted(pairs)[: self._most]:
                self._add_lag(page, view, pair, pairs[pair], limit)

    def _add_lag(
        self, page: Page, view: StoreView, pair: _Pair, offsets: Iterable[tuple[Place, int]], limit: float
    ) -> None:
        of, oldest = self._of(pair), list[tuple[Place, int]]()
        ready, in_flight, is_popped, pops = 0, 0, False, self._pops
        for place, offset in offsets:
            low, high = self._served.bounds(*place)
            popped = pops.in_flight(pair[2], *place) if pops is not None else None
            waiting, following = (0, offset) if popped is None else popped
            unread = max(high - max(following, low), 0)
            if waiting or unread:
                oldest.append((place, max(offset, low)))
            ready, in_flight = ready + unread, in_flight + waiting
            is_popped |= pops is not None and (popped is not None or place[0] != pair[1])  # the latter: retries
        page.add("rocketmq_consumer_lag_messages", ready + in_flight, of)
        if is_popped:
            page.add("rocketmq_consumer_inflight_messages", in_flight, of)
            page.add("rocketmq_consumer_ready_messages", ready, of)
        if time.monotonic() > limit:
            page.left_out += 1
            return
        times = [ms for place, offset in oldest if (ms := _time(view, *place, offset)) is not None]
        page.add("rocketmq_consumer_lag_latency", max(self._now_ms() - min(times), 0) if times else 0, of)


def _pair(topic: str, group: str) -> _Pair:
    """Return the key of a topic from which a group gets messages.

    RocketMQ names the topic that the group asked for, also of its retries.
    """
    asked, is_retry = asked_topic(group, topic), topic.startswith(RETRY)
    return is_retry or is_system(asked, group), asked, group, is_retry


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
