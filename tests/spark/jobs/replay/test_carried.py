"""Groups of a replayed store go on at the same messages."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.lake.export.export_once import export
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.replay.replaying import KEYS, SMALL, bulk

PLACES = {"Begun": 3, "Done": 20, "New": 0}
QUEUES = 2


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Queues of 20 messages of two topics, of which the groups have consumed some."""
    root = tmp_path / "source"
    with MessageStore(root, config=KEYS) as store:
        for number in range(20):
            for queue_id in range(QUEUES):
                store.put(Message("A", b"a%d" % number, queue_id=queue_id, tags="even" if number % 2 == 0 else "odd"))
            store.put(Message("B", b"b%d" % number))
        for group, offset in PLACES.items():
            for queue_id in range(QUEUES):
                store.commit_offset(group, "A", queue_id, offset)
        store.commit_offset("Begun", "B", 0, 7)
    return root


def unread(root: Path, group: str, topic: str) -> list[bytes]:
    """What a group gets of queue 0."""
    with MessageStore(root, config=SMALL) as store, store.consumer(group, topic, queues=[0]) as consumer:
        return [one.body for one in consumer.poll(100)]


@pytest.mark.parametrize("live", [False, True])
def test_groups_go_on_at_the_same_messages(live: bool, source: Path, tmp_path: Path) -> None:
    done = bulk(source, tmp_path / "new", live=live, with_offsets=True)
    assert (done.rows, done.offsets, done.offsets_left) == (60, 7, [])
    for group, offset in PLACES.items():
        assert unread(tmp_path / "new", group, "A") == [b"a%d" % n for n in range(offset, 20)]
    assert unread(tmp_path / "new", "Begun", "B") == [b"b%d" % n for n in range(7, 20)]


def test_after_messages_of_the_store_that_was_there(source: Path, tmp_path: Path) -> None:
    with MessageStore(tmp_path / "old", config=SMALL) as store:
        store.put_many([Message("A", b"before")] * 5)
    done = bulk(source, tmp_path / "old", with_offsets=True)
    assert done.offsets == 7 and unread(tmp_path / "old", "Begun", "A") == [b"a%d" % n for n in range(3, 20)]


def test_messages_that_came_since_are_not_counted(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """The source goes on while it is replayed, and its groups go beyond what was."""
    from flintmq.spark.jobs.replay import job

    real = job.carry_offsets

    def later(snapshot: Any, *rest: Any) -> Any:
        with MessageStore(source, config=KEYS) as store:
            store.put_many([Message("A", b"since")] * 3)
            store.commit_offset("Done", "A", 0, 22)
        return real(snapshot.again(), *rest)

    monkeypatch.setattr(job, "carry_offsets", later)
    assert bulk(source, tmp_path / "new", with_offsets=True).offsets == 7
    assert unread(tmp_path / "new", "Done", "A") == []
    assert unread(tmp_path / "new", "Begun", "A") == [b"a%d" % n for n in range(3, 20)]


def test_places_amid_what_was_left_out_are_said(source: Path, tmp_path: Path, spark: Any) -> None:
    from flintmq.spark.jobs.replay.job import replay

    done = replay(
        spark, str(source), str(tmp_path / "new"), SMALL, where="topic = 'B' or tags = 'odd'", with_offsets=True
    )
    assert done.offsets == 3, "B's, and of Done, which has consumed all of A"
    assert len(done.offsets_left) == 4
    assert done.offsets_left[0] == (
        "group 'Begun' has no place in queue 'A'/0: not all messages around its offset there were replayed"
    )


def test_a_table_has_no_groups(source: Path, tmp_path: Path) -> None:
    export(str(source), str(tmp_path / "lake"))
    with pytest.raises(UsageError, match="a table has no offsets of groups"):
        bulk(tmp_path / "lake", tmp_path / "new", with_offsets=True)
