"""The kill run of streams through the JVM: `python -m labs.torture_spark.streams`. It goes on where it stopped.

    python -m labs.torture_spark.streams --kills 60 [--seconds S] [--state FOLDER] [--report FILE]

A query of Spark's own (`readStream.format("flintmq")` into Parquet files) reads a store that is written meanwhile. To
the kills of labs/torture_spark/loop.py this adds: a process of the Python side, which plans or scans, and an executor.
After a round the files are compared with the log, and no process and no socket of the query may be left.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyspark

from labs.torture_spark.actors import ROOT, Exporter, spawn
from labs.torture_spark.loop import Round, main
from labs.torture_spark.writer import KEYS

NAME = "torture-streams"
EXECUTORS = "local-cluster[2,1,1024]"
KINDS = (("local[2,8]", "flintmq"), (EXECUTORS, "flintmq"), ("local[2,8]", "5.5.0"))
ADDED = ("side", "executor")


class Query(Exporter):
    """A program of Spark's with a query of a store, started again from its checkpoint whenever it is gone."""

    def __init__(self, folder: Path, stores: str, to: str, max_offsets: int, partition_by: str) -> None:
        super().__init__(folder, stores, to, max_offsets, partition_by)
        self.temporary = Path(tempfile.mkdtemp(prefix="torture-"))  # a short name: a socket's path has 107 bytes
        self.homes = {"SPARK_HOME": str(self._home())} if to == EXECUTORS else {}

    def _home(self) -> Path:
        """A directory like Spark's own: executors leave their files in `work` of it."""
        home = self.temporary / "spark"
        home.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            if path.name != "work":
                (home / path.name).symlink_to(path)
        return home

    def _words(self, stores: str, to: str, max_offsets: int, partition_by: str) -> list[str]:
        words = [sys.executable, str(ROOT / "labs" / "torture_spark" / "query.py"), stores, str(self.folder), to]
        return [*words, str(max_offsets), *(f"{key}={value}" for key, value in KEYS.items())]

    def start(self) -> None:
        out, errors = self.folder / "export.out", self.folder / "export.err"
        self.process = spawn(self.words, out, errors, self.mark, TMPDIR=str(self.temporary), **self.homes)

    def is_a(self, whom: str, words: list[str]) -> bool:
        executor = "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
        if whom == "side":
            return "flintmq.spark.door.serve" in words
        return executor if whom == "executor" else words[0].endswith("java") and not executor

    def attempts(self) -> frozenset[str]:
        """Names of the files that tasks have begun, those that no batch took as well."""
        return frozenset(path.name for path in self.table.rglob("part-*"))

    def close(self) -> int:
        """SIGTERM; its exit code. Nothing of it is left then."""
        code = super().close()
        self.check_gone()
        return code

    def check_gone(self, sockets_too: bool = True) -> None:
        """Wait until all that belongs to a query that has ended is gone.

        Raises:
            AssertionError: a process or a socket is left.
        """
        until = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        assert not left, f"processes are left: {left}"
        sockets = list(self.temporary.glob("flintmq*"))
        assert not sockets or not sockets_too, f"files are left: {sockets}"

    def end(self) -> None:
        super().end()
        shutil.rmtree(self.temporary)


class StreamRound(Round):
    """One store, one query, and who is at work on them."""

    exporting = Query

    @property
    def victims(self) -> dict[str, int]:
        executors = {"executor": 6} if self.kind.startswith(EXECUTORS) else {}
        return {"side": 12, **executors, "writer": 4, "driver": 2, "java": 2, "all": 1}


if __name__ == "__main__":
    sys.exit(main(NAME, StreamRound, KINDS, ADDED))
