"""store/load_derived: queues and index made again beside the reading of the log are those that were there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flintmq import Message
from flintmq.store import load_derived
from tests.store.engine import open_small


def derived(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] in ("consumequeue", "index")
    }


@pytest.mark.parametrize("least", [0, 1 << 60], ids=["on two threads", "on one"])
@pytest.mark.parametrize("lost", [("consumequeue", "index"), ("consumequeue/T0",), ("index",)], ids="+".join)
def test_what_was_lost_is_made_again_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, lost: tuple[str, ...]
):
    monkeypatch.setattr(load_derived, "BESIDE_BYTES", least)
    monkeypatch.setattr("flintmq.store.dispatch.ENOUGH_UNITS", 16)  # many blocks
    with open_small(tmp_path) as store:
        for n in range(300):
            store.put(Message(f"T{n % 3}", bytes(200), tags="paid", keys=f"k{n}", queue_id=n % 2))
        store.wait_dispatched()
    kept = derived(tmp_path)
    assert len(kept) > 10
    for name in lost:
        shutil.rmtree(tmp_path / name)
    (tmp_path / "abort").write_bytes(b"1")
    open_small(tmp_path).close()
    assert derived(tmp_path) == kept
