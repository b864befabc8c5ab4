import os

import pytest

from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import FIRST_READ, record_at
from tests.support.makers import flip


def log_of(path):
    return LogFiles.discover([os.fspath(path / "commitlog")])


def test_every_record_that_java_reads_is_read(golden_store):
    log = log_of(golden_store.path)
    assert any(row["size"] > FIRST_READ for row in golden_store.rows) or golden_store.name not in (
        "flags",
        "flags540",
        "flags550",
    )
    for row in golden_store.rows:
        message = record_at(log, row["physical_offset"])
        assert (message.size, message.topic, message.queue_offset) == (row["size"], row["topic"], row["queue_offset"])


def test_no_other_place_holds_a_record(golden):
    store = golden("crc")
    log = log_of(store.path)
    starts = {row["physical_offset"] for row in store.rows}
    # A name of a later record is never taken for this place: each record tells its own offset.
    assert all((record_at(log, at) is not None) == (at in starts) for at in range(3000))
    assert [record_at(log, at) for at in (-1, log.limit - 1, log.limit, 1 << 62)] == [None] * 4


@pytest.mark.parametrize("place", [0, 3, 4, 7, 8, 28, 35, 84, 89, 100])
def test_a_flipped_bit_in_what_is_protected(golden, tmp_path, place):
    store = golden("basic")
    row = next(row for row in store.rows if row["body_length"] > 20)
    copy = store.copy(tmp_path)
    log = log_of(copy)
    flip(log.files[0].path, row["physical_offset"] + place)
    assert record_at(log, row["physical_offset"]) is None


def test_files_that_end_early_or_are_gone(golden, tmp_path):
    store = golden("basic")
    copy = store.copy(tmp_path)
    log = log_of(copy)
    row = store.rows[5]
    os.truncate(log.files[0].path, row["physical_offset"] + row["size"] - 1)
    assert record_at(log, row["physical_offset"]) is None
    assert record_at(log, store.rows[4]["physical_offset"]) is not None
    os.unlink(log.files[0].path)
    assert record_at(log, store.rows[4]["physical_offset"]) is None


def test_nothing_counts_behind_a_given_end(golden):
    store = golden("basic")
    log = log_of(store.path)
    row = store.rows[5]
    stop = row["physical_offset"] + row["size"]
    assert record_at(log, row["physical_offset"], stop) is not None
    assert record_at(log, row["physical_offset"], stop - 1) is None


def test_a_record_beyond_the_end_of_a_file_that_has_become_shorter(golden, tmp_path):
    """The file was listed longer than it is now: nothing counts behind its end."""
    store = golden("flags").copy(tmp_path)
    log = log_of(store)
    offset = golden("flags").rows[-1]["physical_offset"]
    for left in (0, 1, offset - log.find(offset).start, offset - log.find(offset).start + 50):
        os.truncate(log.find(offset).path, left)
        assert record_at(log, offset) is None
