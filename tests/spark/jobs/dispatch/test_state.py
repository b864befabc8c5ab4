"""The state of a dispatch: written as a whole, read as it was written, refused when it is something else."""

import json
import os
from dataclasses import replace

import pytest

from flintmq.errors import ConfigError, StoreAccessError
from flintmq.forensics.rebuild import plan_of
from flintmq.spark.jobs.dispatch.state import (
    DispatchSettings,
    DispatchState,
    IndexState,
    check_shape,
    commit,
    load,
    state_path,
)
from flintmq.storage.files.dispatch_lock import DispatchLock
from flintmq.store.commitlog.anchor import LogAnchor
from flintmq.store.consumequeue.writer import WriterState


@pytest.fixture
def plan(golden, tmp_path):
    DispatchLock(str(tmp_path)).release()
    return plan_of(str(golden("basic").path), str(tmp_path))


def full(plan) -> DispatchState:
    return DispatchState(
        DispatchSettings.of(plan),
        position=500,
        log_begin=100,
        last=(400, 1_700_000_000_000),
        anchor=LogAnchor(400, 100, 1_700_000_000_000, 7),
        clean=True,
        queues={"consumequeue/\udcff/0": WriterState(5, 100, 0, -1)},
        batches={"batchconsumequeue/b/1": 46},
        index=IndexState(["20260101000000000"], 3, 120, 1, (110, 5), (400, 6), "20260101000000001"),
    )


def test_it_comes_back_as_it_was(plan):
    assert load(plan.into) is None
    state = full(plan)
    commit(plan.into, plan, state)
    assert load(plan.into) == state
    commit(plan.into, plan, replace(state, position=600))
    assert load(plan.into) == replace(state, position=600)
    assert sorted(os.listdir(os.path.dirname(state_path(plan.into)))) == ["lock", "state.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}', "[" * 100_000, "\0"])
def test_another_file_is_refused(plan, text):
    with open(state_path(plan.into), "w") as file:
        file.write(text)
    with pytest.raises(StoreAccessError, match=r"state.json: not a readable state .*; --anew makes everything again"):
        load(plan.into)


def test_it_is_readable(plan):
    commit(plan.into, plan, full(plan))
    with open(state_path(plan.into)) as file:
        told = json.load(file)
    assert (
        told["format"] == 2
        and told["flintmq"] == "0.2.0"
        and told["position"] == 500
        and told["shape"]["peer"] == "5.3.3"
    )


def test_sizes_count_where_they_were_given(plan):
    found = DispatchSettings.of(plan)
    other = replace(found, slots=found.slots + 1)
    check_shape("into", found, other, frozenset())
    with pytest.raises(ConfigError, match=f"into was made with maxHashSlotNum {found.slots}, not {found.slots + 1}"):
        check_shape("into", found, other, frozenset({"maxHashSlotNum"}))
    with pytest.raises(ConfigError, match="made with messageIndexEnable True, not False"):
        check_shape("into", found, replace(found, index=False), frozenset())
