"""Deleting a topic: what goes, what stays, what comes back, and what a kill or a power cut leaves."""

import errno
import os
import random
import shutil
import threading
import time
from collections.abc import Callable

import pytest

import flintmq
from flintmq import GetMessageStatus, Message, MessageStore, TopicSettings
from flintmq.errors import (
    CorruptStoreError,
    MessageNotFoundError,
    StoreError,
    UnknownTopicError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.forensics.rebuild import rebuild
from flintmq.store.layout import deleted_topics
from flintmq.store.layout.config_reader import read_config
from tests.sim.disk import ROOT, Image, SimDisk
from tests.sim.states import Uncertain
from tests.support.engine import KEYS, open_small, put_all, put_dispatched
from tests.support.faults import Faulty


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    at, end = store.bounds(topic, queue_id)
    while at < end:
        got = store.get(topic, queue_id, at, 100)
        found += [message.body[:6] for message in got.messages]
        assert got.next_begin_offset > at, got
        at = got.next_begin_offset
    return found


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(first, first + count)]


def killed(store: MessageStore) -> None:
    """End a store as a kill does: nothing is written any more, and `abort` stays."""
    store._parts.failure.set("killed by the test")
    with pytest.raises(StoreError, match="killed by the test"):
        store.close()


def test_a_topic_goes_with_settings_queues_and_offsets_and_its_records_stay(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 20)
        put_dispatched(store, 5, topic="U")
        store.commit_offset("g", "T", 0, 7)
        store.commit_offset("g", "U", 0, 3)
        store.create_topic("T", TopicSettings(4, 4, attributes={"message.type": "FIFO"}))
        store.delete_topic("T")
        assert store.topics().keys() == {"U"} and store.group_offsets("g") == {("U", 0): 3}
        on_disk = read_config(str(tmp_path))
        assert on_disk.topics.keys() == {"U"} and on_disk.consumer_offsets == {("U", "g"): {0: 3}}
        assert not (tmp_path / "consumequeue" / "T").exists() and store.bounds("T", 0) == (0, 0)
        assert store.get("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        assert bodies(store, "U") == numbered(0, 5)
        assert sum(1 for _ in store) == 25 and [m.topic for m in store.query("T", "k7")] == ["T"]
        store.delete_topic("T")
        store.delete_topic("never-there")
    with open_small(tmp_path) as store:
        assert store.topics().keys() == {"U"} and store.bounds("T", 0) == (0, 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("remade", [0, 3])
def test_a_topic_that_is_made_again_begins_at_0_without_old_messages(tmp_path, clean, remade):
    store = open_small(tmp_path)
    put_dispatched(store, 20)
    put_dispatched(store, 3, topic="U")
    store.delete_topic("T")
    store.create_topic("T", 4)
    if remade:
        put_dispatched(store, remade, 100)
    (store.close if clean else lambda: killed(store))()
    for _ in range(2):
        with open_small(tmp_path) as store:
            assert store.bounds("T", 0) == (0, remade) and bodies(store) == numbered(100, remade)
            assert bodies(store, "U") == numbered(0, 3)
        with flintmq.open_store(tmp_path) as view:
            assert view.bounds("T", 0) == (0, remade)
    with open_small(tmp_path) as store:
        assert store.put(Message("T", b"next")).queue_offset == remade


def test_undispatched_messages_are_deleted_too(tmp_path):
    with MessageStore(tmp_path, KEYS, services=False) as store:
        put_all(store, 5)
        store.delete_topic("T")
        put_all(store, 2, 100)
        assert store.wait_dispatched(60) and bodies(store) == numbered(100, 2)


def test_lost_queues_are_rebuilt_without_the_old_messages(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 20)
        put_dispatched(store, 9, topic="U")
        store.delete_topic("T")
        put_dispatched(store, 2, 100)
    shutil.rmtree(tmp_path / "consumequeue")
    with open_small(tmp_path) as store:
        assert bodies(store) == numbered(100, 2) and bodies(store, "U") == numbered(0, 9)


def test_a_view_a_rebuild_and_verify_leave_the_old_messages_out(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    with open_small(root) as store:
        put_dispatched(store, 20)
        put_dispatched(store, 3, topic="U")
        store.delete_topic("T")
        store.create_topic("T")
        with store.view() as view:
            assert view.bounds("T", 0) == (0, 0)
            with pytest.raises(MessageNotFoundError):
                view.get("T", 0, 0)
    rebuild(str(root), str(out))
    assert sorted(path.name for path in (out / "consumequeue").iterdir()) == ["U"]
    assert flintmq.verify(str(root)).defects == []


def test_the_same_topic_can_be_of_the_other_type(tmp_path):
    with open_small(tmp_path) as store:
        store.create_topic("T", 1, "BatchCQ")
        store.put_batch([Message("T", b"a"), Message("T", b"b")])
        assert store.wait_dispatched(60) and store.bounds("T", 0) == (0, 2)
        store.delete_topic("T")
        assert not (tmp_path / "batchconsumequeue" / "T").exists()
        store.create_topic("T", 1)
        put_dispatched(store, 2)
        assert bodies(store) == numbered(0, 2)
        store.delete_topic("T")
        store.create_topic("T", 1, "BatchCQ")
        store.put_batch([Message("T", b"c"), Message("T", b"d")])
        assert store.wait_dispatched(60) and store.bounds("T", 0) == (0, 2)
    with open_small(tmp_path) as store:
        assert store.bounds("T", 0) == (0, 2) and not (tmp_path / "consumequeue" / "T").exists()


def test_the_note_goes_once_the_log_begins_after_it_and_is_cut_with_the_log(tmp_path):
    deletion = deleted_topics.Deletion(500, 1)
    within = deleted_topics.within
    assert within({b"T": deletion}, 499, 900) == {b"T": deletion} and within({b"T": deletion}, 500, 900) == {}
    assert within({b"T": deletion}, 0, 300) == {b"T": deletion._replace(offset=300)}
    undone = deletion._replace(done=False)
    assert within({b"T": undone}, 500, 900) == {b"T": undone}
    assert deletion.covers(499, 1) and not deletion.covers(500, 1) and not deletion.covers(499, 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut off"),
        (b"{", "cut off"),
        (b"[]", "no JSON object"),
        (b'{"format":1,"topics":[[1,2,3,true]]}', "a row has members of another type"),
        (b'{"format":1}', "KeyError"),
    ],
)
def test_a_malformed_note_is_refused_by_who_makes_units_and_said_by_who_reads(tmp_path, caplog, data, reason):
    root = tmp_path / "store"
    with open_small(root) as store:
        put_dispatched(store, 2)
    note = root / "flintmq.deleted"
    note.write_bytes(data)
    for makes_units in (open_small, lambda root: rebuild(str(root), str(tmp_path / "out"))):
        with pytest.raises(CorruptStoreError) as refused:
            makes_units(root)
        assert str(refused.value) == (
            f"{note}, position 0: it cannot be understood ({reason}); bring it back from a backup, or move it away: "
            "then deleted topics may get their messages back"
        )
    assert note.read_bytes() == data and not (tmp_path / "out").exists()
    with flintmq.open_store(root, set=KEYS) as view:
        assert view.get("T", 0, 1).body[:6] == b"000001" and list(view.broker.topics) == ["T"]
    assert f"{note}, position 0: it cannot be understood ({reason}); deleted topics may show their" in caplog.text
    found = flintmq.verify(str(root))
    assert found.defect_counts == {"deleted-bad": 1} and found.defects[0].file == str(note)
    note.unlink()
    with open_small(root) as store:
        assert bodies(store) == numbered(0, 2)


def test_a_note_of_a_newer_version_is_refused_by_all(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 2)
    (tmp_path / "flintmq.deleted").write_bytes(b'{"format":2,"topics":[]}')
    with pytest.raises(UnsupportedFormatError, match="format 2 is not known here"):
        open_small(tmp_path)
    with flintmq.open_store(tmp_path, set=KEYS) as view, pytest.raises(UnsupportedFormatError):
        view.bounds("T", 0)


# -- who is amid it ------------------------------------------------------------------------------------------------


def test_a_held_get_is_answered(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 3)
        found = []
        waiting = threading.Thread(target=lambda: found.append(store.get("T", 0, 3, wait_ms=30_000)))
        waiting.start()
        time.sleep(0.2)
        began = time.monotonic()
        store.delete_topic("T")
        waiting.join(10)
        assert [one.status for one in found] == [GetMessageStatus.NO_MESSAGE_IN_QUEUE]
        assert time.monotonic() - began < 10


def test_a_consumer_of_it_raises_and_commits_nothing(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 3)
        with store.consumer("g", "T") as consumer, store.consumer("g", "U", queues=[0]) as other:
            assert len(consumer.poll()) == 3
            store.delete_topic("T")
            put_dispatched(store, 2, 100)
            for call in (consumer.poll, consumer.commit, consumer.lag, lambda: next(iter(consumer))):
                with pytest.raises(UnknownTopicError, match="was deleted"):
                    call()
            assert other.poll() == [] and store.group_offsets("g") == {}
        with store.consumer("g", "T") as consumer:
            assert [message.body[:6] for message in consumer.poll()] == numbered(100, 2)


def test_a_view_of_another_process_is_answered_by_errors_and_sees_the_new_topic(tmp_path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 30)
        with flintmq.open_store(tmp_path) as old, flintmq.open_store(tmp_path) as read:
            assert read.get("T", 0, 29).body[:6] == b"000029"
            store.delete_topic("T")
            put_dispatched(store, 2, 100)
            for view in (old, read):
                for offset in (0, 15, 29):
                    try:
                        assert view.get("T", 0, offset).body[:6] in numbered(0, 30) + numbered(100, 2)
                    except MessageNotFoundError:
                        pass
                view.refresh()
                assert view.bounds("T", 0) == (0, 2) and view.get("T", 0, 1).body[:6] == b"000101"
                with pytest.raises(MessageNotFoundError):
                    view.get("T", 0, 2)


def test_d24_puts_of_other_threads_meanwhile_are_all_there(tmp_path):
    with MessageStore(tmp_path, dev=True) as store:
        stop, offsets = threading.Event(), []

        def put() -> None:
            while not stop.wait(0.0005):
                offsets.append((store.put(Message("T", b"x")).queue_offset, store.put(Message("U", b"y")).queue_offset))

        putter = threading.Thread(target=put)
        putter.start()
        for _ in range(20):
            time.sleep(0.01)
            store.delete_topic("T")
        stop.set()
        putter.join()
        assert store.wait_dispatched(60)
        assert [other for _, other in offsets] == list(range(len(offsets)))
        begins = [at for at, (offset, _) in enumerate(offsets) if offset == 0]
        assert len(begins) > 10
        last = len(offsets) - begins[-1] if store.topic("T") and store.bounds("T", 0)[1] else 0
        assert store.bounds("T", 0) == (0, last) and bodies(store) == [b"x"] * last


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_x", "", "a/b", "%LMQ%x", "t" * 128])
def test_names_that_are_refused(tmp_path, name):
    with open_small(tmp_path) as store, pytest.raises(UsageError):
        store.delete_topic(name)


def test_a_slave_and_a_store_without_queues_refuse(tmp_path):
    with MessageStore(tmp_path / "slave", dev=True, broker_role="SLAVE") as store:
        with pytest.raises(UsageError, match="slave"):
            store.delete_topic("T")
    with MessageStore(tmp_path / "external", dev=True, dispatch="external") as store:
        with pytest.raises(UsageError, match="needs queues"):
            store.delete_topic("T")


def test_retry_topics_of_its_pop_consumers_go_too(tmp_path):
    with open_small(tmp_path) as store:
        for topic in ("T", "%RETRY%g_T", "%RETRY%g+T", "%RETRY%g", "%RETRY%h_T"):
            put_dispatched(store, 1, topic=topic)
        store.commit_offset("g", "T", 0, 1)
        store.delete_topic("T")
        assert store.topics().keys() == {"%RETRY%g", "%RETRY%h_T"}


def test_figures_count_the_new_messages_only(tmp_path):
    with open_small(tmp_path) as store:
        put_all(store, 5)
        store.delete_topic("T")
        put_all(store, 2)
    with open_small(tmp_path) as store:
        put_all(store, 3)
        store.delete_topic("T")
        assert store.stats().puts == 3, "it never falls"
        put_all(store, 1)
        assert store.stats().puts_by_topic == {"T": 1} and store.stats().puts == 4


# -- stops ---------------------------------------------------------------------------------------------------------


def test_a_disk_that_refuses_leaves_the_topic_or_the_next_call_deletes_it(tmp_path):
    for number in range(60):
        root, disk = tmp_path / str(number), Faulty()
        with open_small(root, disk) as store:
            put_dispatched(store, 8)
            put_dispatched(store, 4, topic="U")
            store._parts.housekeeping.save_now()
            disk.before = refuse_at(disk, len(disk.calls) + number)
            try:
                store.delete_topic("T")
                done = True
            except (OSError, StoreError):
                done = False
            disk.before = None
            if store._parts.failure:
                killed(store)
                continue
            if not done:
                store.delete_topic("T")
            assert store.topics().keys() == {"U"} and store.bounds("T", 0) == (0, 0)
            put_dispatched(store, 1, 100)
            assert bodies(store) == numbered(100, 1)
        if done:
            return
    raise AssertionError("there are more calls")


def refuse_at(disk: Faulty, number: int) -> Callable[[str, str], None]:
    def before(name: str, path: str) -> None:
        if len(disk.calls) == number:
            disk.calls.append(("refused", ""))
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    return before


def lives(disk: SimDisk) -> MessageStore:
    return MessageStore(ROOT, KEYS, effects=disk, services=False, unique_keys=False)


def filled(disk: SimDisk) -> MessageStore:
    store = lives(disk)
    put_all(store, 12)
    put_all(store, 3, queue_id=1)
    put_all(store, 4, topic="U")
    store.create_topic("T", TopicSettings(2, 2, attributes={"message.type": "FIFO"}))
    store.commit_offset("g", "T", 0, 7)
    store.commit_offset("g", "U", 0, 2)
    assert store.wait_dispatched(60)
    store._parts.checkpointer.write()
    store._parts.housekeeping.save_now()
    store.flush()
    return store


def check(image: Image, model: str, *, over: bool, again: int = 0) -> str:
    """Recover what a stop left: the topic is there as a whole, or not at all, and a second delete finishes.

    `over`: the first one had returned, and since then `again` new messages were made durable, and perhaps others came.
    """
    with lives(SimDisk(1, model, image)) as store:
        found, offsets = bodies(store), store.group_offsets("g")
        if not over and offsets == {("T", 0): 7, ("U", 0): 2}:
            assert (found, bodies(store, "T", 1)) == (numbered(0, 12), numbered(0, 3))
            assert store.topic("T") == TopicSettings(2, 2, attributes={"message.type": "FIFO"})
        else:
            assert bodies(store, "T", 1) == [] and offsets == {("U", 0): 2}
            assert found == numbered(100, len(found)) and len(found) >= again
            assert (store.topic("T") is not None) == bool(found) or over
        assert bodies(store, "U")[:4] == numbered(0, 4)
        store.delete_topic("T")
        assert store.topics().keys() == {"U"} and store.put(Message("T", b"again!")).queue_offset == 0
        shown = store.effects
    assert isinstance(shown, SimDisk)
    with lives(SimDisk(1, model, shown.shown())) as store:
        assert bodies(store) == [b"again!"] and bodies(store, "T", 1) == []
    return "there" if offsets == {("T", 0): 7, ("U", 0): 2} else "gone"


@pytest.mark.parametrize("model", ["journal", "ext4", "posix"])
@pytest.mark.parametrize("reopened", [False, True])
def test_d36_a_stop_at_any_moment_leaves_all_of_it_or_nothing(model, reopened):
    disk = SimDisk(7, model)
    store = filled(disk)
    if reopened:  # then the list of where queues ended is there
        store.close()
        disk = SimDisk(7, model, disk.shown())
        store = lives(disk)
    images: list[Image] = []
    chance = random.Random(7)

    def stop(name: str = "", path: str = "") -> None:
        images.append(disk.shown())
        uncertain = Uncertain.of(disk)
        images.extend(uncertain.image(state) for state in uncertain.choose(4, chance))

    disk.at_call = stop
    store.delete_topic("T")
    disk.at_call = None
    ends = [check(image, model, over=False) for image in images]
    assert {*ends} == {"there", "gone"} and len(ends) > 50
    images.clear()
    stop()
    disk.at_call = stop
    put_all(store, 3, 100)
    put_all(store, 2, 104, topic="U")
    store.flush()
    assert {check(image, model, over=True) for image in images} == {"gone"}
    images.clear()
    assert store.wait_dispatched(60)
    store._parts.checkpointer.write()
    store._parts.housekeeping.save_now()
    put_all(store, 9, 103)
    store.flush()
    stop()
    store.delete_topic("U")
    put_all(store, 1, 112)
    disk.at_call = None
    assert {check_again(image, model) for image in images} == {"gone"}


def check_again(image: Image, model: str) -> str:
    """Recover what a stop left some time after a deletion, while another topic is deleted."""
    with lives(SimDisk(1, model, image)) as store:
        found = bodies(store)
        assert found == numbered(100, len(found)) and len(found) >= 3
        assert bodies(store, "U") in ([], [*numbered(0, 4), *numbered(104, 2)])
        assert store.put(Message("T", b"next..")).queue_offset == len(found)
    return "gone"
