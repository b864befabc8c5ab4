"""How many messages came and went in the last minute, hour and day: what `mqadmin statsAll` asks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.broker import Broker
from flintmq.broker.recent import SPANS, PutAndGetRates, RecentCounts
from flintmq.store.append.stats import StoreStats
from tests.broker.conftest import SMALL
from tests.broker.talk import Line, pull, send
from tests.support.threads import within

STATS, PULL, SEND = 315, 11, 310
PUTS, GETS = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"


def stats_of(puts: int, gets: int) -> StoreStats:
    """Counters of a store after so many puts of 200 bytes, and gets of four messages each."""
    return StoreStats(
        seconds=0, puts=puts, puts_refused={}, put_bytes=200 * puts, puts_by_topic={}, put_times={},
        longest_in_lock_ms=0, gets_found=gets, gets_missed=0, messages_got=4 * gets, commit_behind_bytes=0,
        flush_behind_bytes=0, dispatch_behind_bytes=7, log_bytes=0, pool_buffers_free=-1, memory_bytes=0,
        mapped_bytes=0,
    )  # fmt: skip


class Counted:
    """Counters and a clock that a test sets, and what is told of them."""

    def __init__(self, **totals: int) -> None:
        self.totals, self.now = totals, 1000.0
        self.recent = RecentCounts(lambda: self.totals, lambda: self.now)

    def pass_by(self, seconds: int, a_second: int = 0) -> None:
        """Let time pass, with so many messages each second; a sample is asked for each 5 s, as the broker does."""
        for second in range(seconds):
            self.now += 1
            self.totals["T"] += a_second
            if second % 5 == 4:
                self.recent.take()

    def sums(self) -> list[float] | None:
        """Of minute, hour and day."""
        found = self.recent.shown("T")
        return None if found is None else [found[name]["sum"] for name in SPANS]


def test_sums_are_of_their_spans():
    counted = Counted(T=500)
    assert counted.sums() is None, "what was there before does not count"
    counted.pass_by(30, 2)
    assert counted.sums() == [60, 60, 60]
    counted.pass_by(120)
    assert counted.sums() == [0, 60, 60]
    counted.pass_by(3800)
    assert counted.sums() == [0, 0, 60]
    counted.pass_by(86_400)
    assert counted.sums() is None


def test_a_steady_rate_is_the_same_in_each_span():
    counted = Counted(T=0)
    counted.pass_by(7200, 3)
    found = counted.recent.shown("T")
    assert found is not None
    assert {name: one["tps"] for name, one in found.items()} == dict.fromkeys(SPANS, 3.0)
    assert found["statsMinute"]["sum"] == pytest.approx(180, abs=15) and found["statsDay"]["sum"] == 21_600


def test_samples_do_not_pile_up():
    counted = Counted(T=0)
    counted.pass_by(90_000, 1)
    assert all(len(samples) <= 28 for samples in counted.recent._samples.values())


def test_a_topic_that_was_deleted_and_made_again():
    counted = Counted(T=100)
    counted.totals["T"] = 3
    assert counted.sums() is None
    counted.totals.pop("T")
    assert counted.sums() is None


def test_how_fast_messages_come_and_go():
    """Ten puts a second for a minute, then none; gets of four messages each, once a second all the time."""
    now = 0.0
    rates = PutAndGetRates(stats_of(0, 0), lambda: now)
    for second in range(5, 121, 5):
        now = float(second)
        rates.take(stats_of(10 * min(second, 60), second))
    shown = rates.shown(stats_of(600, 120))
    assert shown["putTps"] == "0.0 0.0 5.0" and shown["getFoundTps"] == "1.0 1.0 1.0"
    assert shown["getMissTps"] == "0.0 0.0 0.0" and shown["getTransferedTps"] == "4.0 4.0 4.0"
    totals = {name: shown[f"msg{name}TotalTodayNow"] for name in ("Put", "Get")}
    assert totals == {"Put": "600", "Get": "480"} and shown["putMessageAverageSize"] == "200.0"
    assert shown["dispatchBehindBytes"] == "7"
    for what in ("Put", "Get"):
        assert shown[f"msg{what}TotalTodayMorning"] == shown[f"msg{what}TotalYesterdayMorning"] == "0"


def told(line: Line, name: str, key: str) -> list[float] | str | None:
    answer = line.ask(STATS, {"statsName": name, "statsKey": key})
    if answer.code:
        assert answer.code == 1
        return answer.remark
    found = json.loads(answer.body)
    assert found.keys() == SPANS.keys() and all(one.keys() == {"sum", "tps", "avgpt"} for one in found.values())
    return [found[name]["sum"] for name in SPANS]


def test_what_a_broker_stores_and_gives(writing: Callable[..., Broker], line: Callable[[Broker], Line]):
    broker = writing()
    talk = line(broker)
    for number in range(5):
        assert talk.ask(SEND, send("T", number % 2), b"x").code == 0
    assert within(lambda: told(talk, PUTS, "T") == [5, 5, 5])
    assert talk.ask(PULL, pull("T", 0, 0, "G")).code == 0
    assert talk.ask(PULL, pull("T", 1, 1, "G")).code == 0
    assert talk.ask(PULL, pull("T", 1, 2, "G")).code == 19, "nothing there"
    assert told(talk, GETS, "T@G") == [4, 4, 4]
    for name, key in ((PUTS, "None"), (GETS, "T@Other"), (GETS, "T"), ("BROKER_PUT_NUMS", "T")):
        assert told(talk, name, key) == f"The stats <{name}> <{key}> not exist"
    assert talk.ask(STATS, {"statsName": PUTS}).remark == "the field statsKey is missing"


def test_messages_of_an_earlier_life_do_not_count(tmp_path: Path):
    none = "The stats <TOPIC_PUT_NUMS> <T> not exist"
    for count in (3, 1):
        with Broker(tmp_path / "store", config=SMALL) as broker, Line(broker.address) as talk:
            assert told(talk, PUTS, "T") == none
            for _ in range(count):
                assert talk.ask(SEND, send("T"), b"x").code == 0
            wanted = [count] * 3
            assert within(lambda talk=talk, wanted=wanted: told(talk, PUTS, "T") == wanted)


def test_a_store_that_is_only_read_has_no_puts(
    served: Callable[..., Broker], line: Callable[[Broker], Line], resting: Path
):
    talk = line(served(resting))
    assert talk.ask(PULL, pull("T", 0, 0, "G", maxMsgNums=7)).code == 0
    assert told(talk, GETS, "T@G") == [7, 7, 7]
    assert told(talk, PUTS, "T") == "The stats <TOPIC_PUT_NUMS> <T> not exist"
