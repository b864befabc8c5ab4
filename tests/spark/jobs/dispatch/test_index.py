"""Index files of a dispatch: planned by counting, brought in, and made anew."""

import shutil

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError
from flintmq.forensics.rebuild import plan_of
from flintmq.lake.read.splits import LogRange
from flintmq.spark.jobs.dispatch.index import index_path, planned
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.spark.jobs.dispatch.state import IndexState, load
from flintmq.spark.jobs.rebuild import stage_range
from flintmq.spark.jobs.staged import Stage, keys
from flintmq.store.commitlog.log_end import find_end
from tests.spark.jobs.dispatch.dispatching import derived, tasks_as_calls

ITEMS = 6  # five keys a file


@pytest.fixture
def staged(golden, tmp_path):
    """A plan with small index files, and all keys of a store's log in one stage."""
    store = golden("flags")
    config = StoreConfig.from_keys({**store.config, "maxIndexNum": ITEMS, "maxHashSlotNum": 3})
    plan = plan_of(str(store.copy(tmp_path, "index")), str(tmp_path / "into"), config)
    end = find_end(plan.log).offset
    (tmp_path / "stages").mkdir()
    answer = stage_range(plan, str(tmp_path / "stages"), end, "pread", LogRange(0, end))
    return plan, Stage.of(answer), tuple(answer["last"])


def test_what_is_planned_says_where_the_last_file_begins(staged):
    plan, stage, last = staged
    places = [place for _, offsets, _ in keys(stage.path, 0, stage.keys) for place in offsets]
    files, state = planned(plan, [stage], last, IndexState())
    capacity = ITEMS - 1
    assert [sum(end - first for _, first, end in file.keys) for file in files if file.keys] == [
        min(capacity, stage.keys - first) for first in range(0, stage.keys, capacity)
    ]
    assert state.keys == stage.keys % capacity and state.end[0] == places[-1]
    first = (stage.keys - 1) // capacity * capacity
    assert state.begin == places[first]
    assert state.skip == places[:first].count(places[first]), "keys of the same record in the file before"
    assert state.before[0] == places[first - 1]
    assert (state.empty is None) == (state.keys > 0 or last[0] <= places[-1])


def test_a_round_without_records_changes_nothing(staged):
    plan, stage, _ = staged
    before = IndexState(["20260101000000000"], 0, end=(5, 6), empty="20260101000000001")
    assert planned(plan, [], (-1, 0), before) == ([], before)


def test_an_empty_file_is_replaced_when_a_key_comes(staged, monkeypatch, tmp_path):
    """The name of a file without keys is that of the log's end; the first key gives it another."""
    plan, stage, last = staged
    _, state = planned(plan, [stage._replace(keys=ITEMS - 1)], last, IndexState())
    assert state.keys == 0 and state.empty is not None
    _, after = planned(plan, [stage._replace(keys=1)], last, state)
    assert after.empty is None and len(after.names) == 2 and after.keys == 1


def test_a_log_that_gives_other_keys_is_told(golden, monkeypatch, tmp_path):
    tasks_as_calls(monkeypatch)
    store, into = golden("basic"), tmp_path / "into"
    config = StoreConfig.from_keys(store.config)
    dispatch(None, str(store.path), str(into), config, once=True)
    state = load(str(into))
    plan = plan_of(str(store.path), str(into), config)
    before = derived(into)
    shutil.rmtree(into / "index")  # then the last file is made anew from the log, and the others are not there
    (into / "index").mkdir()
    dispatch(None, str(store.path), str(into), config, once=True)
    last = index_path(plan, state.index.names[-1])
    with open(last, "rb") as file:
        assert file.read() == before["index/" + state.index.names[-1]]
    text = (into / ".flintmq-dispatch" / "state.json").read_text()
    (into / ".flintmq-dispatch" / "state.json").write_text(
        text.replace(f'"keys": {state.index.keys}', f'"keys": {state.index.keys + 1}')
    )
    with pytest.raises(StoreError, match=f"has {state.index.keys} keys from offset .* it had {state.index.keys + 1}"):
        dispatch(None, str(store.path), str(into), config, once=True)
