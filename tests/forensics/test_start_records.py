"""Records that RocketMQ's start cannot bear, as recorded from it: what each tool says of them, and what mends them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.salvage.in_place import plan_in_place, undo_in_place
from flintmq.forensics.salvage.into import salvage_into
from flintmq.forensics.verify.codes import DEFECTS
from flintmq.forensics.verify.run import verify
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery.preview import preview
from flintmq.store.view import open_store
from labs.start_fields import KEYS, make
from tests.format.test_start_fields import CASES, EFFECTS, told
from tests.support.looks import look
from tests.support.makers import tiny

LOG = "commitlog/" + "0" * 20
ODD = {"checkpoint-missing", "no-queues", "topic-name", "index-uncovered"}
PICKED = [case for case in CASES if told(case) is not None][::6]
TIMER = {"topic": "rmq_sys_wheel_timer", "properties": {"TIMER_OUT_MS": "soon"}, "sys_flag": 0, "keys": {}}


def config_of(case: dict[str, Any]) -> StoreConfig:
    return StoreConfig.from_keys(KEYS | case["keys"])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verify_names_what_rocketmq_cannot_start_with(tmp_path: Path, case: dict[str, Any]):
    make(tmp_path / "s", case)
    found = verify(tmp_path / "s", config_of(case))
    due = {EFFECTS[verdict] for verdict in case["verdicts"].values()} - {None}
    assert set(found.defect_counts) == due
    assert found.records == 3
    if due:
        (defect,) = found.defects
        assert defect.position == tiny(tmp_path / "t", {}).places[0][1], "the second record"
        assert next(iter(case["properties"]), "queue offset")[:5] in defect.found + defect.expected


def test_light_offsets_are_a_note_without_the_key(tmp_path: Path):
    odd = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "x"}
    make(tmp_path / "s", {"topic": "T", "properties": odd, "sys_flag": 0})
    found = verify(tmp_path / "s", config_of({"keys": {}}))
    assert found.exit_code == 0 and found.note_counts["light-offsets"] == 1


@pytest.mark.parametrize("case", [*PICKED, TIMER], ids=str)
def test_each_tool_says_it_and_both_salvages_mend_it(tmp_path: Path, case: dict[str, Any]):
    root, config = tmp_path / "s", config_of(case)
    make(root, case)
    (code,) = verify(root, config).defect_counts
    cost = DEFECTS[code].cost
    assert any(cost in str(line) for line in preview(str(root), config)["decisions"])  # type: ignore[attr-defined]
    second = tiny(tmp_path / "t", {}).places[0][1]
    assert cost in look(root / LOG, second).found["RocketMQ"]
    with open_store(root, config=config) as view:
        before = [(message.topic, message.body) for message in view.messages()]
    assert len(before) == 3, "readers keep it"
    salvage_into(str(root), str(tmp_path / "into"), config)
    assert verify(tmp_path / "into", config).defect_counts == {}
    log = (root / LOG).read_bytes()
    with plan_in_place(str(root), config) as mending:
        mending.carry_out()
    assert verify(root, config).defect_counts == {}
    kept = 2 if code == "timer-stuck" or "queue_offset" in case else 3
    for mended in (root, tmp_path / "into"):
        with open_store(mended, config=config) as view:
            after = [(m.topic, m.body) for m in view.messages() if not m.topic.startswith("FLINTMQ")]
        assert after == before if kept == 3 else len(after) in (2, 3)
    undo_in_place(str(root), config)
    assert (root / LOG).read_bytes() == log


def test_the_engine_opens_such_a_log_as_it_is(tmp_path: Path):
    """Nothing is damaged: the record is read, and what comes after it too."""
    case = next(case for case in PICKED if told(case) == "start-cut")
    make(tmp_path / "s", case)
    with MessageStore(tmp_path / "s", config=KEYS, dispatch="thread") as store:
        assert store.wait_dispatched(60)
        assert len(list(store)) == 3
    assert set(verify(tmp_path / "s", config_of(case)).defect_counts) == {"start-cut"}
    shutil.rmtree(tmp_path / "s")
