"""The jobs that are killed: how each is started, whom there is to kill, and what its end must be."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from labs.torture_spark.check import queued, records
from labs.torture_spark.streams import EXECUTORS, Query
from labs.torture_spark.writer import KEYS
from tests.spark.jobs.dispatch.dispatching import differing
from tests.spark.jobs.replay.replaying import held, without_offsets
from tests.support.own_writer import written

STREAMS = {"delta": "delta", "iceberg": "iceberg", "sink": "flintmq"}
KINDS = (*STREAMS, "replay", "rebuild")
VICTIMS = ("driver", "java", "side", "worker", "executor")
ENDING = ("driver", "java")  # whose death ends the job
STAGED = ("work/db/.orders.flintmq-replay", "work/db/orders/.flintmq-rebuild", "work/db/orders/flintmq.staged/*")
CONFIG = StoreConfig.from_keys(KEYS)


class Job(Query):
    """A job of one kind, started again and again: from FOLDER/store into FOLDER/work/db/orders."""

    def __init__(self, folder: Path, kind: str, master: str, max_offsets: int) -> None:
        self.kind, self.store, self.work = kind, folder / "store", folder / "work"
        self.out = self.work / "db" / "orders"
        self.out.parent.mkdir(parents=True)
        super().__init__(folder, str(self.store), master, max_offsets, "none")
        kinds = {"side": kind in STREAMS, "worker": kind not in ("delta", "iceberg"), "executor": master == EXECUTORS}
        self.victims = {"driver": 2, "java": 2, **{whom: 6 for whom, there in kinds.items() if there}}

    def _words(self, stores: str, to: str, max_offsets: int, partition_by: str) -> list[str]:
        sets = [f"{key}={value}" for key, value in KEYS.items()]
        if self.kind in STREAMS:
            words = ["tests.support.own_writer", STREAMS[self.kind], to, stores, str(self.work), str(max_offsets)]
            return [sys.executable, "-m", *words, *([*sets, "uniqueKeys=false"] if self.kind == "sink" else [])]
        words = ["flintmq", "spark", self.kind, stores, "--out", str(self.out), "--master", to]
        return [sys.executable, "-m", *words, *(word for one in sets for word in ("--set", one))]

    def is_a(self, whom: str, words: list[str]) -> bool:
        """A worker is any Python that Spark has started: for tasks, to plan, to commit."""
        return any(word.startswith("pyspark.") for word in words) if whom == "worker" else super().is_a(whom, words)

    def attempts(self) -> frozenset[str]:
        """All files that it has written, and when."""
        try:
            return frozenset(f"{path} {path.stat().st_mtime_ns}" for path in self.work.rglob("*"))
        except OSError:
            return frozenset()  # one went meanwhile

    def last_words(self) -> list[str]:
        """The lines that all runs have written as errors."""
        errors = self.folder / "export.err"
        return errors.read_text(errors="replace").splitlines() if errors.exists() else []

    def check(self) -> None:
        """Compare what a run to the end has left with the store.

        Raises:
            AssertionError: it is not what it must be, or something of an attempt is left.
        """
        left = [str(path) for pattern in STAGED for path in self.folder.glob(pattern)]
        assert not left, f"attempts are left: {left}"
        if self.kind == "rebuild":
            local = self.folder / "local"
            rebuild(str(self.store), str(local), CONFIG)
            differ = differing(self.out, local)
            assert not differ, f"files differ from a local rebuild's: {differ}"
            shutil.rmtree(local)
            shutil.rmtree(self.out)
        elif self.kind in ("delta", "iceberg"):
            log = {found.physical_offset: found for found in records(self.store)}
            want = Counter((topic, queue, at, body) for topic, queue, at, _, body in queued(self.store, log))
            rows = written(self.kind, self.work)
            _compare(want, Counter((*place, hashlib.sha1(body).digest()) for *place, body in rows.elements()))
        else:
            want, found = (_in_order(root) for root in (self.store, self.out))
            _compare(Counter(want.keys()), Counter(found.keys()))
            for queue, rows_of_queue in want.items():
                _compare(Counter(map(str, rows_of_queue)), Counter(map(str, found[queue])))
            assert want == found, "the order of a queue is another"


def _in_order(root: Path) -> dict[tuple[str, int], list[Any]]:
    """What each queue of a store holds, without what another store gives anew: offsets and store times."""
    return {queue: [row[:-1] for row in rows] for queue, rows in without_offsets(held(root, CONFIG)).items()}


def _compare(want: Counter[Any], found: Counter[Any]) -> None:
    missing, more = want - found, found - want
    assert not missing and not more, (
        f"missing {missing.total()}: {[*missing][:3]}; too many {more.total()}: {[*more][:3]}"
    )
