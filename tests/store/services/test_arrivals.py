"""MessageStore.on_arrival: who is called when messages can be read."""

import logging
import threading
from pathlib import Path

import pytest

from flintmq.message import Message
from tests.support.engine import message, open_small, put_dispatched
from tests.support.threads import within

Pairs = list[tuple[str, int]]


def test_each_queue_with_news_once_a_block(tmp_path: Path):
    calls: list[Pairs] = []
    with open_small(tmp_path) as store:
        store._parts.dispatch.stop()  # the test dispatches, so that all is one block
        end = store.on_arrival(calls.append)
        for number in range(6):
            store.put(message(number, "A", number % 2))
        store.put(message(6, "\u00e9"))
        assert store._parts.dispatch.dispatch_once() and not store._parts.dispatch.dispatch_once()
        assert [sorted(call) for call in calls] == [[("A", 0), ("A", 1), ("\u00e9", 0)]]
        store.put(message(7, "A", 1))
        assert store._parts.dispatch.dispatch_once()
        assert calls[1:] == [[("A", 1)]]
        end()
        store.put(message(8))
        assert store._parts.dispatch.dispatch_once()
        assert len(calls) == 2
        end()  # again, without effect


def test_light_and_batch_queues(tmp_path: Path):
    met: set[tuple[str, int]] = set()
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.create_topic("B", 1, "BatchCQ")
        store.on_arrival(met.update)
        store.put(Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        store.put_batch([Message("B", b"x"), Message("B", b"y")])
        assert store.wait_dispatched(60)
        assert within(lambda: met == {("T", 0), ("%LMQ%a", 0), ("B", 0)})


def test_what_is_told_can_be_read(tmp_path: Path):
    """In the callback already, which runs in the thread that dispatches."""
    found: list[tuple[int, str]] = []
    with open_small(tmp_path) as store:

        def read(pairs: Pairs) -> None:
            for topic, queue_id in pairs:
                high = store.bounds(topic, queue_id)[1]
                got = store.get_raw(topic, queue_id, high - 1)
                found.append((high, f"{threading.current_thread().name} {got.count}"))

        store.on_arrival(read)
        put_dispatched(store, 5)
        assert within(lambda: bool(found) and found[-1] == (5, "flintmq-dispatch 1"))


def test_an_error_is_logged_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    calls: list[str] = []

    def fails(pairs: Pairs) -> None:
        calls.append("fails")
        raise RuntimeError("of the callback")

    with open_small(tmp_path) as store, caplog.at_level(logging.ERROR, "flintmq.dispatch"):
        store.on_arrival(fails)
        store.on_arrival(lambda pairs: calls.append("next"))
        for number in range(3):
            put_dispatched(store, 1, number)
        assert len(store.get("T", 0, 0).messages) == 3
        assert within(lambda: calls == ["fails", "next"] * 3)
    assert [one.getMessage() for one in caplog.records] == [
        f"{tmp_path}: a callback of on_arrival failed, which is logged once"
    ]
    raised = caplog.records[0].exc_info
    assert raised and repr(raised[1]) == "RuntimeError('of the callback')"


def test_what_cannot_be_called_is_refused(tmp_path: Path):
    with open_small(tmp_path) as store, pytest.raises(TypeError, match="callback is of type str; give a function"):
        store.on_arrival("print")  # type: ignore[arg-type]
