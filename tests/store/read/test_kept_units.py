"""The units that a view keeps are hints: whatever becomes of them in their files, it answers from the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq import open_store
from flintmq.errors import MessageNotFoundError
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.store.read import queue_lookup
from flintmq.store.view import StoreView
from tests.support.engine import FILE_SIZE, open_small, put_all


def filled(root: Path, count: int = 30) -> Path:
    """Make a store with one queue file of 100 units; return the path of that."""
    with open_small(root, mappedFileSizeConsumeQueue=2000) as store:
        put_all(store, count)
    return root / "consumequeue" / "T" / "0" / ("0" * 20)


def offsets(view: StoreView, first: int, count: int) -> list[int]:
    return [message.queue_offset for message in view.read("T", 0, first, count)]


@pytest.mark.parametrize("access", ["pread", "map"])
@pytest.mark.parametrize(
    "unit", [bytes(20), UNIT.pack(Unit(0, 128, 0)), UNIT.pack(Unit(1 << 40, 128, 0)), UNIT.pack(Unit(0, 0x7FFFFFFF, 0))]
)
def test_a_kept_unit_that_is_wrong_is_read_again(tmp_path: Path, unit: bytes, access: str):
    """Its file was mended since the view read it."""
    path = filled(tmp_path)
    right = path.read_bytes()
    path.write_bytes(right[:100] + unit + right[120:])
    with open_store(tmp_path, access=access) as view:
        assert view.get("T", 0, 4).queue_offset == 4  # the block is kept from now on
        path.write_bytes(right)
        assert view.get("T", 0, 5).queue_offset == 5
        assert offsets(view, 0, 30) == list(range(30)) and offsets(view, 5, 1) == [5]


def test_a_unit_that_becomes_wrong_changes_no_answer(tmp_path: Path):
    path = filled(tmp_path)
    with open_store(tmp_path) as view:
        before = view.get("T", 0, 5)
        path.write_bytes(bytes(2000))
        assert view.get("T", 0, 5) == before and offsets(view, 3, 4) == [3, 4, 5, 6]
        path.unlink()
        assert view.get("T", 0, 5) == before and offsets(view, 3, 4) == [3, 4, 5, 6]


def test_a_record_that_is_damaged_or_gone_is_not_given(tmp_path: Path):
    filled(tmp_path, 100)
    with open_store(tmp_path) as view:
        first = view.get("T", 0, 0)
        last = max(n for n in range(100) if view.get("T", 0, n).physical_offset < FILE_SIZE)
        (tmp_path / "commitlog" / ("0" * 20)).unlink()
        for offset in (0, last):
            with pytest.raises(MessageNotFoundError):
                view.get("T", 0, offset)
        assert view.get("T", 0, last + 1).queue_offset == last + 1 and first.queue_offset == 0


def test_messages_of_another_process_are_seen_after_a_refresh(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeConsumeQueue=2000) as store, open_store(tmp_path) as view:
        for number in range(20):
            put_all(store, 1, number)
            assert store.wait_dispatched(10)
            view.refresh()
            assert view.get("T", 0, number).queue_offset == number
            assert offsets(view, 0, 99) == list(range(number + 1))


def test_few_blocks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Over the borders of blocks and files."""
    monkeypatch.setattr(queue_lookup, "BLOCK", 4)
    monkeypatch.setattr(queue_lookup, "BLOCKS_KEPT", 3)
    with open_small(tmp_path) as store:  # ten units a file
        put_all(store, 95)
    with open_store(tmp_path) as view:
        for offset in (*range(95), *range(94, -1, -7)):
            assert view.get("T", 0, offset).queue_offset == offset
            batch = view.read("T", 0, offset, 9)
            assert [m.queue_offset for m in batch] == list(range(offset, batch.next_offset)) and len(batch) > 0
        assert len(view._now._blocks) <= 3
