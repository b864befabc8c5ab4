"""The rebuild in stages gives the bytes of the local engine, wherever the log is cut."""

from collections import Counter

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.forensics import rebuild as local
from flintmq.spark.jobs import rebuild as job
from flintmq.spark.jobs.rebuild import share_out
from tests.forensics.test_rebuild import bare, begun_again, units
from tests.support.engine import tree
from tests.support.makers import hurt_body


@pytest.fixture
def in_process(monkeypatch):
    """Tasks as calls, the log cut into as many ranges as a test says, each task done twice as an attempt may be."""

    def with_ranges(count):
        monkeypatch.setattr(
            job, "run_tasks", lambda spark, task, items, progress: [(task(i), task(i))[1] for i in items]
        )
        monkeypatch.setattr(job, "parallelism", lambda spark: 2)
        monkeypatch.setattr(job, "walk_count", lambda span, cores: count)
        return lambda *args, **named: job.rebuild(None, *args, **named)

    return with_ranges


@pytest.mark.turn(3, of=["src/flintmq/forensics/rebuild", "src/flintmq/spark/jobs/rebuild"])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_both_engines_make_the_same_bytes(golden_store, in_process, tmp_path, count):
    config = StoreConfig.from_keys(golden_store.config)
    peer = golden_store.expect.get("rebuild", ["", "5.3.3"])[1]
    expected = local.rebuild(str(golden_store.path), str(tmp_path / "local"), config, peer)
    made = in_process(count)(str(golden_store.path), str(tmp_path / "spark"), config, peer)
    ours, theirs = tree(tmp_path / "spark", ""), tree(tmp_path / "local", "")
    assert list(ours) == list(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert (made.records, made.units, made.keys, made.queues, made.index_files) == (
        expected.records, expected.units, expected.keys, expected.queues, expected.index_files,
    )  # fmt: skip
    assert {p.name for p in (tmp_path / "spark").iterdir()} == {p.name for p in (tmp_path / "local").iterdir()}


def test_notes_are_those_of_the_local_engine(golden, in_process, tmp_path):
    store = golden("rolled")
    config = StoreConfig.from_keys(store.config)
    expected = local.rebuild(str(store.path), str(tmp_path / "local"), config)
    made = in_process(4)(str(store.path), str(tmp_path / "spark"), config)
    assert made.notes == expected.notes


@pytest.mark.parametrize("count", [1, 3])
def test_the_counts_are_what_the_files_have(in_process, tmp_path, count):
    made = in_process(count)(str(begun_again(tmp_path)), str(tmp_path / "into"), StoreConfig())
    assert (made.units, made.queues) == (len(units(tmp_path / "into" / "consumequeue")), 1) == (5, 1)


@pytest.mark.parametrize("items", [2, 3, 7, 50])
def test_index_files_of_any_size(golden, in_process, tmp_path, items):
    """Files begin and end in the middle of ranges and of records; the last one may be exactly full."""
    store = golden("flags")
    config = StoreConfig.from_keys({**store.config, "maxIndexNum": items, "maxHashSlotNum": 5})
    source = bare(store, tmp_path / "bare")  # an index there would show its own sizes
    local.rebuild(str(source), str(tmp_path / "local"), config)
    in_process(5)(str(source), str(tmp_path / "spark"), config)
    assert tree(tmp_path / "spark" / "index", "") == tree(tmp_path / "local" / "index", "")


def test_damage_is_an_error_and_leaves_nothing(golden, in_process, tmp_path):
    path = golden("basic").copy(tmp_path)
    row = next(row for row in golden("basic").rows[500:] if row["body_length"] > 8)
    file, position = hurt_body(path, row["physical_offset"])
    with pytest.raises(CorruptStoreError, match=f"{file.name}, position {position}"):
        in_process(3)(str(path), str(tmp_path / "into"), StoreConfig.from_keys(golden("basic").config))
    assert not (tmp_path / "into").exists()


def test_what_stands_there_is_not_touched(golden, in_process, tmp_path):
    (tmp_path / "index").mkdir()
    with pytest.raises(UsageError, match="index exists already"):
        in_process(1)(str(golden("basic").path), str(tmp_path))


def test_progress_goes_up_to_the_end(golden, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(job, "parallelism", lambda spark: 2)

    def run(spark, task, items, progress):
        answers = []
        for item in items:
            answers.append(task(item))
            progress(len(answers), len(items))
        return answers

    monkeypatch.setattr(job, "run_tasks", run)
    config = StoreConfig.from_keys(golden("basic").config)
    job.rebuild(None, str(golden("basic").path), str(tmp_path / "x"), config, progress=lambda *args: seen.append(args))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_queues_are_shared_out_evenly():
    shares = share_out(Counter({"a": 10, "b": 9, "c": 5, "d": 4, "e": 2}), 2)
    assert sorted(map(sorted, shares)) == [["a", "d", "e"], ["b", "c"]]
    assert share_out(Counter(), 4) == []
