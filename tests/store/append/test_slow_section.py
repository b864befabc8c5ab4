"""Puts are refused while another one keeps the put lock for too long."""

import threading
import time
from pathlib import Path

import pytest

from flintmq.message import Outcome, PutMessageStatus
from flintmq.store.append.slow_section import SlowPart
from tests.support.engine import message, open_small, put_all
from tests.support.faults import Faulty
from tests.support.threads import within


class Clock(Faulty):
    seconds = 1.0

    def monotonic(self) -> float:
        return self.seconds


def test_it_is_busy_after_the_limit_and_until_it_ends(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    part = SlowPart(clock, "store")
    assert not part.busy(0)
    with part:
        clock.seconds += 1.0
        assert not part.busy(1000)
        clock.seconds += 0.5
        assert part.busy(1000) and not part.busy(2000)
        clock.seconds += 100_000
        assert not part.busy(1000), "a clock that went mad, says upstream"
        clock.seconds -= 100_000
    assert not part.busy(0) and part.longest_ms == 1500
    with part:
        clock.seconds += 0.1
    assert part.longest_ms == 1500 and len(caplog.records) == 1


def test_an_error_ends_it():
    part = SlowPart(Clock(), "store")
    with pytest.raises(OSError), part:
        raise OSError
    assert not part.since


def test_a_put_that_waits_for_a_file_makes_others_fail_fast(tmp_path: Path):
    """OS_PAGE_CACHE_BUSY, as upstream; nothing is stored, and later it goes on."""
    effects, let_go = Faulty(), threading.Event()
    with open_small(tmp_path, effects, osPageCacheBusyTimeOutMills="50") as store:
        effects.before = lambda name, path: let_go.wait(5) if name == "create" and "commitlog" in path else None
        slow = threading.Thread(target=put_all, args=(store, 1))
        slow.start()
        assert within(lambda: store._parts.log.slow.since)
        time.sleep(0.06)
        began = time.monotonic()
        result = store.put(message(1))
        assert (result.status, result.outcome) == (PutMessageStatus.OS_PAGE_CACHE_BUSY, Outcome.FAILED)
        assert time.monotonic() - began < 1
        let_go.set()
        slow.join()
        assert store.put(message(2)).queue_offset == 1
        assert store.stats().puts_refused == {"OS_PAGE_CACHE_BUSY": 1}
        assert store.stats().longest_in_lock_ms >= 50
