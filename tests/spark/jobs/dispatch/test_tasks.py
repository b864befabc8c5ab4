"""Attempts of a share: one after another, each with the same outcome, none after the round is over."""

import os
import shutil
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreLockedError, UsageError
from flintmq.forensics.rebuild import plan_of
from flintmq.lake.read.splits import LogRange
from flintmq.spark.jobs.dispatch import tasks
from flintmq.spark.jobs.dispatch.tasks import (
    DispatchTask,
    Round,
    begin_work,
    do_share,
    end_work,
    index_count,
    lock_path,
    make_locks,
    stages_path,
)
from flintmq.spark.jobs.rebuild import PlannedIndexFile, stage_range
from flintmq.spark.jobs.staged import Stage
from flintmq.storage.files.dispatch_lock import exclusive
from flintmq.store.commitlog.log_end import find_end


@pytest.fixture
def job(golden, tmp_path):
    """A round over all of a store."""
    store = golden("basic")
    plan = plan_of(str(store.path), str(tmp_path), StoreConfig.from_keys(store.config))
    work = begin_work(plan.into)
    end = find_end(plan.log).offset
    answer = stage_range(plan, stages_path(work), end, "pread", LogRange(0, end))
    return Round(plan, work, [Stage.of(answer)])


def test_a_share_of_queues_is_done_once(job, golden):
    path = "consumequeue/Orders/1"
    share = DispatchTask(0, {path: None}, {})
    make_locks(job.work, [share])
    answer = do_share(job, share)
    made, javas = Path(job.plan.into, path), golden("basic").path / path
    assert {f.name: f.read_bytes() for f in made.iterdir()} == {f.name: f.read_bytes() for f in javas.iterdir()}
    assert list(answer["queues"]) == [path] and answer["queues"][path][0] == 185
    shutil.rmtree(os.path.join(job.plan.into, path))
    again = do_share(job, share)  # another attempt: nothing is written
    assert again["queues"][path] == list(answer["queues"][path])
    assert not os.path.exists(os.path.join(job.plan.into, path))


def test_an_attempt_that_died_is_done_again(job):
    path = "consumequeue/Orders/1"
    shares = [DispatchTask(n, {path: None}, {}) for n in range(2)]
    make_locks(job.work, shares)
    first = do_share(job, shares[0])
    open(os.path.join(job.work, "done-1"), "w").close()  # half an answer
    assert do_share(job, shares[1]) == first


def test_an_index_file_with_keys_is_gone_on_with_once(job):
    name, total = "20260101000000000", job.stages[0].keys
    some = PlannedIndexFile(name, 0, 0, [(0, 0, 100)])
    shares = [DispatchTask(0, {}, {}, some)]
    more = PlannedIndexFile(name, 0, 0, [(0, 100, min(total, 300))])
    shares += [DispatchTask(n, {}, {}, more, begun) for n, begun in ((1, 100), (2, 100), (3, 99))]
    make_locks(job.work, shares)
    made = do_share(job, shares[0])["made"]
    os.mkdir(os.path.join(job.plan.into, "index"))
    place = os.path.join(job.plan.into, "index", name)
    os.rename(made, place)
    assert index_count(place)[0] == 100
    open(os.path.join(job.work, "begun-1"), "x").close()  # an attempt that died
    assert do_share(job, shares[1]) == {"again": True}
    assert do_share(job, shares[3]) == {"again": True}, "another number of keys than was committed"
    assert do_share(job, shares[2]) == {}
    assert index_count(place)[0] == 300
    assert index_count(place + "x") == (-1, -1)


def test_a_round_that_is_over_takes_no_more(job, monkeypatch):
    share = DispatchTask(0, {"consumequeue/Orders/1": None}, {})
    make_locks(job.work, [share])
    monkeypatch.setattr(tasks, "RETIRE_S", 0.0)
    with (
        exclusive(lock_path(job.work, 0)),
        pytest.raises(StoreLockedError, match="a task of an earlier run still writes"),
    ):
        end_work(job.work)
    end_work(job.work)
    assert os.listdir(tasks.work_folder(job.plan.into)) == []
    with pytest.raises(UsageError, match="is over"):
        do_share(job, share)
    assert not os.path.exists(os.path.join(job.plan.into, "consumequeue"))
