"""Measures how fast messages come and go, for `mqadmin brokerStatus` and `clusterList`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from flintmq.store.append.stats import StoreStats

WINDOWS_S: Final = (10, 60, 600)  # of RocketMQ's three figures


class _Sample(NamedTuple):
    at: float
    puts: int
    found: int  # reads that found messages
    missed: int
    got: int  # messages


class PutAndGetRates:
    """Samples of a store's counters. Thread: the loop's."""

    def __init__(self) -> None:
        self._samples = deque([_Sample(time.monotonic(), 0, 0, 0, 0)])

    def take(self, stats: StoreStats) -> None:
        """Keep the counters of now, and forget those that no window needs."""
        now = time.monotonic()
        self._samples.append(_Sample(now, stats.puts, stats.gets_found, stats.gets_missed, stats.messages_got))
        while len(self._samples) > 2 and self._samples[1].at < now - WINDOWS_S[-1]:
            self._samples.popleft()

    def shown(self, stats: StoreStats) -> Mapping[str, str]:
        """Return figures by RocketMQ's names; totals are since the broker's start, which is its day."""
        self.take(stats)
        return {
            "putTps": self._rates("puts"),
            "getFoundTps": self._rates("found"),
            "getMissTps": self._rates("missed"),
            "getTransferedTps": self._rates("got"),
            "msgPutTotalTodayNow": str(stats.puts),
            "msgPutTotalTodayMorning": "0",
            "msgPutTotalYesterdayMorning": "0",
            "msgGetTotalTodayNow": str(stats.messages_got),
            "msgGetTotalTodayMorning": "0",
            "msgGetTotalYesterdayMorning": "0",
            "putMessageAverageSize": f"{stats.put_average_size:.1f}",
            "dispatchBehindBytes": str(stats.dispatch_behind_bytes),
        }

    def _rates(self, name: str) -> str:
        last = self._samples[-1]
        rates = []
        for window in WINDOWS_S:
            first = next((one for one in self._samples if one.at >= last.at - window), self._samples[0])
            seconds = last.at - first.at
            rates.append((getattr(last, name) - getattr(first, name)) / seconds if seconds > 0 else 0.0)
        return " ".join(f"{rate:.1f}" for rate in rates)
