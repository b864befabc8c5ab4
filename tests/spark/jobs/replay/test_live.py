"""The pace of a replay, and how far it says that it is."""

import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import StoreLockedError, UsageError
from flintmq.message import Message
from flintmq.spark.jobs.replay import live
from flintmq.spark.jobs.replay.exactly_once import WriterIds
from flintmq.spark.jobs.replay.live import Pace, Position
from flintmq.spark.jobs.replay.rows import SourceRow
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.replay.replaying import SMALL, bulk
from tests.support.own_time import own_time


@pytest.mark.parametrize(("text", "factor"), [("max", None), ("original", 1.0), ("x10", 10.0), ("x0.5", 0.5)])
def test_speeds(text: str, factor: float | None) -> None:
    assert Pace.parse(text).factor == factor


@pytest.mark.parametrize("text", ["", "10", "x", "x-1", "x0", "x1e9", "Max", "xinf"])
def test_what_is_no_speed(text: str) -> None:
    with pytest.raises(UsageError, match="original, xN"):
        Pace.parse(text)


def test_messages_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    own_time(monkeypatch, live, monotonic=lambda: now)
    pace = Pace(10)
    assert pace.wait(5000) == 0
    assert pace.wait(7000) == pytest.approx(0.2)
    now = 100.3
    assert pace.wait(7000) == pytest.approx(-0.1) and pace.wait(4000) < 0
    assert Pace(None).wait(10**15) == 0


def test_a_position_comes_back(tmp_path: Path) -> None:
    at = Position(SourceRow(10, 2, 100, 77), 5000, 3, True)
    at.write(WriterIds(str(tmp_path)), "a")
    assert Position.read(WriterIds(str(tmp_path)), "a") == at
    assert Position.read(WriterIds(str(tmp_path)), "b") is None


def test_the_original_distance_takes_its_time(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "old", dev=True) as store:
        store.put(Message("T", b"1"))
        time.sleep(0.3)
        store.put(Message("T", b"2"))
    began = time.monotonic()
    assert bulk(tmp_path / "old", tmp_path / "new", live=True, speed="original").rows == 2
    assert time.monotonic() - began >= 0.3


def test_a_store_that_is_open_is_left_alone(golden: Any, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", SMALL) as store, pytest.raises(StoreLockedError):
        bulk(golden("basic").path, store.root)
