"""Killed anywhere, a dispatch ends with the bytes of a local rebuild (short form; `kills.py` is the long one)."""

import os
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.storage.files.filesystem import Effects
from labs.dispatch_kills import kills
from tests.spark.jobs.dispatch.dispatching import differing, tasks_as_calls

CALLS = ("pwrite", "create", "rename", "unlink", "sync", "sync_dir", "truncate", "allocate", "map_write")


@pytest.mark.turn(
    2, of=["src/flintmq/spark/jobs/dispatch"]
)  # on the other days those of tests/robustness/torture_spark
def test_kills_of_real_processes(tmp_path: Path) -> None:
    """A driver and a worker of Spark, while the log is written."""
    killed, wrong = kills(tmp_path / "run", 2, seed=5)
    assert (killed, wrong) == ({"driver": 1, "worker": 1}, [])


def die_at(call: int, root: Path, into: Path, config: StoreConfig, peer: str) -> bool:
    """Dispatch in a child that is killed at this call that changes something; False if it came to its end before."""
    child = os.fork()
    if child == 0:
        left = [call]
        for name in CALLS:
            _let_die(name, left)
        try:
            dispatch(None, str(root), str(into), config, peer, once=True, max_bytes=1)  # type: ignore[arg-type]
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _let_die(name: str, left: list[int]) -> None:
    plain = getattr(Effects, name)

    def dying(effects: Effects, *words: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), 9)
        return plain(effects, *words, **named)

    setattr(Effects, name, dying)


@pytest.mark.parametrize(("name", "step"), [("flags", 41), ("cqext", 37), ("batch", 29), ("lmq", 43)])
def test_killed_at_every_so_many_calls(golden: Any, tmp_path: Path, monkeypatch: Any, name: str, step: int) -> None:
    """Each life ends after `step` more calls of its own than the one before, until one comes to the end."""
    store = golden(name)
    config = StoreConfig.from_keys({**store.config, "maxIndexNum": 20, "maxHashSlotNum": 7})
    peer, root = store.expect.get("rebuild", ["", "5.3.3"])[1], store.copy(tmp_path, "index")
    tasks_as_calls(monkeypatch, 4, twice=False)
    lives = 0
    while die_at(1 + step * lives, root, tmp_path / "into", config, peer):
        lives += 1
    assert lives > 2
    rebuild(str(root), str(tmp_path / "local"), config, peer)
    assert differing(tmp_path / "into", tmp_path / "local") == []
