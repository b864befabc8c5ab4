"""A broadcast: each member gets every message, and keeps its offsets in a file of its own."""

import asyncio
import json
import os
import shutil
import subprocess
import sys

import pytest

from flintmq.errors import StoreAccessError, StoreError, UnknownTopicError, UnsupportedFormatError, UsageError
from flintmq.store.view import open_store
from tests.support.engine import KEYS, open_small, put_dispatched
from tests.support.faults import Faulty, unclean

MEMBER = """
import sys, flintmq
with flintmq.open_store(sys.argv[1]) as view, view.consumer("G", "T", broadcast=sys.argv[2]) as consumer:
    consumer.seek(0, 1)
    print([message.queue_offset for message in consumer.poll()])
    consumer.commit()
"""


@pytest.fixture
def store(tmp_path):
    with open_small(tmp_path / "store") as store:
        yield store


@pytest.fixture
def file(tmp_path):
    return tmp_path / "member.json"


def numbers(messages):
    return [int(message.body[:6]) for message in messages]


def read_all(store, file, **more):
    """What a member gets from where it is, which it commits."""
    with store.consumer("G", "T", broadcast=file, idle_ms=0, **more) as consumer:
        found = numbers(consumer)
        consumer.commit()
    return found


def offsets(file):
    return {int(queue): row["offset"] for queue, row in json.loads(file.read_text())["offsets"].items()}


def test_each_member_gets_every_message_and_goes_on_where_it_was(store, tmp_path):
    put_dispatched(store, 6)
    put_dispatched(store, 4, 6, queue_id=1)
    store.commit_offset("G", "T", 0, 5)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    with (
        store.consumer("G", "T", broadcast=first) as one,
        store.consumer("G", "T", broadcast=second) as other,
        store.consumer("G", "T") as shared,
    ):
        assert sorted(numbers(one.poll())) == sorted(numbers(other.poll())) == list(range(10))
        assert sorted(numbers(shared.poll())) == [5, 6, 7, 8, 9], "the group's offsets are not theirs"
        assert one.commit() == {0: 6, 1: 4} and one.lag() == {0: 0, 1: 0} and one.committed(0) == 6
        assert other.commit({1: 2}) == {1: 2} and other.in_flight() == {0: 6, 1: 2}
    assert store.group_offsets("G") == {("T", 0): 5}
    assert (offsets(first), offsets(second)) == ({0: 6, 1: 4}, {1: 2})
    put_dispatched(store, 1, 10)
    assert read_all(store, first) == [10] and sorted(read_all(store, second)) == [0, 1, 2, 3, 4, 5, 8, 9, 10]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "second.json", "store"]


def test_members_in_other_processes_read_by_views(store, file):
    put_dispatched(store, 5)
    with open_store(store.root, set=KEYS) as view:
        assert read_all(view, file) == [0, 1, 2, 3, 4]
        put_dispatched(store, 2, 5)
        view.refresh()
        assert read_all(view, str(file)) == [5, 6]
        with view.consumer("G", "T", broadcast=file) as consumer:
            consumer.seek_to_earliest()
            assert len(consumer.poll()) == 7 and consumer.commit({0: 3}) == {0: 3}
    assert read_all(store, file) == [3, 4, 5, 6], "the store knows the file of a view"
    done = subprocess.run([sys.executable, "-c", MEMBER, store.root, file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[1, 2, 3, 4, 5, 6]\n"), done.stderr


def test_in_an_event_loop(store, file):
    put_dispatched(store, 5)

    async def of(consumer):
        return numbers([message async for message in consumer])

    for wanted in ([0, 1, 2, 3, 4], []):
        with store.consumer("G", "T", broadcast=file, idle_ms=0) as consumer:
            assert asyncio.run(of(consumer)) == wanted
            consumer.commit()


def test_where_a_new_member_begins(store, file, tmp_path):
    put_dispatched(store, 3)
    with store.consumer("G", "T", broadcast=file, start="latest") as consumer:
        put_dispatched(store, 1, 3)
        assert numbers(consumer.poll(wait_ms=5000)) == [3]
        consumer.commit()
    assert read_all(store, file, start="latest") == []
    assert read_all(store, tmp_path / "tagged.json", tags="t1") == [1] and offsets(tmp_path / "tagged.json") == {0: 4}
    with store.consumer("G", "Later", broadcast=tmp_path / "later.json") as consumer:
        put_dispatched(store, 1, topic="Later")
        assert numbers(consumer.poll(wait_ms=5000)) == [0]


def test_without_waiting_close_writes_and_a_closed_store_is_no_hindrance(tmp_path, file):
    store = open_small(tmp_path / "store")
    put_dispatched(store, 3)
    consumer = store.consumer("G", "T", broadcast=file)
    consumer.poll(2)
    assert consumer.commit(wait=False) == {0: 2} and not file.exists()
    store.close()
    consumer.close()
    consumer.close()
    assert offsets(file) == {0: 2}
    with pytest.raises(UsageError, match="closed"):
        consumer.commit()


def test_a_child_made_by_fork_takes_nothing_away(store, file):
    put_dispatched(store, 1)
    with store.consumer("G", "T", broadcast=file) as consumer:
        child = os.fork()
        if child == 0:
            consumer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0 and len(consumer.poll()) == 1 and consumer.commit() == {0: 1}
        with pytest.raises(UsageError, match="another consumer keeps"):
            store.consumer("G", "T", broadcast=file)


# -- files that do not fit ---------------------------------------------------------------------------------------------


def refused(store, file, error, match, group="G", topic="T"):
    """Neither taken nor begun anew: the file stays as it is, and free for others."""
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(error, match=match):
        store.consumer(group, topic, broadcast=file)
    assert (file.read_bytes() if file.is_file() else None) == before
    assert not file.with_name(file.name + ".lock").exists()


@pytest.fixture
def read(store, file):
    """A member has read five messages of two queues."""
    put_dispatched(store, 3)
    put_dispatched(store, 2, 3, queue_id=1)
    assert read_all(store, file) == [0, 1, 2, 3, 4]
    return store


def test_a_second_member_of_one_file(read, file):
    with read.consumer("G", "T", broadcast=file) as consumer:
        for other in ("G", "H"):
            with pytest.raises(
                UsageError, match=r"member\.json: another consumer keeps its offsets there; name another"
            ):
                read.consumer(other, "T", broadcast=file)
        with open_store(read.root, set=KEYS) as view, pytest.raises(UsageError, match="another consumer"):
            view.consumer("G", "T", broadcast=file)
        assert consumer.poll() == []
    assert read_all(read, file) == []


def test_a_file_that_was_cut_off_or_is_no_such_file(read, file):
    whole = file.read_text()
    for cut in range(0, len(whole) - 1, 7):
        file.write_text(whole[:cut])
        refused(
            read, file, StoreAccessError, r"member\.json: no offsets of a consumer \(cut off\); bring the file back, or"
        )
    for text in ("[]", "{}", '{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:5}}', "{", '"'):
        file.write_text(text)
        refused(read, file, StoreAccessError, "no offsets of a consumer")
    for old, new in (
        ('"offset": 3', '"offset": -3'),
        ('"offset": 3', '"offset": true'),
        ('"offset": 3', '"offset": "3"'),
        ('"0": {', '"x": {'),
        ('"group": "G"', '"group": 5'),
        ('"size"', '"length"'),
        ('"offset": 3, ', ""),
    ):
        assert old in whole
        file.write_text(whole.replace(old, new, 1))
        refused(read, file, (StoreAccessError, UnsupportedFormatError), r"member\.json: ")
    file.write_text(whole.replace('"format": 1', '"format": 2'))
    refused(read, file, UnsupportedFormatError, "format 2 is not known here")
    file.unlink()
    file.mkdir()
    refused(read, file, StoreAccessError, "directory")


def test_a_file_of_another_group_or_topic(read, file):
    refused(read, file, UsageError, "offsets of group 'G' on topic 'T'; name another file", group="H")
    refused(read, file, UsageError, "offsets of group 'G' on topic 'T'; name another file", topic="U")


def test_a_file_of_another_store(read, file, tmp_path):
    with open_small(tmp_path / "other") as other:
        refused(
            other, file, StoreError, "other has another message of 'T'/0 before offset 3 than was read, or none: it is"
        )
        put_dispatched(other, 3)
        put_dispatched(other, 2, 3, queue_id=1)
        refused(other, file, StoreError, "another message of 'T'/0 before offset 3")
    shutil.copytree(read.root, tmp_path / "copy")
    with open_store(tmp_path / "copy", set=KEYS) as copy:
        assert read_all(copy, file) == [], "a copy has the same messages"


def test_a_store_that_was_put_back(tmp_path, file):
    root = tmp_path / "store"
    with open_small(root) as store:
        put_dispatched(store, 3)
    shutil.copytree(root, tmp_path / "backup")
    with open_small(root) as store:
        put_dispatched(store, 2, 3)
        read_all(store, file)
    shutil.rmtree(root)
    (tmp_path / "backup").rename(root)
    with open_small(root) as store:
        refused(store, file, StoreError, "its log was put back")
        put_dispatched(store, 4, 10)
        refused(store, file, StoreError, "'T'/0 before offset 5 than was read")


def test_a_topic_that_was_made_again(read, file):
    with read.consumer("G", "T", broadcast=file) as consumer:
        consumer.seek(1, 1)
        consumer.commit(wait=False)
        read.delete_topic("T")
        with pytest.raises(UnknownTopicError):
            consumer.commit()
    refused(read, file, StoreError, "the topic was made again")
    put_dispatched(read, 7)
    refused(read, file, StoreError, "the topic was made again")
    file.unlink()
    assert len(read_all(read, file)) == 7


def test_what_retention_took_cannot_be_compared_and_is_said(read, file, caplog):
    read._parts.queues.find(b"T", 0).raise_minimum(3)  # as retention does
    assert read_all(read, file) == []
    assert "member.json: the messages before its offsets are gone in queues [0] of" in caplog.text
    late = file.with_name("late.json")
    assert read_all(read, late) == [3, 4]
    assert json.loads(late.read_text())["offsets"]["0"] == {"offset": 3, "before": None}
    assert "late.json" not in caplog.text
    assert (
        read_all(read, late) == []
        and "late.json: the messages before its offsets are gone in queues [0]" in caplog.text
    )


def test_arguments_that_do_not_fit(store, file, tmp_path):
    with pytest.raises(UsageError, match="broadcast and retries=True: a retry would come to every member"):
        store.consumer("G", "T", broadcast=file, retries=True)
    with pytest.raises(TypeError):
        store.consumer("G", "T", broadcast=True)
    with pytest.raises(UsageError, match="its directory is not there"):
        store.consumer("G", "T", broadcast=tmp_path / "no" / "member.json")
    put_dispatched(store, 1)
    with store.consumer("G", "T", broadcast=file) as consumer:
        (message,) = consumer.poll()
        with pytest.raises(UsageError, match="does not read the group's retries"):
            consumer.retry(message)
    with open_store(store.root, set=KEYS) as view, view.consumer("G", "T") as consumer:
        with pytest.raises(UsageError, match="cannot commit"):
            consumer.commit({0: 1})


# -- durability --------------------------------------------------------------------------------------------------------


def test_the_log_is_durable_before_the_file_names_its_messages(tmp_path, file):
    disk = Faulty()
    with unclean(), open_small(tmp_path / "store", disk) as store:
        put_dispatched(store, 3)
        consumer = store.consumer("G", "T", broadcast=file)
        consumer.poll(2)
        consumer.commit()
        consumer.poll()
        put_dispatched(store, 1, 3)
        disk.refuse("sync", "commitlog")
        for call in (consumer.commit, consumer.close):
            with pytest.raises(StoreError, match="the log could not be flushed"):
                call()
        assert offsets(file) == {0: 2}
