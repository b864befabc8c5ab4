"""Worker processes: Spark hangs up when it has enough, and nobody is shown a traceback for it."""

import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

import flintmq.spark
from flintmq.lake.history.history import History
from flintmq.lake.read import members
from flintmq.spark.history import HistoryReader
from flintmq.spark.source import BatchReader
from flintmq.spark.worker import expect_hanging_up
from flintmq.store.commitlog.report import LOST
from flintmq.testing import write_store

LEAVES_EARLY = """
    import sys
    import flintmq.spark

    spark = flintmq.spark.session("leaves early", "local[2]")
    for _ in range(4):
        frame = spark.read.format("flintmq").option("minPartitions", 7).load(sys.argv[1])
        frame.groupBy("queue_id").count().orderBy("queue_id").show()
        print(len(frame.limit(3).collect()), len(frame.take(2)), frame.first().topic != "")
    spark.stop()
"""


def test_a_query_prints_no_traceback(tmp_path):
    """One of two planning workers was hung up on in nearly each query."""
    write_store(tmp_path / "s", messages=3000, seed=1)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LEAVES_EARLY), tmp_path / "s"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0 and done.stdout.count("3 2 True") == 4
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("error", [BrokenPipeError, OSError, ValueError])
def test_only_the_broken_pipe_is_silent(error, capsys, monkeypatch):
    """PySpark's own module stands for the process; it prints in both ways, by a setting of Spark."""
    import pyspark.daemon

    monkeypatch.setitem(sys.modules, "__main__", pyspark.daemon)
    monkeypatch.setattr(pyspark.daemon, "traceback", pyspark.daemon.traceback)
    monkeypatch.setattr(pyspark.daemon, "print", print, raising=False)
    expect_hanging_up()
    try:
        raise error("seen")
    except error:
        pyspark.daemon.traceback.print_exc()
        pyspark.daemon.print(
            "PySpark daemon failed to flush\n" + pyspark.daemon.traceback.format_exc(), file=sys.stderr
        )
    assert capsys.readouterr().err.count("Error: seen\n") == (0 if error is BrokenPipeError else 2)


def test_other_processes_are_left_alone(monkeypatch):
    main = sys.modules["__main__"]
    before = dict(vars(main))
    expect_hanging_up()
    assert vars(main) == before and flintmq.spark.session is not None


@pytest.mark.parametrize("reader", [BatchReader, HistoryReader])
def test_a_plan_tells_notes_of_one_kind_in_one_line(reader, caplog, monkeypatch):
    """Spark plans anew for each action, in a new process; what a read goes on without is named each time."""

    def plan(given, *_):
        for number in range(9):
            given.note("time_step", f"offset {number}: store time steps back")
        given.note("stale_tail", "offset 9: stale")
        given.note(LOST, "store a is left out")
        given.note(LOST, "store b is left out")
        return []

    monkeypatch.setattr(members, "plan_members", lambda options, report, *_: plan(report))
    monkeypatch.setattr(History, "of_options", lambda options: SimpleNamespace(tasks=plan))
    one = reader.__new__(reader)
    one.options, one.comparisons = SimpleNamespace(least_splits=1), []
    assert one.partitions() == []
    assert [record.getMessage() for record in caplog.records] == [
        "offset 0: store time steps back (and 8 more notes like it; `flintmq verify` shows all)",
        "offset 9: stale",
        "store a is left out",
        "store b is left out",
    ]
