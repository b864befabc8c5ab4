"""Queue offsets that cannot be, found in the log, and what becomes of their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.salvage.misplaced import FarRecords
from flintmq.forensics.verify.run import verify
from flintmq.store.commitlog.snapshot import list_log
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from tests.compat.stores import Golden
from tests.forensics.salvage.test_in_place import FIRST, mend
from tests.support.makers import config_of, flip


def found(root: Path, config: StoreConfig) -> list[tuple[int, int, int]]:
    far, dispatcher = FarRecords(), Dispatcher(DispatchRules.of(config))
    for piece in LogWalk(list_log(str(root), config), strict=False):
        for block in dispatcher.blocks(piece):
            far.take(block, dispatcher)
    return far.found


def test_no_golden_store_has_any(golden_store: Golden) -> None:
    assert found(golden_store.path, config_of(golden_store)) == []


@pytest.mark.parametrize("bit", [20, 1])  # too far away; near by, and denied by the queue's next records
def test_one_that_cannot_be_is_covered_in_place(golden: Any, tmp_path: Path, bit: int) -> None:
    root, row = golden("basic").copy(tmp_path), golden("basic").rows[100]
    assert row["queue_offset"] & 1 << bit == 0, "flipped, it grows"
    flip(root / "commitlog" / FIRST, row["physical_offset"] + 27 - bit // 8, 1 << bit % 8)
    place = row["physical_offset"], row["size"]
    assert [line[:2] for line in found(root, config_of(golden("basic")))] == [place]
    mended = mend(root, golden("basic"))
    assert [(line["offset"], line["bytes"]) for line in mended.ranges] == [place] and mended.left == {}
    assert verify(root).defects == []
