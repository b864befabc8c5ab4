"""Verify in tasks finds what the local one finds, wherever the log is cut and however queues are shared out."""

import random
from collections import Counter

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify import run as local
from flintmq.spark.jobs import verify as job
from tests.support.makers import flip


@pytest.fixture
def in_process(monkeypatch):
    """Tasks as calls; the log is cut into as many ranges as a test says."""

    def with_ranges(count, cores=2):
        monkeypatch.setattr(job, "run_tasks", lambda spark, task, items, progress: [task(item) for item in items])
        monkeypatch.setattr(job, "parallelism", lambda spark: cores)
        monkeypatch.setattr(job, "walk_count", lambda span, cores: count)
        return lambda *args, **named: job.verify(None, *args, **named)

    return with_ranges


def told(found):
    """What a verification tells, without the order of findings."""
    same = (found.clean, found.live, found.records, found.log_begin, found.log_end, found.ending, found.queues)
    counted = (found.units, found.index_files, found.index_items, found.defect_count, dict(found.defect_counts))
    return same, counted, dict(found.note_counts), Counter(found.defects), Counter(found.notes)


@pytest.mark.parametrize("ranges, cores", [(1, 1), (5, 2), (16, 7)])
def test_on_every_store_as_java_left_it(golden_store, in_process, ranges, cores):
    config = StoreConfig.from_keys(golden_store.config)
    found = in_process(ranges, cores)(str(golden_store.path), config)
    assert told(found) == told(local.verify(golden_store.path, config))
    assert found.exit_code == 0 or golden_store.expect.get("verify") == "any"


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue", "index", "batchconsumequeue", "checkpoint"])
def test_on_damaged_stores(golden, in_process, tmp_path, kind):
    """One byte is changed, anywhere: both give the same verdict, and the same defects."""
    store = golden("batch")
    config = StoreConfig.from_keys(store.config)
    chance = random.Random(kind)
    for number in range(6):
        path = store.copy(tmp_path / str(number))
        files = [path / kind] if (path / kind).is_file() else sorted(f for f in (path / kind).rglob("*") if f.is_file())
        file = chance.choice(files)
        used = [at for at, byte in enumerate(file.read_bytes()) if byte]
        flip(file, chance.choice(used), 1 << chance.randrange(8))
        expected, found = local.verify(path, config), in_process(7)(str(path), config)
        assert told(found)[:2] == told(expected)[:2], (number, file)
        assert told(found)[3] == told(expected)[3], (number, file)


def test_a_log_alone(golden, in_process, tmp_path):
    path = golden("basic").copy(tmp_path)
    for name in ("consumequeue", "index", "checkpoint"):
        for file in sorted((path / name).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    expected, found = local.verify(path), in_process(4)(str(path))
    assert told(found) == told(expected)
    assert found.records == 3000 and found.note_counts["no-queues"] == 1


def test_nothing_is_left_in_scratch(golden, in_process, tmp_path):
    in_process(3)(str(golden("basic").path), scratch=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_on_spark(spark, golden):
    store = golden("rolled")
    config = StoreConfig.from_keys(store.config)
    seen = []
    found = job.verify(spark, str(store.path), config, lambda done, of: seen.append((done, of)))
    assert told(found) == told(local.verify(store.path, config))
    assert seen[-1][0] == seen[-1][1] > 0
