"""The slow reader sees what is whole and refuses what is not."""

from pathlib import Path

import pytest

from flintmq.testing import slow_read
from tests.support.engine import FILE_SIZE, open_small, put_all, stored
from tests.support.makers import flip


def test_a_store_of_several_files(tmp_path: Path):
    with open_small(tmp_path) as store:
        told = [(r.physical_offset, r.size, r.queue_offset) for r in put_all(store, 50)]
    log = slow_read.records(tmp_path, FILE_SIZE)
    assert [(r.physical_offset, r.size, r.queue_offset) for r in log] == told
    assert [(u.physical_offset, u.size) for u in slow_read.units(tmp_path, "T", 0)] == [t[:2] for t in told]
    assert list(slow_read.queues(tmp_path)) == [("T", 0)]
    assert [offset for _, offset in slow_read.index_items(tmp_path, 8, 32)] == [t[0] for t in told]
    assert slow_read.log_begin(tmp_path) == 0 == slow_read.first_unit(tmp_path, "T", 0)
    assert set(slow_read.tree(tmp_path, "commitlog")) == {
        str(p.relative_to(tmp_path)) for p in tmp_path.glob("commitlog/*")
    }


def test_bytes_behind_the_end_and_a_broken_chain_are_told(tmp_path: Path):
    stored(tmp_path, 3)
    log, index = tmp_path / "commitlog" / ("0" * 20), next((tmp_path / "index").iterdir())
    data = bytearray(log.read_bytes())
    data[-1] = 1
    log.write_bytes(data)
    with pytest.raises(AssertionError):
        slow_read.records(tmp_path, FILE_SIZE)
    flip(index, 40 + 4 * 8 + 20 + 19)  # what the first item says stood in its slot
    with pytest.raises(AssertionError):
        slow_read.index_items(tmp_path, 8, 32)
