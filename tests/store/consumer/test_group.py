"""Which consumer of a group has which queue, and what moves when one comes or goes."""

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from tests.support.engine import open_small


@pytest.fixture
def store(tmp_path):
    with open_small(tmp_path / "s") as store:
        for n in range(40):
            store.put(Message("T", b"%d" % n, queue_id=n % 4))
        assert store.wait_dispatched(60)
        yield store


def test_queues_are_shared_evenly_and_move_as_little_as_may_be(store):
    one = store.consumer("G", "T")
    assert one.queues == [0, 1, 2, 3]
    two = store.consumer("G", "T")
    assert one.queues == [0, 1] and two.queues == [2, 3]
    three = store.consumer("G", "T")
    assert [len(c.queues) for c in (one, two, three)] in ([2, 1, 1], [1, 2, 1])
    assert set(one.queues) <= {0, 1} and set(two.queues) <= {2, 3}, "who stays keeps what is his"
    store.put(Message("T", b"new", queue_id=9))
    assert store.wait_dispatched(60)
    assert sorted(q for c in (one, two, three) for q in c.queues) == [0, 1, 2, 3, 9]
    assert [len(c.queues) for c in (one, two, three)].count(2) == 2
    one.close(), two.close()
    assert three.queues == [0, 1, 2, 3, 9]
    assert store.consumer("H", "T").queues == [0, 1, 2, 3, 9], "another group has all of them"


def test_more_consumers_than_queues(store):
    found = [store.consumer("G", "T") for _ in range(6)]
    assert sorted(len(c.queues) for c in found) == [0, 0, 1, 1, 1, 1]
    assert sum(len(c.poll()) for c in found) == 40


def test_a_queue_that_moves_goes_on_where_the_group_committed(store):
    one = store.consumer("G", "T")
    one.seek(3, 6)
    assert one.commit({3: 6}) == {3: 6}
    one.poll(100)
    two = store.consumer("G", "T")
    assert sorted({m.queue_offset for m in two.poll(100) if m.queue_id == 3}) == [6, 7, 8, 9]
    assert set(one.commit()) == {0, 1}, "what it lost it cannot commit any more"
    assert store.consumer_offset("G", "T", 3) == 6 and store.consumer_offset("G", "T", 0) == 10
    two.close()
    assert [m.queue_offset for m in one.poll(100) if m.queue_id == 3] == [6, 7, 8, 9], "as nobody committed them"


def test_an_iterator_gives_nothing_of_a_queue_that_it_lost(store):
    one = store.consumer("G", "T", idle_ms=0)
    messages = iter(one)
    next(messages)
    two = store.consumer("G", "T")
    theirs = {(m.queue_id, m.queue_offset) for m in two.poll(100)}
    mine = {(m.queue_id, m.queue_offset) for m in messages}
    assert {q for q, _ in theirs} == {2, 3} and {q for q, _ in mine} == {0, 1}


def test_queues_that_were_asked_for_belong_to_nobody_else(store):
    one = store.consumer("G", "T", queues=[1, 7])
    two = store.consumer("G", "T")
    assert one.queues == [1] and two.queues == [0, 2, 3]
    with pytest.raises(UsageError, match=r"queues \[1\] belong to another of its consumers"):
        store.consumer("G", "T", queues=[1, 2])
    with pytest.raises(UsageError, match=r"not this consumer's; its queues are \[0, 2, 3\]"):
        two.seek(1, 0)
    store.put(Message("T", b"x", queue_id=7))
    assert store.wait_dispatched(60)
    assert one.queues == [1, 7]
    one.close()
    assert two.queues == [0, 1, 2, 3, 7]


def test_a_group_has_one_subscription(store):
    one = store.consumer("G", "T", tags="a||b")
    with pytest.raises(UsageError, match="'tags a || b' already"):
        store.consumer("G", "T", tags="a")
    store.consumer("G", "T", tags="b || a").close()
    one.close()
    store.consumer("G", "T", tags="a")


def test_latest_holds_for_a_queue_that_moves(store):
    one = store.consumer("G", "T", start="latest")
    for n in range(4):
        store.put(Message("T", b"new %d" % n, queue_id=n))
    assert store.wait_dispatched(60)
    assert len(one.poll()) == 4
    two = store.consumer("G", "T", start="latest")
    assert sorted(m.body for m in two.poll()) == [b"new 2", b"new 3"], "given again, since nobody committed them"
