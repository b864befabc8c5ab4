"""Recovery that refuses, time and again, and what it must not take for a hole. Found by flipping bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import CorruptStoreError
from tests.support.crashed import Clock, killed, log_file, make, zero
from tests.support.engine import open_small, put_all, records, tree


@pytest.mark.parametrize("peer", [True, False])
def test_damage_that_only_the_queues_lead_to_refuses_every_time(tmp_path: Path, peer: bool):
    """A clean start does not read old files, but looks for each queue's last record: here a hole in the first file.

    Units are made again from the log's begin, which refuses, and by then `abort` is there: the next start must not take
    the hole for write-back that never came, and cut all that lies behind it.
    """
    with open_small(tmp_path, Clock()) as store:
        for n in range(30):
            put_all(store, 1, first=n, queue_id=int(n == 2), size=600)
    kept = records(tmp_path)
    zero(tmp_path, kept[2].physical_offset, 1200)
    if peer:
        for name in ("checkpoint", "flintmq.mark"):
            (tmp_path / name).unlink()
    before = tree(tmp_path, "commitlog")
    for _ in range(3):
        with pytest.raises(CorruptStoreError) as caught:
            open_small(tmp_path)
        path, position = log_file(tmp_path, kept[2].physical_offset)
        assert (caught.value.file, caught.value.position) == (str(path), position)
        assert tree(tmp_path, "commitlog") == before
    assert not (tmp_path / "quarantine").exists()


def test_a_length_s_zero_at_a_sector_s_end_is_no_hole(tmp_path: Path):
    """The high byte of the properties' length is the last of its sector, and a tag holds a NUL."""
    probe = make(tmp_path / "probe", count=3, size=200)[2]
    root, text = tmp_path / "store", probe.physical_offset + probe.size - len(probe.properties)
    with open_small(root, Clock()) as store:
        put_all(store, 2, size=200)
        put_all(store, 5, first=2, size=200 + (511 - (text - 2)) % 512)
    hit = records(root)[2]
    text = hit.physical_offset + hit.size - len(hit.properties)
    assert (text - 2) % 512 == 511
    zero(root, text + hit.properties.index(1), 1)
    killed(root)
    with pytest.raises(CorruptStoreError, match="zero byte in its topic"):
        open_small(root)


@pytest.mark.parametrize("at", ["tags", "separator", "topic"])
def test_one_byte_that_is_zero_is_no_hole(tmp_path: Path, at: str):
    """Above the mark: a NUL in a record's text, whose sector did arrive, must not cost the records behind it."""
    kept = make(tmp_path, count=10, size=200)
    hit = kept[4]
    text = hit.physical_offset + hit.size - len(hit.properties)
    zero(tmp_path, {"tags": text + 2, "separator": text + hit.properties.index(1), "topic": text - 3}[at], 1)
    killed(tmp_path)
    before = tree(tmp_path)
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match="zero byte in its topic") as caught:
            open_small(tmp_path)
        path, position = log_file(tmp_path, hit.physical_offset)
        assert (caught.value.file, caught.value.position) == (str(path), position)
        assert tree(tmp_path) == before
