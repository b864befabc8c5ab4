"""`flintmq spark replay`: options in, and what it prints; the job is tested in tests/spark."""

import pytest

from flintmq.spark.jobs.replay.job import Replayed
from tests.cli.conftest import Run
from tests.cli.lake.spark.test_group import Calls


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    calls.stand_in(monkeypatch)
    monkeypatch.setattr("flintmq.spark.jobs.replay.job.replay", calls.job)
    return calls


def test_options_are_passed_on(run: Run, spark: Calls) -> None:
    spark.answer = Replayed("bulk", "delta", rows=30, bytes=4096, topics=2, queues=8, files=1, total=30)
    words = ["--where", "topic = 'a'", "--live", "--speed", "x2", "--system-topics", "--skip-damage", "--peer", "5.4.0"]
    words += ["--skip-refused"]
    result = run("spark", "replay", "table", "--out", "store", *words, "--set", "maxIndexNum=400", "--access", "map")
    assert (result.code, result.err) == (0, "")
    assert result.out == "replayed 30 messages in 8 queues of 2 topics, 4.0 KiB, 1 log files\nresult   store\n"
    [(args, kwargs)] = spark.jobs
    assert args[:3] == (spark, "table", "store") and args[3].max_index_num == 400
    assert (kwargs["where"], kwargs["live"], kwargs["speed"], kwargs["dry_run"]) == ("topic = 'a'", True, "x2", False)
    assert (kwargs["system_topics"], kwargs["fail_on_data_loss"], kwargs["peer"]) == (True, False, "5.4.0")
    assert (
        kwargs["skip_refused"] is True
        and kwargs["access"] == "map"
        and spark.sessions == [("flintmq replay", None)]
        and spark.stopped == 1
    )


def test_what_is_left_out_and_skipped_is_told(run: Run, spark: Calls) -> None:
    spark.answer = Replayed(
        "live", "store", rows=0, found=7, total=9, left_out={"system_topics": 3}, damages=1, lost_bytes=90
    )
    result = run("spark", "replay", "a", "--out", "b")
    assert result.code == 1 and result.out == (
        "replayed nothing: there are no new messages\nfound    7 messages that an earlier run had put\n"
        "left out 3 system topics\nskipped  1 damaged places, 90 bytes\nresult   b\n"
    )
    assert run("spark", "replay", "a", "--out", "b", "--json").rows == [spark.answer.as_dict()]
    spark.answer = Replayed("bulk", "store", dry_run=True, rows=2, bytes=10, topics=1, queues=1, files=1)
    assert run("spark", "replay", "a", "--out", "b", "--dry-run").out == (
        "would replay 2 messages in 1 queues of 1 topics, 10 B, 1 log files\n"
    )
    spark.answer = Replayed("live", "store", rows=2, left_out={"refused_messages": 1})
    result = run("spark", "replay", "a", "--out", "b", "--skip-refused")
    assert result.code == 1 and "left out 1 refused messages" in result.out
    spark.answer = Replayed("bulk", "store", rows=2, notes={"lost": 1}, note_texts={"lost": ["its end is missing"]})
    result = run("spark", "replay", "a", "--out", "b", "--skip-damage")
    assert result.code == 1 and "note     lost: its end is missing" in result.out
