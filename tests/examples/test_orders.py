"""The engine of the demo: each order once, also when it is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from examples.demo import orders
from flintmq import open_store


def numbers(store: Path) -> list[int]:
    with open_store(store) as view:
        return [orders.number_of(message.keys) for message in view.messages()]


def test_it_goes_on_where_the_store_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, acks = tmp_path / "store", tmp_path / "acks"
    assert orders.main([str(store), "--orders", "450", "--rate", "0", "--acks", str(acks)]) == 0
    assert orders.main([str(store), "--orders", "1000", "--rate", "0"]) == 0
    assert orders.main([str(store), "--orders", "1000", "--rate", "0"]) == 0
    assert numbers(store) == list(range(1000))
    assert acks.read_text() == "200\n400\n450\n"
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["450", "550", "0"]


def test_killed_it_lacks_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    store, acks = tmp_path / "store", tmp_path / "acks"
    words = [
        sys.executable,
        "-m",
        "examples.demo.orders",
        store,
        "--orders",
        "1000000",
        "--rate",
        "0",
        "--acks",
        acks,
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (acks.exists() and acks.read_text().count("\n") > 5) and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    acknowledged = int(acks.read_text().splitlines()[-1])
    total = orders.next_number(store) + 300
    orders.take(store, total, 0)
    assert total - 300 >= acknowledged > 0
    assert numbers(store) == list(range(total))


def test_an_order_is_always_the_same() -> None:
    one, again = orders.order(77), orders.order(77)
    assert (one.topic, one.body, one.keys, one.queue_id) == (again.topic, again.body, "order-77", again.queue_id)
    assert json.loads(one.body)["order"] == 77


def test_the_rate_holds_in_the_mean() -> None:
    dues = [orders.due(count, 1000) for count in range(0, 64_001, 200)]
    assert dues[0] == 0 and dues[-1] == pytest.approx(64, abs=0.01)
    assert all(later > sooner for sooner, later in pairwise(dues))


def test_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        orders.main([str(tmp_path / "x"), "--orders", "-1"])
    assert "cannot be negative" in capsys.readouterr().err and not (tmp_path / "x").exists()
