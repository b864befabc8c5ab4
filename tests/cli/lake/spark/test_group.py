"""`flintmq spark ...`: the commands with the jobs replaced. The jobs are tested in tests/spark, and run for real by the
examples of docs/operations/cli.md (test_docs.py)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from flintmq.errors import CorruptStoreError
from flintmq.forensics.rebuild import Rebuilt
from flintmq.forensics.verify.run import Verification
from flintmq.lake.export.export import Exported
from tests.cli.conftest import Run


class Calls:
    """Stands for Spark and its jobs, and remembers what they were asked."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str | None]] = []
        self.stopped = 0
        self.jobs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.answer: Any = None

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the session of commands, also beside one that another test of this process has."""
        monkeypatch.setattr("flintmq.spark.session", self.session)
        monkeypatch.setattr(sys.modules["flintmq.spark.session"], "running", lambda: None)

    def session(self, name: str, master: str | None = None, **conf: object) -> Calls:
        self.sessions.append((name, master))
        return self

    def stop(self) -> None:
        self.stopped += 1

    def job(self, *args: Any, **kwargs: Any) -> Any:
        self.jobs.append((args, kwargs))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    calls.stand_in(monkeypatch)
    exports = ("lake.export.export_once.export", "lake.export.export_stream.export_stream")
    for name in (*exports, "spark.jobs.rebuild.rebuild", "spark.jobs.verify.verify"):
        monkeypatch.setattr(f"flintmq.{name}", calls.job)
    return calls


def test_export_passes_its_options_on(run: Run, spark: Calls) -> None:
    spark.answer = Exported(number=2, begin=100, end=5000, rows=30, files=3, bytes=2048)
    words = ["--topic", "A", "--topic", "B", "--compression", "zstd", "--decompress", "--explode", "--skip-damage"]
    result = run("spark", "export", "store", "--to", "parquet", "--out", "lake", *words, "--set", "maxIndexNum=400")
    assert (result.code, result.err) == (0, "")
    assert result.out == "exported 30 rows in 3 files, 2.0 KiB\nlog      offsets 100 to 5000\nresult   lake\n"
    [(args, kwargs)] = spark.jobs
    assert (args[:2], kwargs["workers"].spark) == (("store", "lake"), spark) and args[2].max_index_num == 400
    assert kwargs["topics"] == ["A", "B"] and kwargs["compression"] == "zstd" and kwargs["to"] == "parquet"
    assert kwargs["decompress"] and kwargs["explode"] and not kwargs["fail_on_data_loss"]
    assert spark.sessions == [("flintmq export", None)] and spark.stopped == 1


def test_a_streaming_export(run: Run, spark: Calls) -> None:
    spark.answer = Exported(number=2, begin=100, end=5000, rows=30, files=3, bytes=2048)
    words = ["--follow", "--once", "--max-offsets", "70", "--interval", "2.5", "--topic", "A"]
    result = run("spark", "export", "store", "--out", "lake", *words)
    assert (result.code, result.err) == (0, "") and "exported 30 rows in 3 files" in result.out
    [(args, kwargs)] = spark.jobs
    assert (args[:2], kwargs["workers"].spark) == (("store", "lake"), spark)
    assert kwargs["topics"] == ["A"] and kwargs["fail_on_data_loss"]
    assert (kwargs["once"], kwargs["max_offsets"], kwargs["interval_s"]) == (True, 70, 2.5)


def test_export_of_nothing_new(run: Run, spark: Calls) -> None:
    spark.answer = Exported(begin=5000, end=5000, notes={"torn_tail": 1})
    assert run("spark", "export", "store", "--out", "lake").out == (
        "nothing new up to log offset 5000\nnote     torn-tail (1x)\nresult   lake\n"
    )
    assert spark.jobs[0][1]["topics"] is None and spark.jobs[0][1]["fail_on_data_loss"]


def test_skipped_damage_is_exit_code_1(run: Run, spark: Calls) -> None:
    spark.answer = Exported(number=1, rows=1, files=1, damages=2, lost_bytes=300)
    result = run("spark", "export", "store", "--out", "lake", "--skip-damage")
    assert result.code == 1 and "skipped 2 damaged places, 300 bytes\n" in result.out
    assert run("spark", "export", "store", "--out", "lake", "--json").rows == [spark.answer.as_dict()]


@pytest.mark.parametrize("words", [["spark", "rebuild"], ["rebuild", "--engine", "spark"]])
def test_both_ways_to_rebuild(words: list[str], run: Run, spark: Calls) -> None:
    spark.answer = Rebuilt(records=10, units=9, keys=20, queues=4, index_files=1, log_bytes=4096)
    result = run(*words, "store", "--out", "there", "--peer", "5.4.0", "--master", "local[2]")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("records  10 in 4.0 KiB of log\nqueues   4 with 9 units\n")
    [(args, _)] = spark.jobs
    assert (args[0], args[1], args[2], args[4]) == (spark, "store", "there", "5.4.0")
    assert spark.sessions == [("flintmq rebuild", "local[2]")] and spark.stopped == 1


def test_verify_prints_what_the_local_one_prints(run: Run, spark: Calls) -> None:
    spark.answer = Verification("store", records=3, defect_count=1, defect_counts={"unit-wrong": 1})
    result = run("spark", "verify", "store")
    assert result.code == 1 and result.out.endswith("result  1 defect (unit-wrong 1), no notes\n")
    assert run("spark", "verify", "store", "--json").rows[-1]["kind"] == "summary"
    assert spark.stopped == 2


def test_a_failed_job_stops_its_session_and_is_one_line(run: Run, spark: Calls) -> None:
    spark.answer = CorruptStoreError("log/0", 94, "body CRC is wrong")
    result = run("spark", "export", "store", "--out", "lake")
    assert (result.code, result.out, spark.stopped) == (1, "", 1)
    assert result.err == "flintmq: log/0, position 94: body CRC is wrong\n"


def test_a_missing_spark_is_said_with_the_way_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from flintmq.errors import JavaNotFoundError, MissingExtraError

    for error in (MissingExtraError("pip install flintmq[spark]"), JavaNotFoundError("no Java; install one")):

        def no_session(name: str, master: str | None = None, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("flintmq.spark.session", no_session)
        result = run("spark", "verify", "store")
        assert result.code == error.exit_code and result.err == f"flintmq: {error}\n"


def test_a_rebuild_goes_to_a_directory(run: Run) -> None:
    """Refused before Spark starts. Tables of exports may go to object storage."""
    done = run("spark", "rebuild", "anywhere", "--out", "s3://bucket/x")
    assert done.code == 2 and "'s3://bucket/x': this writes to directories only" in done.err
