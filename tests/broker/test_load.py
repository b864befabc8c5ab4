"""Many connections: what they take is given back, and a broker starts and stops quickly."""

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flintmq.broker import Broker
from tests.broker.talk import Line, heartbeat, pull
from tests.support.threads import within

IDLE, PULLING, SECONDS = 200, 20, 2.0


def descriptors() -> int:
    """Open files of this process, without those that a look at the store opens for a moment."""
    counts = set[int]()
    for _ in range(30):
        counts.add(len(os.listdir("/proc/self/fd")))
        time.sleep(0.005)
    return min(counts)


def resident_kib() -> int:
    """Memory of this process that is not of files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def load(broker: Broker, seconds: float) -> int:
    """200 connections that say hello and are idle, and 20 that pull, for so long; return the number of pulls."""
    stop, counts = threading.Event(), list[int]()

    def pulling(number: int) -> None:
        with Line(broker.address) as talk:
            talk.ask(34, body=heartbeat(f"p{number}", "G", topics={"T": "*"}))
            count = 0
            while not stop.is_set():
                assert talk.ask(11, pull(offset=count % 30)).code == 0
                talk.ask(11, pull(offset=30, sysFlag=6, suspendTimeoutMillis=5))
                count += 2
            counts.append(count)

    threads = [threading.Thread(target=pulling, args=(number,)) for number in range(PULLING)]
    idle = [Line(broker.address) for _ in range(IDLE)]
    try:
        for number, one in enumerate(idle):
            assert one.ask(34, body=heartbeat(f"i{number}", f"G{number}")).code == 0
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        assert broker.stats().connections == IDLE + PULLING
        stop.set()
        for thread in threads:
            thread.join(20)
    finally:
        stop.set()
        for one in idle:
            one.close()
    assert len(counts) == PULLING
    return sum(counts)


def test_memory_and_descriptors_are_given_back(served: Callable[..., Broker], resting: Path):
    broker = served(resting)
    load(broker, 0.3)  # what the first of each kind takes for good
    assert within(lambda: broker.stats().connections == 0)
    gc.collect()
    before = descriptors(), resident_kib()
    pulls = load(broker, SECONDS)
    assert within(lambda: broker.stats().connections == 0)
    gc.collect()
    after = descriptors(), resident_kib()
    print(f"{pulls} pulls; descriptors {before[0]} -> {after[0]}; KiB {before[1]} -> {after[1]}")
    # What earlier tests left may close meanwhile.
    assert pulls > 100 and after[0] <= before[0] and after[1] - before[1] < 8 << 10
    stats = broker.stats()
    assert (stats.held, stats.failed, stats.broken) == (0, 0, 0) and not any(stats.groups.values())


def test_start_and_stop_leave_nothing(resting: Path):
    """A fixture of a test: each one has a broker of its own."""
    before, threads, times = descriptors(), threading.active_count(), []
    for _ in range(10):
        begin = time.monotonic()
        with Broker(resting, read_only=True) as broker:
            assert broker.address
        times.append(time.monotonic() - begin)
    print(f"start and stop: {min(times) * 1000:.1f} ms at best, {sorted(times)[5] * 1000:.1f} ms in the middle")
    assert descriptors() == before and threading.active_count() == threads
    assert min(times) < 1
