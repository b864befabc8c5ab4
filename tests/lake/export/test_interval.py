"""An export of a live store makes one version an interval, unless a batch was full."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import UsageError
from flintmq.lake.export.export_stream import export_stream


class Waits(threading.Event):
    """Ends an export at its `last` wait for the next interval, and notes the seconds of each."""

    def __init__(self, last: int, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._last, self._meanwhile = last, meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        self._meanwhile()
        return len(self.seconds) == self._last


def live(tmp_path: Path, waits: int, **choices: Any) -> tuple[list[int], Waits]:
    """Rows of each version while a store is written to all the time, and the waits between."""
    with MessageStore(tmp_path / "store") as store:

        def put(count: int = 30) -> None:
            store.put_many([Message("T", b"x", queue_id=0) for _ in range(count)])
            assert store.wait_dispatched(30)

        put()
        rows: list[int] = []
        stop = Waits(waits, put)

        def on_batch(done: Any) -> None:
            rows.append(done.rows)
            put(3)  # so there always is more

        export_stream(
            str(tmp_path / "store"), str(tmp_path / "out"), interval_s=60.0, stop=stop, on_batch=on_batch, **choices
        )
    return rows, stop


def test_a_live_store_makes_one_version_an_interval(tmp_path: Path) -> None:
    rows, stop = live(tmp_path, 4)
    assert rows == [30, 33, 33, 33]
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == len(rows) == len(stop.seconds)


def test_the_interval_is_from_begin_to_begin(tmp_path: Path) -> None:
    _, stop = live(tmp_path, 2)
    assert all(0 < seconds < 60 for seconds in stop.seconds)


@pytest.mark.parametrize(("limit", "rows", "waits"), [(20, [20, 13, 20, 16], 2), (33, [30, 33, 33], 3)])
def test_a_full_batch_is_followed_at_once(tmp_path: Path, limit: int, rows: list[int], waits: int) -> None:
    assert live(tmp_path, waits, max_offsets=limit)[0] == rows


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_is_no_interval_is_refused(tmp_path: Path, seconds: float) -> None:
    """A wait for less than nothing, or for NaN, ends at once: the export would look at the store all the time."""
    with MessageStore(tmp_path / "store") as store:
        store.put(Message("T", b"x"))
    with pytest.raises(UsageError, match="interval_s="):
        export_stream(str(tmp_path / "store"), str(tmp_path / "out"), interval_s=seconds)
    assert not (tmp_path / "out").exists()
