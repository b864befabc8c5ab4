"""Shows how counters grew: `mqadmin statsAll`, `brokerStatus` and `clusterList`.

The first shows messages of the last minute, hour and day, those put to a topic, and those that a group got of it. The
others show how fast all of them come and go. Upstream: BrokerStatsManager, of which these are the two figures that
mqadmin asks for; StoreStatsService.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from flintmq.broker.requests import Answer, Handler, Refused, Request
from flintmq.broker.served import Served
from flintmq.remoting.names import GET_STATS, SYSTEM_ERROR
from flintmq.store.append.stats import StoreStats

SPANS: Final = {"statsMinute": (60.0, 5.0), "statsHour": (3600.0, 300.0), "statsDay": (86_400.0, 3600.0)}
"""RocketMQ's name -> seconds of the span, and from one sample to the next."""
RATES: Final = {"10": (10.0, 5.0), "60": (60.0, 5.0), "600": (600.0, 5.0)}
"""The same of its three figures of how fast messages come and go."""
PUTS, GETS = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
K = TypeVar("K", bound=Hashable)


class RecentCounts(Generic[K]):
    """Shows how much counters grew. Thread: the loop's.

    Args:
        totals: returns the counters, each of which only grows; one that begins anew counts as 0 until it has its size.
        now: a clock, in seconds.
        spans: as SPANS.
    """

    def __init__(
        self,
        totals: Callable[[], Mapping[K, int]],
        now: Callable[[], float] = time.monotonic,
        spans: Mapping[str, tuple[float, float]] = SPANS,
    ) -> None:
        self._totals, self._now, self._spans = totals, now, spans
        first = now(), dict(totals())
        self._samples = {name: deque([first]) for name in spans}

    def take(self) -> None:
        """Keep the counters of now where a sample is due, and forget those that no span needs."""
        now = self._now()
        for name, (span, step) in self._spans.items():
            samples = self._samples[name]
            if now - samples[-1][0] >= step:
                samples.append((now, dict(self._totals())))
            while len(samples) > 1 and samples[1][0] <= now - span:
                samples.popleft()

    def grown(self, key: K) -> Iterator[tuple[str, int, float]]:
        """Yield name of the span, by how much a counter grew in it, and how much that is a second."""
        self.take()
        now, total = self._now(), self._totals().get(key, 0)
        for name, samples in self._samples.items():
            at, before = samples[0]
            grown = max(total - before.get(key, 0), 0)
            yield name, grown, grown / max(now - at, 1.0)

    def shown(self, key: K) -> Mapping[str, Mapping[str, float]] | None:
        """Return RocketMQ's figures of a counter; None, as there, if nothing came for a day."""
        found = {name: {"sum": grown, "tps": round(rate, 2), "avgpt": 0.0} for name, grown, rate in self.grown(key)}
        return found if found["statsDay"]["sum"] else None


class Got:
    """Counts what groups get of topics, also of their retries. Thread: the loop's.

    Attributes:
        messages: by topic and group.
        sizes: their bytes, likewise.
    """

    def __init__(self) -> None:
        self.messages, self.sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def add(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count messages that a group gets; `size` 0: the metrics leave them out."""
        self.messages[topic, group] += messages
        if size:
            self.sizes[topic, group] += size

    def forget(self, key: tuple[str, str]) -> None:
        """Begin with 0 again. Thread: any."""
        self.messages.pop(key, None)
        self.sizes.pop(key, None)


class Recent:
    """Answers for messages that came and went. Thread: the loop's.

    Attributes:
        got: what groups got.
    """

    def __init__(self, served: Served) -> None:
        self.got = Got()
        self._puts, self._gets = RecentCounts(served.ends), RecentCounts(lambda: self.got.messages)

    def handlers(self) -> dict[int, Handler]:
        return {GET_STATS: self.stats}

    def sample(self) -> None:
        """Keep counters; to be called every few seconds."""
        self._puts.take()
        self._gets.take()

    def stats(self, request: Request) -> Answer:
        name, key = request.text("statsName"), request.text("statsKey")
        found = None
        if name == PUTS:
            found = self._puts.shown(key)
        elif name == GETS:
            topic, _, group = key.partition("@")
            found = self._gets.shown((topic, group))
        if found is None:
            raise Refused(SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return request.answer(body=json.dumps(found, separators=(",", ":")).encode())


class PutAndGetRates:
    """Shows how fast messages come and go. Thread: the loop's."""

    def __init__(self, stats: StoreStats, now: Callable[[], float] = time.monotonic) -> None:
        self._now = stats
        self._counts = RecentCounts(self._totals, now, RATES)

    def _totals(self) -> Mapping[str, int]:
        now = self._now
        names = "putTps", "getFoundTps", "getMissTps", "getTransferedTps"
        return dict(zip(names, (now.puts, now.gets_found, now.gets_missed, now.messages_got), strict=True))

    def take(self, stats: StoreStats) -> None:
        """Keep the counters of now; to be called every few seconds."""
        self._now = stats
        self._counts.take()

    def shown(self, stats: StoreStats) -> Mapping[str, str]:
        """Return figures by RocketMQ's names; totals are since the broker's start, which is its day."""
        self._now, none = stats, ("TotalTodayMorning", "TotalYesterdayMorning")
        return {
            **{name: " ".join(f"{rate:.1f}" for _, _, rate in self._counts.grown(name)) for name in self._totals()},
            **{f"msg{what}{when}": "0" for what in ("Put", "Get") for when in none},
            "msgPutTotalTodayNow": str(stats.puts),
            "msgGetTotalTodayNow": str(stats.messages_got),
            "putMessageAverageSize": f"{stats.put_average_size:.1f}",
            "dispatchBehindBytes": str(stats.dispatch_behind_bytes),
        }
