"""The labs of the broker in short; `python -m labs.broker_kills` and its brothers are the long forms."""

import sys
import time
from pathlib import Path

import pytest

from labs import broker_cuts, broker_fuzz, broker_kills, broker_soak
from labs.broker.ledger import Sender
from labs.broker.watched import Watch
from labs.torture import report
from tests.robustness.crash.disks import why_not

PARTS = ["src/flintmq/broker/", "src/flintmq/remoting/", "labs/broker"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


@pytest.mark.nightly(of=PARTS)
def test_stock_clients_outlive_kills(tmp_path: Path):
    """Of Go alone, which starts at once; a second call goes on where the first one stopped."""
    state = report.State(tmp_path, kills=0, seed=3, rows=[], commits=[], begun="now")
    until = time.monotonic() + 60
    for kills in (2, 4):
        assert broker_kills.run(state, kills, ("ASYNC_FLUSH", "SYNC_FLUSH"), until, ("go",)) == []
    rows = [dict(zip(broker_kills.COLUMNS, row, strict=True)) for row in state["rows"]]
    assert [row["flush"] for row in rows] == ["ASYNC_FLUSH", "SYNC_FLUSH"]
    assert [row["kills"] for row in rows] == [2, 2]
    assert all(row["acknowledged"] > 20 and row["consumed"] > 20 for row in rows)


@pytest.mark.turn(2, of=PARTS)
@pytest.mark.parametrize("number", [0, 1], ids=["ext4", "xfs"])
def test_power_cuts(tmp_path: Path, number: int):
    kind = broker_cuts.KINDS[number]
    if why_not(kind):
        pytest.skip(why_not(kind))
    row, wrong = broker_cuts.one_disk(number, tmp_path / "disk", seed=2, most=2)
    assert wrong == [] and row[:2] == [kind, 2]


@pytest.mark.turn(2, of=PARTS)
def test_hostile_clients(tmp_path: Path):
    fuzz = broker_fuzz.Fuzz(tmp_path, seed=5, answer_s=30)  # beside other tests
    found = fuzz.run(6)
    assert found.wrong == []
    assert found.counted["acknowledged"] > 100 and fuzz.asked.counted["visits"] > 50
    assert len(fuzz.samples) > 3 and fuzz.watch.callbacks > 1000


@pytest.mark.turn(2, of=PARTS)
def test_soak(tmp_path: Path):
    soak = broker_soak.BrokerSoak(tmp_path, connections=20, seed=1)
    found = soak.run(8)
    assert found.wrong == []
    assert found.counted["acknowledged"] > 50 and found.counted["came and went"] > 3
    assert len(soak.samples) > 10


def test_a_slow_callback_is_a_line(capsys: pytest.CaptureFixture[str]):
    import asyncio

    real, watch = asyncio.Handle._run, Watch()
    watch.install()
    try:
        loop = asyncio.new_event_loop()
        loop.call_soon(time.sleep, 0.12)
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
    finally:
        asyncio.Handle._run = real
    assert watch.slow >= 1 and watch.callbacks > 2
    assert 120 <= watch.longest_ms < 5000 and watch.longest_cpu_ms < watch.longest_ms
    assert capsys.readouterr().err.startswith("slow callback: ")


def test_an_error_of_a_sender_is_named():
    class Broken(Sender):
        def send_once(self) -> None:
            raise ZeroDivisionError("by a test")

    sender = Broken("broken")
    sender.start()
    with pytest.raises(AssertionError, match="broken ended: ZeroDivisionError: by a test"):
        sender.stop(10)
