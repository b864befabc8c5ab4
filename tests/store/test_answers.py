"""What an open store answers through a view."""

import sys
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.errors import MissingExtraError, UsageError
from tests.support.engine import open_small


def test_by_key_by_order_and_by_view(tmp_path: Path):
    with open_small(tmp_path / "s") as store:
        store.put_many([Message("T", b"%d" % n, keys=f"k{n % 2}", queue_id=n % 3) for n in range(6)])
        assert store.wait_dispatched(60)
        assert [m.body for m in store.query("T", "k1")] == [b"1", b"3", b"5"]
        assert store.query("T", "none") == []
        assert [m.body for m in store] == [b"%d" % n for n in range(6)]
        with store.view() as view:
            assert view.get("T", 2, 1).body == b"5"
    for call in (
        lambda: store.query("T", "k1"),
        store.view,
        lambda: list(store),
        lambda: store.offset_at_time("T", 0, 1),
    ):
        with pytest.raises(UsageError, match="is closed"):
            call()


def test_messages_put_later_are_in_the_next_view(tmp_path: Path):
    with open_small(tmp_path / "s") as store:
        store.put(Message("T", b"first"))
        assert [m.body for m in store] == [b"first"]
        store.put(Message("T", b"second"))
        assert [m.body for m in store] == [b"first", b"second"]


def test_without_pyarrow_one_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "flintmq.arrow.queue_batch", raising=False)
    with open_small(tmp_path) as store, pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[arrow\]'"):
        store.get_batch("T", 0, 0)


@pytest.mark.parametrize("method", ["get_batch", "get_raw", "bounds"])
def test_queues_need_an_open_store_that_has_them(tmp_path: Path, method: str):
    asked = ("T", 0) if method == "bounds" else ("T", 0, 0)
    with (
        open_small(tmp_path, dispatch="external") as store,
        pytest.raises(UsageError, match=f"{method} needs queues"),
    ):
        getattr(store, method)(*asked)
    with pytest.raises(UsageError, match="is closed"):
        getattr(store, method)(*asked)
