"""Dispatching without Spark: tasks as calls of this process, each done twice, as attempts of Spark may be."""

from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import RESULTS, rebuild
from flintmq.spark.jobs.dispatch import index, job
from flintmq.storage.files.filesystem import Effects


def tasks_as_calls(monkeypatch: Any, ranges: int = 1, twice: bool = True) -> None:
    """Let `dispatch(None, ...)` work in this process.

    The log of a round is cut into so many ranges; with max_bytes=1 each of them is a round.
    """

    def run(spark: object, task: Any, items: Any, progress: object = None) -> list[Any]:
        return [[task(item) for _ in range(1 + twice)][-1] for item in items]

    monkeypatch.setattr(job, "run_tasks", run)
    monkeypatch.setattr(index, "run_tasks", run)
    monkeypatch.setattr(job, "parallelism", lambda spark: 2)
    monkeypatch.setattr(job, "split_count", lambda span, cores: ranges)
    monkeypatch.setattr(job, "UNITS_A_TASK", 50)
    monkeypatch.setattr(Effects, "sync", lambda effects, fd: None)  # nobody cuts the power here
    monkeypatch.setattr(Effects, "sync_dir", lambda effects, path: None)


def derived(root: Path) -> dict[str, bytes]:
    """Every file of queues and index: name -> bytes."""
    found = {}
    for kind in RESULTS:
        found |= {str(p.relative_to(root)): p.read_bytes() for p in sorted((root / kind).rglob("*")) if p.is_file()}
    return found


def differing(ours: Path, theirs: Path) -> list[str]:
    """Names of files that one of two directories has alone, or that differ."""
    one, other = derived(ours), derived(theirs)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def check_rebuilt(root: Path, into: Path, folder: Path, config: StoreConfig, peer: str = "5.3.3") -> None:
    """What was dispatched from a store into a directory is what a local rebuild makes in another."""
    rebuild(str(root), str(folder), config, peer)
    assert differing(into, folder) == []
