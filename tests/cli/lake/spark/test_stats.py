"""`flintmq spark stats`: the command with the job replaced; the job itself is tested in tests/spark/jobs."""

import sys
from typing import Any

import pytest

from flintmq.lake.stats.accumulate import Tally
from flintmq.lake.stats.lag import Lag
from flintmq.lake.stats.statistics import Statistics, statistics
from tests.cli.conftest import Run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the job was asked; it answers with two queues of a topic."""
    calls: list[tuple[Any, ...]] = []

    class Session:
        def stop(self) -> None:
            calls.append(("stopped",))

    def job(*args: Any, **kwargs: Any) -> Statistics:
        calls.append((args[1:], kwargs))
        tally = Tally()
        for queue, messages in ((0, 3000), (1, 1000)):
            tally.add_queue("A\x1b", queue, [messages, 512 * messages, messages, 5])
        tally.messages, tally.bytes, tally.first, tally.last = 4000, 2_048_000, 1_700_000_000_000, 1_700_000_002_000
        for second in (0, 1):
            tally.series.add(1_700_000_000_000 + 1000 * second, "A\x1b", [2000, 1_024_000, 0, 0, -1])
        return statistics(tally, [Lag("A\x1b", "g", 2, 12, 12)])

    monkeypatch.setattr("flintmq.spark.session", lambda *_args, **_conf: Session())
    monkeypatch.setattr(sys.modules["flintmq.spark.session"], "running", lambda: None)
    monkeypatch.setattr("flintmq.spark.jobs.stats.job.stats", job)
    return calls


def test_figures_for_people(run: Run, asked: list[tuple[Any, ...]]) -> None:
    result = run(
        "spark", "stats", "store", "--out", "r.html", "--topic", "A", "--since", "1700000000005", "--skip-damage"
    )
    assert (result.code, result.err) == (0, "")
    assert "messages  4000 (2.0 MiB) in 2 queues of 1 topics" in result.out
    assert "rate      2000/s, 1000.0 KiB/s; peak" in result.out
    assert "queue     A\\x1b/0: 3000 messages, 75.0% of its topic" in result.out
    assert "lag       g on A\\x1b: 12 messages" in result.out
    assert result.out.endswith("look      nothing is noticeable\nresult    r.html\n")
    (args, kwargs), stopped = asked
    assert (args, kwargs["root"], kwargs["out"]) == ((), "store", "r.html") and stopped == ("stopped",)
    assert (kwargs["topics"], kwargs["since"], kwargs["until"]) == (["A"], 1_700_000_000_005, None)
    assert kwargs["fail_on_data_loss"] is False


def test_the_same_figures_for_programs(run: Run, asked: list[tuple[Any, ...]]) -> None:
    result = run("spark", "stats", "store", "--json")
    [row] = result.rows
    assert (result.code, row["messages"], row["hot_queues"][0]["share"]) == (0, 4000, 0.75)
    assert (asked[0][1]["root"], asked[0][1]["out"]) == ("store", None)


def test_times_that_are_none(run: Run, asked: list[tuple[Any, ...]]) -> None:
    result = run("spark", "stats", "store", "--since", "yesterday")
    assert result.code == 2 and "--since" in result.err and asked == []
