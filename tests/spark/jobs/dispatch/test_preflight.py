"""What a dispatch does before it begins: nothing stays that was not committed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.forensics.rebuild import plan_of
from flintmq.spark.jobs.dispatch import preflight as start
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.spark.jobs.dispatch.state import load
from tests.spark.jobs.dispatch.dispatching import derived, tasks_as_calls
from tests.support.makers import patch


@pytest.fixture
def made(golden, tmp_path, monkeypatch):
    """A finished dispatch with ext queues: its plan and its state."""
    store, into = golden("cqext"), tmp_path / "into"
    config = StoreConfig.from_keys(store.config)
    tasks_as_calls(monkeypatch)
    dispatch(None, str(store.path), str(into), config, once=True)
    return plan_of(str(store.path), str(into), config), load(str(into))


def test_what_is_not_committed_is_cut(made):
    plan, state = made
    into = Path(plan.into)
    before = derived(into)
    path = max(state.queues, key=lambda name: state.queues[name].next)
    row = state.queues[path]
    last = max((into / path).iterdir())
    patch(last, 20 * row.next - int(last.name), b"unit" * 10)
    (into / path / f"{int(last.name) + plan.sizes.queue_file:020d}").write_bytes(b"x" * plan.sizes.queue_file)
    stranger = into / "consumequeue" / "Stranger" / "0"
    stranger.mkdir(parents=True)
    (stranger / ("0" * 20)).write_bytes(bytes(plan.sizes.queue_file))
    assert derived(into) != before
    start.cut_queues(plan, state)
    assert derived(into) == before
    assert not (into / "consumequeue" / "Stranger").exists()


def test_an_index_is_whole_if_all_of_it_is_as_committed(made):
    plan, state = made
    assert start.index_is_whole(plan, state)
    assert not start.index_is_whole(plan, replace(state, clean=False))
    assert not start.index_is_whole(plan, replace(state, index=replace(state.index, keys=state.index.keys + 1)))
    Path(plan.into, "index", "20990101000000000").write_bytes(b"")
    assert not start.index_is_whole(plan, state)


def test_the_log_is_known_by_its_last_record(made):
    plan, state = made
    start.check_log(plan, state)
    beyond = replace(state.anchor, physical_offset=plan.log.limit + 1)
    for anchor, why in (
        (replace(state.anchor, body_crc=1), f"at log offset {state.anchor.physical_offset} is another record"),
        (
            replace(state.anchor, physical_offset=state.anchor.physical_offset + 1),
            "is another record than the one that was read there, or none",
        ),
        (beyond, f"the log ends at offset {plan.log.limit}"),
    ):
        with pytest.raises(
            UsageError,
            match=f"offset {state.position}: .*{why}.*; bring that log back, give an empty directory, or --anew",
        ):
            start.check_log(plan, replace(state, anchor=anchor))
    with pytest.raises(UsageError, match="the log ends at offset 5, before .*lost its tail"):
        start.check_log(plan, state, 5)  # its bytes may lie there still, after the end: a stale tail


def test_a_directory_may_be_the_store_by_another_name(golden, tmp_path):
    store = golden("basic").copy(tmp_path)
    os.symlink(store, tmp_path / "link")
    plan = start.checked(str(store), str(tmp_path / "link"), StoreConfig(), "5.3.3")
    assert plan.into == plan.root
    other = golden("flags").copy(tmp_path)
    with pytest.raises(UsageError, match="is another store; give an empty directory, or"):
        start.checked(str(store), str(other), StoreConfig(), "5.3.3")
