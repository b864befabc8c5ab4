"""Queues whose files were lost while the log still has their messages: a stream never passes them over in silence."""

import json
import shutil

import pytest

from flintmq import Message, MessageStore
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError
from flintmq.forensics.inspect import inspect
from flintmq.lake.stream import unreached
from tests.spark.stream.drive import Query, place
from tests.support.engine import put_messages
from tests.support.own_time import own_time
from tests.support.remade import number_anew

UNITS = 100  # of a queue file
KEYS = {"mappedFileSizeCommitLog": 64 * 1024, "mappedFileSizeConsumeQueue": 20 * UNITS}
EACH = 250  # messages of each queue


def directory(queue):
    shutil.rmtree(queue)


def topic(queue):
    shutil.rmtree(queue.parent)


def link(queue):
    elsewhere = queue.parents[3] / "elsewhere"
    queue.rename(elsewhere)
    queue.symlink_to(elsewhere)


def first_file(queue):
    min(queue.iterdir()).unlink()


def last_file(queue):
    max(queue.iterdir()).unlink()


def end_of_last_file(queue):
    file = max(queue.iterdir())
    file.write_bytes(file.read_bytes()[: 20 * (EACH % UNITS // 2)])


LOST = {
    directory: "queue 1, offset 0: the log has it, and its queue has no files",
    topic: "queue 1, offset 0: the log has it, and its queue has no files",
    link: "queue 1, offset 0: the log has it, and its queue has no files",
    last_file: f"queue 1, offset {2 * UNITS}: the log has it, and its queue's files end at offset {2 * UNITS}",
    end_of_last_file: "queue 1, offset 225: the log has it, and its queue's files end at offset 225",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of two topics; B is there so that not everything is lost."""
    path = tmp_path_factory.mktemp("whole") / "store"
    with MessageStore(path, KEYS) as store:
        for number in range(EACH):
            for name, queue in (("B", 0), ("A", 1)):
                store.put(Message(name, b"%d" % number, queue_id=queue))
        store.put(Message("B", b"the last one", queue_id=0))
    return path


@pytest.fixture
def damaged(whole, tmp_path, request):
    """A copy of the store, damaged by what the test names."""
    path = tmp_path / "store"
    shutil.copytree(whole, path)
    request.param(path / "consumequeue" / "A" / "1")
    return path


def keys():
    return {name: str(value) for name, value in KEYS.items()}


@pytest.mark.parametrize(
    ("damaged", "text"), LOST.items(), indirect=["damaged"], ids=lambda one: getattr(one, "__name__", "")
)
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": 120}], ids=["at once", "in bites"])
def test_strict_fails_and_lenient_tells(damaged, text, limit, caplog):
    with pytest.raises(StoreError, match=f"topic 'A', {text}: `flintmq rebuild --out DIR`"):
        list(Query(damaged, **limit, **keys()).bites())
    caplog.clear()
    rows = [row for bite in Query(damaged, failOnDataLoss="false", **limit, **keys()).bites() for row in bite]
    assert {(row["topic"], row["queue_offset"]) for row in rows} >= {("B", number) for number in range(EACH)}
    assert f"topic 'A', {text}" in caplog.text


@pytest.mark.parametrize("damaged", [first_file], indirect=True)
@pytest.mark.parametrize("more", [{}, {"subscribe": "A"}])
def test_the_first_files_of_a_queue_are_made_up_for_by_the_log(damaged, more):
    rows = [row for bite in Query(damaged, **more, **keys()).bites() for row in bite]
    assert sorted(place(row)[2] for row in rows if row["topic"] == "A") == list(range(EACH))


@pytest.mark.parametrize("lose", [directory, last_file, end_of_last_file], ids=lambda one: one.__name__)
def test_what_the_log_ends_with_is_its_own(whole, tmp_path, lose):
    """Of a store at rest, records after the last dispatched one are read from the log, and so is a hole before them."""
    path = tmp_path / "store"
    shutil.copytree(whole, path)
    put_messages(path, [Message("A", b"the last one", queue_id=1)], KEYS)
    lose(path / "consumequeue" / "A" / "1")
    if lose is directory:
        with pytest.raises(StoreError, match="queue 1, offset 0: the log has it, and its queue has no files"):
            list(Query(path, **keys()).bites())
        return
    for limit in {}, {"maxOffsetsPerTrigger": 120}:
        rows = [row for bite in Query(path, **limit, **keys()).bites() for row in bite]
        assert sorted(place(row)[2] for row in rows if row["topic"] == "A") == list(range(EACH + 1))


@pytest.mark.parametrize("damaged", [directory], indirect=True)
def test_what_nobody_asked_for_is_not_told(damaged, caplog):
    rows = [row for bite in Query(damaged, subscribe="B", **keys()).bites() for row in bite]
    assert len(rows) == EACH + 1 and "queue" not in caplog.text


@pytest.mark.parametrize("damaged", [topic], indirect=True)
def test_a_topic_that_rocketmq_deleted_is_no_loss(damaged, caplog):
    """It leaves no queues and no entry in topics.json, and its records stay in the log until they expire."""
    config = damaged / "config" / "topics.json"
    told = json.loads(config.read_text())
    del told["topicConfigTable"]["A"]
    config.write_text(json.dumps(told))
    rows = [row for bite in Query(damaged, **keys()).bites() for row in bite]
    assert len(rows) == EACH + 1 and "lost" not in caplog.text


def test_a_deleted_topic_of_a_store_that_is_written_is_not_waited_for(whole, tmp_path, monkeypatch):
    path = tmp_path / "store"
    shutil.copytree(whole, path)
    config = path / "config" / "topics.json"
    told = json.loads(config.read_text())
    del told["topicConfigTable"]["A"]
    with MessageStore(path, KEYS):
        topic(path / "consumequeue" / "A" / "1")
        config.write_text(json.dumps(told))
        monkeypatch.setattr(unreached, "GRACE_SECONDS", 1.0)
        own_time(monkeypatch, unreached, sleep=lambda seconds: pytest.fail("it waits"))
        rows = [row for bite in Query(path, **keys()).bites() for row in bite]
    assert {row["topic"] for row in rows} == {"B"} and len(rows) == EACH + 1


def test_what_is_not_dispatched_yet_is_no_loss(tmp_path):
    """A writer that is behind with one queue, for a moment: the stream waits, and fails only if no unit comes."""
    path = tmp_path / "store"
    with MessageStore(path, KEYS) as store:
        for number in range(EACH):
            store.put(Message("A", b"%d" % number, queue_id=number % 3))
            if number % 50 == 49:
                query = Query(path, **keys())
                seen = [row for bite in query.bites() for row in bite]
                assert len({place(row) for row in seen}) == len(seen) <= number + 1


def losing(path, topics, options, remove="A"):
    """Rows of a query on a store of these messages, whose queue is lost."""
    put_messages(path, (Message(name, b"x", queue_id=0) for name in topics), KEYS)
    shutil.rmtree(path / "consumequeue" / remove)
    return [row for bite in Query(path, **options, **keys()).bites() for row in bite]


@pytest.mark.parametrize(
    ("topics", "options"),
    [(["A", *"BBBB"], {}), (["C", "A", *"BBBB"], {"subscribe": "A,B"}), ([*"BBBB", *"AA", "C"], {"subscribe": "A,B"})],
    ids=["before all others", "before all that is wanted", "after all that is wanted"],
)
def test_messages_outside_of_what_is_read(tmp_path, topics, options, caplog):
    with pytest.raises(StoreError, match="topic 'A', queue 0, offset 0: the log has it, and its queue has no files"):
        losing(tmp_path / "strict", topics, options)
    rows = losing(tmp_path / "lenient", topics, {**options, "failOnDataLoss": "false"})
    assert [row["topic"] for row in rows if row["topic"] != "C"] == ["B"] * 4
    assert "topic 'A', queue 0, offset 0: the log has it" in caplog.text


def test_messages_between_two_micro_batches(tmp_path):
    put_messages(tmp_path, [Message("B", b"read")], KEYS)
    query = Query(tmp_path, **keys())
    assert len([row for bite in query.bites() for row in bite]) == 1
    with MessageStore(tmp_path, KEYS) as store:
        store.put(Message("A", b"lost"))
        store.put(Message("B", b"next"))
    shutil.rmtree(tmp_path / "consumequeue" / "A")
    with pytest.raises(StoreError, match="topic 'A', queue 0, offset 0: the log has it, and its queue has no files"):
        list(query.bites())


def test_a_queue_whose_messages_came_before_those_of_others_is_lost(tmp_path):
    """No topic was made again here, though each other queue of it begins later in the log."""
    with MessageStore(tmp_path, KEYS) as store:
        for queue in (1, 1, 0, 0, 2):
            store.put(Message("A", b"x", queue_id=queue))
        store.put(Message("B", b""))
    shutil.rmtree(tmp_path / "consumequeue" / "A" / "1")
    for name in ("flintmq.queues", "flintmq.mark"):
        (tmp_path / name).unlink()
    assert any(
        note.code == "queue-files" and "A/1" in note.text
        for note in inspect(tmp_path, StoreConfig.from_keys(KEYS)).notes
    )
    with pytest.raises(StoreError, match="topic 'A', queue 1, offset 0: the log has it, and its queue has no files"):
        list(Query(tmp_path, **keys()).bites())


@pytest.mark.parametrize("again", [1, 3], ids=["shorter", "longer"])
def test_a_topic_that_was_deleted_and_made_again(tmp_path, again):
    """Of its two queues one has no message yet; what the log has of the deleted ones is nobody's."""
    with MessageStore(tmp_path, KEYS) as store:
        for queue in (0, 1, 1, 0):
            store.put(Message("A", b"of the deleted one", queue_id=queue))
        store.put(Message("B", b""))
    put_messages(tmp_path, (Message("A", b"new", queue_id=0) for _ in range(again)), KEYS)
    number_anew(tmp_path, "A", 2)
    shutil.rmtree(tmp_path / "consumequeue" / "A" / "1")
    (tmp_path / "flintmq.queues").unlink()  # which no broker keeps true
    rows = [row for bite in Query(tmp_path, **keys()).bites() for row in bite]
    assert sorted(map(place, rows)) == [*(("A", 0, number) for number in range(again)), ("B", 0, 0)]
