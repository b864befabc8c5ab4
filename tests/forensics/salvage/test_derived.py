"""What is mended behind the log: each part that verify complains of, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.verify.run import verify
from labs.salvaging import tree
from tests.forensics.salvage.test_in_place import FIRST, mend
from tests.support.makers import config_of, flip, patch


@pytest.mark.parametrize(
    ("store", "file", "position", "mended"),
    [
        ("basic", f"consumequeue/Orders/0/{FIRST}", 20, "consumequeue/Orders/0"),
        ("cqext", "consumequeue_ext/*/*/*", 30, "consumequeue"),
        ("batch", f"batchconsumequeue/*/*/{FIRST}", 3, "batchconsumequeue"),
        ("basic", "index/*", 2100, "index"),
        ("basic", "checkpoint", 0, "checkpoint"),
    ],
)
def test_one_part(golden: Any, tmp_path: Path, store: str, file: str, position: int, mended: str) -> None:
    root = golden(store).copy(tmp_path)
    found = sorted(root.glob(file))[0]
    flip(found, position, 0x40)
    assert verify(root, config_of(golden(store))).defect_count
    before = tree(root)
    done = mend(root, golden(store))
    assert verify(root, config_of(golden(store))).defects == []
    changed = {name for name in before.keys() | tree(root).keys() if before.get(name) != tree(root).get(name)}
    assert changed and all(name.startswith((mended, "consumequeue_ext")) for name in changed), changed
    assert done.ranges == [] and done.left == {}


def test_a_damaged_timer_is_left_to_the_broker(golden: Any, tmp_path: Path) -> None:
    root = golden("timer").copy(tmp_path)
    flip(next((root / "timerlog").iterdir()), 3, 0x10)
    done = mend(root, golden("timer"))
    assert verify(root, config_of(golden("timer"))).defects == []
    assert not (root / "timerlog").exists() and not (root / "timerwheel").exists()
    assert (Path(done.journal) / "old" / "timerwheel").exists()


def test_a_wrong_end_of_file_record(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    last = max(r["physical_offset"] + r["size"] for r in golden("basic").rows if r["physical_offset"] < 131072)
    patch(root / "commitlog" / FIRST, last, b"\0\0\0\x63")
    mend(root, golden("basic"))
    assert tree(root) == tree(golden("basic").path)


def test_a_mark_beyond_the_log(tmp_path: Path) -> None:
    """The end of a log that FlintMQ flushed is gone: nothing follows, and the store must open all the same."""
    from flintmq import Message, MessageStore
    from flintmq.forensics.salvage.in_place import plan_in_place

    root = tmp_path / "store"
    with MessageStore(root, dev=True) as store:
        results = [store.put(Message("T", bytes([n]) * 200)) for n in range(9)]
        store.wait_dispatched(60)
    at = results[7].physical_offset
    patch(root / "commitlog" / FIRST, at, bytes(400))
    patch(root / "commitlog" / FIRST, at + 500, bytes(1000))
    assert verify(root).defect_count
    with plan_in_place(str(root)) as mending:
        mending.carry_out()
    assert verify(root).defects == []
    with MessageStore(root, dev=True) as store:
        found = store.get("T", 0, 0, 32)
        assert len([m for m in found.messages if m.topic == "T"]) >= 7
        put = store.put(Message("T", b"next"))
        assert put.physical_offset >= results[8].physical_offset + results[8].size, "no log offset is given twice"


@pytest.mark.parametrize(
    ("data", "why"), [(b"short", "it cannot be read"), (b"\x10" + bytes(4095), "it named records that")]
)
def test_a_checkpoint_is_made_again_for_the_reason_that_it_has(golden: Any, tmp_path: Path, data: bytes, why: str):
    root = golden("basic").copy(tmp_path)
    (root / "checkpoint").write_bytes(data)
    [change] = mend(root, golden("basic")).changes
    assert change["file"].endswith("checkpoint") and change["why"].startswith(why)
    assert verify(root).defects == []
