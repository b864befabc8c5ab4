"""The end of a topic, against the golden stores' own lists of messages."""

import threading

import pytest

from flintmq.errors import MessageNotFoundError
from flintmq.forensics import topic_tail
from flintmq.forensics.topic_tail import TopicTail
from flintmq.message import Message
from flintmq.store.view import open_store
from tests.support.engine import KEYS, open_small


def offsets(messages):
    return [m.physical_offset for m in messages]


def rows(store, topic, **wanted):
    found = [r for r in store.live if r["topic"] == topic and all(r[k] in v for k, v in wanted.items())]
    return sorted(found, key=lambda row: row["physical_offset"])


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_the_newest_in_the_order_of_the_log(golden, count):
    store = golden("basic")
    wanted = [row["physical_offset"] for row in rows(store, "Orders")]
    with open_store(store.path) as view:
        assert offsets(TopicTail(view, "Orders").last(count)) == (wanted[-count:] if count else [])


def test_queues_and_tags(golden):
    store = golden("basic")
    wanted = rows(store, "库存", queue_id=(1, 3), tags=("TagA", "TagC"))
    with open_store(store.path) as view:
        tail = TopicTail(view, "库存", [1, 3], ["TagA", "TagC"])
        assert offsets(tail.last(40)) == [row["physical_offset"] for row in wanted[-40:]] and tail.complete
        since = wanted[len(wanted) // 2]["store_timestamp"]
        assert offsets(tail.since(since)) == [r["physical_offset"] for r in wanted if r["store_timestamp"] >= since]
        assert offsets(tail.since(0)) == [row["physical_offset"] for row in wanted]
        assert offsets(tail.since(1 << 60)) == []


def test_a_store_without_queues(golden, tmp_path):
    store = golden("basic").copy(tmp_path)
    for name in ("consumequeue", "index"):
        (store / name).rename(tmp_path / name)
    with open_store(store) as view:
        found = offsets(TopicTail(view, "Orders").last(5))
    assert found == [row["physical_offset"] for row in rows(golden("basic"), "Orders")[-5:]]


def test_it_looks_back_so_far_and_no_further(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_tail, "LOOKED_BACK", 50)
    with open_small(tmp_path) as store:
        for n in range(200):
            store.put(Message("T", b"%d" % n, tags="rare" if n == 3 else None))
    with open_store(tmp_path, set=KEYS) as view:
        tail = TopicTail(view, "T", tags=["rare"])
        assert tail.last(1) == [] and not tail.complete
        assert len(TopicTail(view, "T").last(60)) == 60, "as many as were asked for, all the same"
        assert [m.body for m in tail.since(0)] == [b"3"]


def test_what_comes_goes_on_where_the_newest_end(tmp_path):
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.put(Message("T", b"old"))
        store.wait_dispatched(60)
        with open_store(tmp_path, set=KEYS) as view:
            tail, light = TopicTail(view, "T", [0]), TopicTail(view, "%LMQ%a", expected=True)
            store.put(Message("T", b"1", queue_id=1))
            store.put(Message("U", b"2"))
            store.put(Message("T", b"3", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
            store.put(Message("T", b"4", sys_flag=4))  # prepared: it stands in no queue
            store.put(Message("T", b"5"))
            assert [m.body for m in tail.last(5)] == [b"old"], "the view is as it was"
            stop, got = threading.Event(), []
            for message in tail.coming(stop, poll_ms=10):
                got.append(message.body)
                if message.body == b"5":
                    stop.set()
            assert got == [b"3", b"5"]
            assert next(light.coming(threading.Event())).body == b"3"


def test_what_is_not_there_is_said(golden):
    with open_store(golden("basic").path) as view:
        for topic, queues, words in (
            ("Order", None, "'Order': there is no such topic; topics are Orders, Payments, Shipments, 库存$"),
            ("Orders", [9], "none of these queues has a message; its queues are 0, 1, 2, 3$"),
        ):
            with pytest.raises(MessageNotFoundError, match=words):
                TopicTail(view, topic, queues)
            assert TopicTail(view, topic, queues, expected=True).last(3) == []
