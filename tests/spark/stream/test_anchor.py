"""Topics that are deleted and made again, logs that are cut and written anew: told, and read from the first message.

Model: "subscribing topic by pattern with topic deletions" and "Delete a topic when a Spark job is running" of Spark's
Kafka suites. The deletion is what RocketMQ's leaves: no queue files, records stay in the log; and
a topic that is made again numbers its messages from 0 on.
"""

import shutil

import pytest

from flintmq import Message, MessageStore
from flintmq.errors import LostLogError, StoreError, UnsupportedFormatError, UsageError
from flintmq.lake.read.offsets import MARKS
from flintmq.lake.stream import queues
from flintmq.lake.stream.anchor import anchor_in
from flintmq.storage.files.lock import StoreLock
from flintmq.store.commitlog.anchor import LogAnchor
from tests.spark.stream.drive import Query, numbers
from tests.support.remade import number_anew


@pytest.fixture(autouse=True)
def all_at_once(no_grace, monkeypatch):
    """All of a few queues are looked at each time."""
    monkeypatch.setattr(queues, "QUIET_SECONDS", 0.0)


def put(path, numbers, *topics):
    with MessageStore(path, mapped_file_size_commit_log=64 * 1024) as store:
        for number in numbers:
            for topic in topics:
                assert store.put(Message(topic, b"%d" % number, queue_id=0)).queue_offset is not None


def delete(path, topic):
    """The next put makes the queue anew as it was, until `number_anew`."""
    shutil.rmtree(path / "consumequeue" / topic)


def read_of(path, **options):
    query = Query(path, columns="body,topic", **options)
    got = [row for bite in query.bites() for row in bite]
    return query, got


def of_topic(rows, topic):
    return numbers([row for row in rows if row["topic"] == topic])


@pytest.mark.parametrize("count", [5, 10, 25])
@pytest.mark.parametrize("batch_while_gone", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_a_topic_deleted_and_made_again(tmp_path, caplog, count, batch_while_gone, restart):
    """It has fewer, as many or more messages than were read: none of them is lost, none of others read twice."""
    put(tmp_path, range(10), "T", "Other")
    query, rows = read_of(tmp_path, failOnDataLoss="false")
    assert of_topic(rows, "T") == of_topic(rows, "Other") == list(range(10))
    got = []
    if batch_while_gone:
        put(tmp_path, range(10, 13), "Other")
        delete(tmp_path, "T")
        got += [row for bite in query.bites() for row in bite]
        assert of_topic(got, "Other") == [10, 11, 12] and not of_topic(got, "T")
    if restart:
        query.restart()
    put(tmp_path, range(100, 100 + count), "T")
    put(tmp_path, range(20, 22), "Other")
    number_anew(tmp_path, "T", 10)
    got += [row for bite in query.bites() for row in bite]
    assert of_topic(got, "T") == list(range(100, 100 + count))
    assert of_topic(got, "Other") == ([10, 11, 12] if batch_while_gone else []) + [20, 21]
    assert ("was removed" if batch_while_gone else "deleted and made again") in caplog.text
    query.done -= 1  # the last batch runs again after a kill, and gives the same
    query.restart()
    assert of_topic(query.run(), "T") == list(range(100, 100 + count))


@pytest.mark.parametrize("count", [5, 10, 25])
def test_strict_ends_with_one_line(tmp_path, count):
    put(tmp_path, range(10), "T")
    query, _ = read_of(tmp_path)
    put(tmp_path, range(100, 100 + count), "T")
    number_anew(tmp_path, "T", 10)
    for _ in range(2):
        with pytest.raises(
            StoreError, match="topic 'T', queue 0, offset 0: the queue was deleted and made again"
        ) as caught:
            query.plan()
        assert "\n" not in str(caught.value)
        query.restart()


@pytest.mark.parametrize("start", ["latest", '{"T/0": 10, "Other/0": 3}'])
def test_before_anything_was_read(tmp_path, start):
    """A query that begins behind messages knows the queue that these were in."""
    put(tmp_path, range(10), "T", "Other")
    query = Query(tmp_path, columns="body,topic", startingOffsets=start, failOnDataLoss="false")
    assert query.initial["@log_offset"] > 0
    put(tmp_path, range(100, 115), "T")
    number_anew(tmp_path, "T", 10)
    got = [row for bite in query.bites() for row in bite]
    assert of_topic(got, "T") == list(range(100, 115))
    assert of_topic(got, "Other") == ([] if start == "latest" else list(range(3, 10)))


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": 7}, {"minPartitions": 6}, {"subscribe": "T"}])
def test_records_of_the_topic_that_was_deleted_are_not_read(tmp_path, options):
    """They stand in the log still, with the offsets that others have now."""
    put(tmp_path, range(10), "T", "Other")
    put(tmp_path, range(100, 115), "T", "Other")
    number_anew(tmp_path, "T", 10)
    _, rows = read_of(tmp_path, **options)
    assert sorted(of_topic(rows, "T")) == list(range(100, 115))
    assert sorted(of_topic(rows, "Other")) == ([] if "subscribe" in options else [*range(10), *range(100, 115)])


def test_an_offset_of_version_0_1(tmp_path):
    """It says nothing of the log: it goes on as it did, and the next one says it."""
    put(tmp_path, range(10), "T")
    query, _ = read_of(tmp_path)
    query.batches[-1] = (query.batches[-1][0], {"T/0": 10})
    query.restart()
    assert not query.plan()
    put(tmp_path, range(10, 13), "T")
    assert numbers(row for bite in query.bites() for row in bite) == [10, 11, 12]
    assert set(query.offset) == {*MARKS, "T/0"}
    assert (query.offset["@format"], query.offset["@flintmq"]) == (2, "0.2.0")


@pytest.mark.parametrize("more", [0, 3, 30])
def test_a_log_that_was_put_back_and_has_grown_since(tmp_path, more):
    """A copy of yesterday in place of the store, with other messages since: no queue offset tells it."""
    path, yesterday = tmp_path / "store", tmp_path / "yesterday"
    put(path, range(10), "T")
    shutil.copytree(path, yesterday)
    put(path, range(10, 15), "T")
    query, rows = read_of(path)
    assert numbers(rows) == list(range(15))
    shutil.rmtree(path)
    yesterday.rename(path)
    put(path, range(200, 205 + more), "T")
    short = f"the log ends at offset [0-9]+, before {query.offset['@log_offset'] + query.offset['@size']}"
    other = f"at log offset {query.offset['@log_offset']} is another record"
    for lenient in ("false", "true"):  # it is no loss that may be skipped: nothing of the other log was read
        query.options["failOnDataLoss"] = lenient
        query.restart()
        with pytest.raises(StoreError, match=other if more == 30 else f"{short}|{other}"):
            query.plan()


def test_the_record_may_expire(golden, tmp_path):
    """Retention of a broker that runs may delete what was read, also the very last record."""
    path = golden("basic").copy(tmp_path)
    query = Query(path)
    assert list(query.bites())
    for file in (path / "commitlog").iterdir():
        file.unlink()
    (path / "commitlog" / f"{1 << 30:020d}").touch()
    with pytest.raises(LostLogError, match="the log has no record"):
        query.plan()  # nobody writes the store, so nothing can expire
    lock = StoreLock(str(path))
    assert not query.plan()
    lock.release()


def test_what_is_no_anchor():
    assert anchor_in({"T/0": 5}) is None
    old = {"@log_offset": 5, "@store_timestamp": 7, "T/0": 5}
    assert anchor_in(old) == LogAnchor(5, 0, 7, 0), "of FlintMQ 0.1"
    new = {**old, "@format": 2, "@flintmq": "0.2.0", "@size": 9, "@body_crc": 8}
    assert anchor_in(new) == LogAnchor(5, 9, 7, 8)
    for newer in ({**new, "@format": 3}, {**new, "@more": 1}, {"@format": 3, "T/0": 5}):
        with pytest.raises(UnsupportedFormatError, match="not known here: made by a"):
            anchor_in(newer)
    with pytest.raises(UnsupportedFormatError, match=r"made by FlintMQ 0\.3\.0, newer than this one"):
        anchor_in({**new, "@flintmq": "0.3.0", "@more": 1})
    for bad in (
        {**new, "@size": None},
        {"@format": 2, "@log_offset": 5, "@store_timestamp": 7},
        {"@log_offset": 5},
        {"@log_offset": 5, "@store_timestamp": "x"},
        {"@store_timestamp": True},
    ):
        with pytest.raises(UsageError, match="begin with a new checkpoint"):
            anchor_in(bad)
