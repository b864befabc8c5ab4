"""Recovery and the order of queue offsets above the durable mark: torn heads, and queues that RocketMQ began again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flintmq.format import checkpoint, flintmq_mark, record
from flintmq.store.layout.small_files import StoreFiles
from tests.support.crashed import killed, log_file, make, reopened
from tests.support.engine import open_small, records


def test_a_queue_offset_that_is_not_the_next_one_ends_an_unflushed_log(tmp_path: Path):
    """B9: above the mark a record must carry its queue's next offset."""
    kept = make(tmp_path, count=6, size=200)
    path, position = log_file(tmp_path, kept[-1].physical_offset)
    data = bytearray(path.read_bytes())
    data[position : position + kept[-1].size] = record.encode(kept[-1]._replace(queue_offset=9))
    path.write_bytes(data)
    (tmp_path / "abort").write_text("1")
    time = kept[2].store_timestamp
    (tmp_path / "checkpoint").write_bytes(checkpoint.encode(checkpoint.Checkpoint(time, time)))
    (tmp_path / "flintmq.mark").write_bytes(flintmq_mark.encode(kept[3].physical_offset, time))
    reopened(tmp_path, kept[:-1])


def test_a_queue_that_rocketmq_began_again_is_kept_whatever_stops_the_first_start(tmp_path: Path, monkeypatch):
    """RocketMQ went on behind our mark, deleted a topic, began it at 0 and was killed; our first start is killed, too,
    once `abort` is ours, and then the power fails. Of a store of ours alone such a record is a torn one."""
    kept = make(tmp_path, count=6, size=200)
    killed(tmp_path, flushed=kept[3].physical_offset)
    path, position = log_file(tmp_path, kept[4].physical_offset)
    data, kept[4:] = bytearray(path.read_bytes()), [r._replace(queue_offset=n) for n, r in enumerate(kept[4:])]
    data[position : position + 2 * kept[4].size] = b"".join(map(record.encode, kept[4:]))
    path.write_bytes(data)
    alone = tmp_path.parent / "alone"
    shutil.copytree(tmp_path, alone)
    (alone / "abort").write_text("1\nanother-boot")
    with open_small(alone):
        assert records(alone) == kept[:4]

    def stop(self: StoreFiles) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StoreFiles, "make_abort", stop)
        with pytest.raises(KeyboardInterrupt):
            open_small(tmp_path)
    (tmp_path / "abort").write_text("1\nanother-boot")
    with open_small(tmp_path) as store:
        assert store.wait_dispatched(5) and records(tmp_path) == kept
        assert [m.body for m in store.get("T", 0, 0).messages] == [r.body for r in kept[4:]]
