"""The comparison of two stores in tasks finds what the local one finds, wherever the logs are cut."""

import json
import pickle
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import CorruptStoreError, NotAStoreError, UsageError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.diff import run as local
from flintmq.lake.read.splits import LogRange
from flintmq.spark.jobs import diff as job
from flintmq.testing.write_store import write_store
from tests.forensics.diff.test_diff import all_records, altered_body, born, patch, planted, whole_log, written
from tests.support.engine import log_files, stored

SEED = 4


@pytest.fixture(params=[1, 5, 16])
def in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tasks as calls, whose items and answers travel as they do on Spark; the logs are cut into some ranges."""

    def call(spark: None, task: Any, items: Any, progress: Any = None) -> list[Any]:
        run, some = pickle.loads(pickle.dumps((task, items)))
        return [json.loads(json.dumps(run(item))) for item in some]

    monkeypatch.setattr(job.ranges, "PIECE", 4096)
    monkeypatch.setattr(job, "run_tasks", call)
    monkeypatch.setattr(job, "parallelism", lambda spark: 2)
    for name in ("walk_count", "split_count"):
        monkeypatch.setattr(job, name, lambda span, cores: request.param)
    return lambda *words, **named: job.compare(None, *words, **named)  # type: ignore[arg-type]


def told(found: local.Comparison) -> tuple[Any, ...]:
    return found.as_dict(), [run.as_dict() for run in found.differences.runs]


def same(in_process: Any, a: Path, b: Path, by: str = "auto") -> local.Comparison:
    """Compare in tasks, and check that the local comparison says the same."""
    found: local.Comparison = in_process(str(a), str(b), by=by)
    assert told(found) == told(local.compare(str(a), str(b), by=by))
    return found


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    write_store(tmp_path / "a", 1_000, 7, topics=["Orders", "库存"], commit_log_file_size=64 << 10)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("by", ["auto", "offset", "message"])
def test_equal_stores(in_process: Any, pair: tuple[Path, Path], by: str) -> None:
    found = same(in_process, *pair, by=by)
    assert found.equal and found.messages in (None, (1_000, 1_000))


@pytest.mark.parametrize("by", ["offset", "message"])
def test_records_that_were_altered(in_process: Any, pair: tuple[Path, Path], by: str) -> None:
    a, b = pair
    log = whole_log(a)
    some = random.Random(SEED).sample([one for one in all_records(a) if one.body], 30)
    for one in some:
        raw = bytearray(log[one.physical_offset : one.physical_offset + one.size])
        altered_body(raw, raw.index(one.body), len(one.body))
        patch(b, one.physical_offset, bytes(raw))
    assert same(in_process, a, b, by).differences.counts == {"altered": 30}


@pytest.mark.parametrize("by", ["offset", "message"])
def test_bytes_without_a_record(in_process: Any, pair: tuple[Path, Path], by: str) -> None:
    """Pages of zeros, amid the logs: also where ranges are cut."""
    a, b = pair
    for number, at in enumerate(random.Random(SEED).sample(range(0, 120 << 10, 4096), 6)):
        patch(pair[number % 2], at, bytes(4096))
    found = same(in_process, a, b, by)
    assert found.exit_code == 1 and found.a.damage + found.b.damage >= (2 if by == "message" else 0)


def test_a_thousand_planted_differences(in_process: Any, tmp_path: Path) -> None:
    left, right, wanted = planted(1, 6_000)
    found = same(in_process, written(tmp_path / "a", left), written(tmp_path / "b", right), by="message")
    assert Counter({str(kind): count for kind, count in found.differences.counts.items()}) == wanted
    assert sum(wanted.values()) == 1_200


def test_a_store_that_was_replayed(in_process: Any, tmp_path: Path) -> None:
    some = list(map(born, range(100)))
    a = written(tmp_path / "a", some)
    b = written(tmp_path / "b", [*(born(number, "Other") for number in range(40)), *some])
    assert same(in_process, a, b).differences.counts == {"only-in-b": 40}


def test_one_side_ends_earlier_or_begins_later(in_process: Any, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    stored(a, 100)
    copy_whole(str(a), str(b))
    stored(a, 10, 100)
    log_files(b)[0].unlink()
    begin, end = same(in_process, a, b).one_sided
    assert (begin.where, end.where, end.messages) == ("begin", "end", 10) and begin.messages > 0


def test_empty_and_missing_stores(in_process: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    assert [part.messages for part in same(in_process, pair[0], tmp_path / "empty").one_sided] == [1_000]
    assert same(in_process, tmp_path / "empty", pair[0], by="message").differences.counts == {"only-in-b": 1_000}
    with pytest.raises(UsageError, match="are one store; give two"):
        in_process(str(pair[0]), str(pair[0]))
    with pytest.raises(NotAStoreError):
        in_process(str(pair[0]), str(tmp_path / "missing"))


def test_a_cut_within_a_message_is_refused(pair: tuple[Path, Path]) -> None:
    """A body may hold what looks like a message of just this place: then the range before it goes beyond its end."""
    log = local.Snapshot.open(pair[0]).log
    second, third = all_records(pair[0])[1:3]
    end = third.physical_offset + third.size
    with pytest.raises(CorruptStoreError, match="the log was split there"):
        list(job.SplitTask(log, LogRange(0, second.physical_offset + 1), end).messages(local.Report()))


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, wanted = planted(2, 6_000)
    a, b = written(tmp_path / "a", left), written(tmp_path / "b", right)
    for name in ("walk_count", "split_count"):
        monkeypatch.setattr(job, name, lambda span, cores: 3)
    steps: list[tuple[int, int]] = []
    for by in ("offset", "message"):  # the log is smaller than a piece, so the first is one task
        found = job.compare(spark, str(a), str(b), by=by, progress=lambda *step: steps.append(step))
        assert told(found) == told(local.compare(str(a), str(b), by=by))
    assert Counter({str(kind): count for kind, count in found.differences.counts.items()}) == wanted
    assert steps and all(0 <= done <= of for done, of in steps)
