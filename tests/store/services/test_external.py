"""dispatch="external": the log alone is written; queue offsets go on, and a normal start makes the rest whole."""

import os

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message, PutMessageStatus
from tests.support.engine import check_derived, message, open_small, put_all, records


def external(root, **keys):
    return open_small(root, dispatch="external", **keys)


def test_only_the_log_is_written(tmp_path):
    with external(tmp_path) as store:
        put_all(store, 20)
        store.put(Message("U", b"x", keys="k"))
        with store.view() as view:
            assert view.get("T", 0, 19).queue_offset == 19 and len(view.query("U", "k")) == 1
        assert len(list(store)) == 21
        for call in (lambda: store.get("T", 0, 0), lambda: store.wait_dispatched(1)):
            with pytest.raises(UsageError, match="external"):
                call()
    assert not {"consumequeue", "index", "abort"} & set(os.listdir(tmp_path))


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_offsets_go_on_without_queues(tmp_path, how):
    child = os.fork()
    if child == 0:
        store = external(tmp_path)
        put_all(store, 15)
        put_all(store, 3, queue_id=1)
        if how == "killed":
            os.kill(os.getpid(), 9)
        store.close()
        os._exit(0)
    os.waitpid(child, 0)
    with external(tmp_path) as store:
        assert [store.put(message(n, queue_id=n)).queue_offset for n in (0, 1, 2)] == [15, 3, 0]
    assert not {"consumequeue", "index"} & set(os.listdir(tmp_path))


def test_a_normal_start_makes_queues_and_index_whole(tmp_path):
    with open_small(tmp_path) as store:
        put_all(store, 12)
        store.wait_dispatched(10)
    with external(tmp_path) as store:
        put_all(store, 30, 12)
        put_all(store, 5, topic="New")
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(10) and len(store.query("T", "k40")) == 1
        assert [m.queue_offset for m in store.get("T", 0, 40).messages] == [40, 41][
            : len(store.get("T", 0, 40).messages)
        ]
    check_derived(tmp_path)


def test_a_queue_whose_messages_are_gone_goes_on_by_its_files(tmp_path):
    with open_small(tmp_path) as store:
        put_all(store, 5, topic="Old")
        put_all(store, 60)
        store.flush()
        assert store.wait_dispatched(10)
        while len(store._parts.files.files) > 1:
            with store._parts.log.lock:
                os.unlink(store._parts.files.drop_first().path)
        store._parts.retention.follow(store._parts.files.min_offset)
    with external(tmp_path) as store:
        assert store.put(Message("Old", b"x")).queue_offset == 5


def test_delayed_messages_wait_for_a_store_that_dispatches(tmp_path):
    with external(tmp_path, messageDelayLevel="1s") as store:
        assert store.put(Message("T", b"x", delay_level=1)).status is PutMessageStatus.PUT_OK
    assert [r.topic for r in records(tmp_path)] == [b"SCHEDULE_TOPIC_XXXX"]


def test_another_word_is_refused(tmp_path):
    with pytest.raises(UsageError, match='"thread" or "external"'):
        open_small(tmp_path, dispatch="none")


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_d35_queues_that_end_many_files_before_the_log_are_completed(tmp_path, how):
    """RocketMQ looks ten files back, and gives queue offsets a second time."""
    with open_small(tmp_path) as store:
        put_all(store, 5, size=300)
    with external(tmp_path) as store:
        put_all(store, 200, first=5, size=300)
    assert len(os.listdir(tmp_path / "commitlog")) > 15
    if how == "killed":
        (tmp_path / "abort").touch()
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(10)
        assert put_all(store, 1, first=205, size=300)[0].queue_offset == 205
    kept = records(tmp_path)
    assert [r.queue_offset for r in kept] == list(range(206))
    check_derived(tmp_path)
