"""Queues with an extension over restarts and cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.forensics.verify import verify
from flintmq.message import GetMessageStatus
from tests.store.crashed import killed, zero
from tests.store.engine import open_small, put_all, records, tree

KEYS = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 200}


@pytest.mark.parametrize("count", [1, 7, 9, 60])
def test_an_extension_goes_on_where_it_ended(tmp_path: Path, count: int):
    """As in one life: units of earlier lives are not written over."""
    for life in range(3):
        with open_small(tmp_path / "lives", **KEYS) as store:
            put_all(store, count, first=count * life, size=200)
    with open_small(tmp_path / "one", **KEYS) as store:
        put_all(store, 3 * count, size=200)
    assert verify(str(tmp_path / "lives")).defect_counts == {}
    lengths = [{n: len(data) for n, data in tree(tmp_path / x, "consumequeue_ext").items()} for x in ("lives", "one")]
    assert lengths[0] == lengths[1]
    with open_small(tmp_path / "lives", **KEYS) as store:
        asked = store.get("T", 0, 0, tags="t1")
        assert [m.tags for m in asked.messages] == ["t1"] * len(asked.messages)
        assert asked.status is GetMessageStatus.FOUND
        got = {m.queue_offset for at in range(0, 3 * count, 10) for m in store.get("T", 0, at, tags="t1").messages}
        assert got == {r.queue_offset for r in records(tmp_path / "lives") if b"\x01t1" in r.properties}


def test_d25_nothing_stands_behind_the_end_of_an_extension_after_a_cut(tmp_path: Path):
    with open_small(tmp_path, **KEYS) as store:
        put_all(store, 40, size=600)
    kept = records(tmp_path)
    zero(tmp_path, kept[13].physical_offset, 1200)
    killed(tmp_path, flushed=kept[3].physical_offset)
    with open_small(tmp_path, **KEYS) as store:
        assert store.wait_dispatched(5)
    assert len(records(tmp_path)) == 13
    left = tree(tmp_path, "consumequeue_ext")
    assert len(left) == 2, "nine units a file and the mark of its end"
    assert not any(list(left.values())[1][4 * 20 :]), "four units in the second"
    with open_small(tmp_path, **KEYS) as store:
        put_all(store, 10, first=50, size=600)
    assert verify(str(tmp_path)).defect_counts == {}
