"""Messages that are not in their topic yet: counted in stores of real brokers, and said when such a store is opened."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.cluster.member import Member
from flintmq.config.keys import StoreConfig
from flintmq.forensics.inspect import inspect
from flintmq.forensics.retention_plan import explain
from flintmq.forensics.store_figures import StoreWatch
from flintmq.message import Message
from flintmq.metrics.families import add_figures
from flintmq.metrics.page import STORE_METRICS, Page
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.message_store import MessageStore
from flintmq.store.read.queue_lookup import QueueLookup
from flintmq.store.read.undelivered import undelivered
from tests.compat.stores import Golden
from tests.support.engine import KEYS, open_small, put_all
from tests.support.makers import config_of

CHECKED = {"config": 36, "config540": 52, "config550": 0}  # CID_RMQ_SYS_TRANS in their consumerOffset.json


def of(root: Path, config: StoreConfig) -> dict[str, tuple[int, bool]]:
    found = undelivered(QueueLookup(Snapshot.open(root, config)))
    return {one.kind: (one.messages, one.exact) for one in found}


def rows_of(store: Golden, topic: str) -> list[dict[str, Any]]:
    return [row for row in store.rows if row["topic"] == topic]


@pytest.mark.parametrize("name", ["timer", "timer550"])
def test_timers_are_those_that_were_not_delivered(golden: Any, name: str) -> None:
    """By Java's own rows: what came into the timer's topic, and did not come out of it."""
    store = golden(name)
    delivered = {row["msg_id"] for row in rows_of(store, "Timed")}
    waiting = {row["msg_id"] for row in rows_of(store, "rmq_sys_wheel_timer")} - delivered
    assert of(store.path, config_of(store)) == {"timer-waiting": (len(waiting), True)}


def test_timers_without_their_files_are_at_most_all_of_their_topic(golden: Any, tmp_path: Path) -> None:
    """The wheel says nothing that the timer log does not."""
    store = golden("timer")
    root = store.copy(tmp_path)
    (root / "timerwheel").unlink()
    assert of(root, config_of(store)) == {"timer-waiting": (87, True)}
    shutil.rmtree(root / "timerlog")
    (root / "config/timercheck").unlink()
    assert of(root, config_of(store)) == {"timer-waiting": (len(rows_of(store, "rmq_sys_wheel_timer")), False)}


@pytest.mark.parametrize("name", ["config", "config540"])
def test_half_messages_are_those_that_are_not_checked_yet(golden: Any, name: str) -> None:
    """The broker put the others to its end again; no outcome names one of the last."""
    store = golden(name)
    halves = {row["queue_offset"] for row in rows_of(store, "RMQ_SYS_TRANS_HALF_TOPIC")}
    open_ones = {offset for offset in halves if offset >= CHECKED[name]}
    assert of(store.path, config_of(store)) == {"halves-unsettled": (len(open_ones), True)}


def test_other_stores_have_none(golden: Any) -> None:
    for name in ("basic", "delay", "lmq"):
        assert of(golden(name).path, config_of(golden(name))) == {}


def test_an_outcome_settles_its_half_message(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        put_all(store, 5, topic="RMQ_SYS_TRANS_HALF_TOPIC")
        store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"0,3,", tags="d"))
        store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"77,x,", tags="d"))
        assert store.wait_dispatched(10)
    assert of(tmp_path, StoreConfig.from_keys(KEYS)) == {"halves-unsettled": (3, True)}


def test_levels_that_the_configuration_does_not_have(tmp_path: Path) -> None:
    with open_small(tmp_path, messageDelayLevel="1h 2h") as store:
        assert store.put(Message("T", b"x", delay_level=2)).status.name == "PUT_OK"
        assert store.wait_dispatched(10)
    assert of(tmp_path, StoreConfig.from_keys(KEYS | {"messageDelayLevel": "1h"})) == {"delays-waiting": (1, True)}
    assert of(tmp_path, StoreConfig.from_keys(KEYS | {"messageDelayLevel": "1h 2h"})) == {}


def test_what_pops_left_and_compacted_topics(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        put_all(store, 4, topic="rmq_sys_REVIVE_LOG_c")
        store.commit_offset("CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_c", 0, 1)
        assert store.wait_dispatched(10)
    config = StoreConfig.from_keys(KEYS)
    assert of(tmp_path, config) == {"pops-unsettled": (3, False)}
    (tmp_path / "compaction" / "compactionLog" / "T").mkdir(parents=True)
    assert of(tmp_path, config) == {"pops-unsettled": (3, False), "compacted": (0, False)}


@pytest.mark.parametrize(("name", "text"), [("timer", "87 messages wait for a timer"), ("config", "3 half messages")])
def test_every_place_says_it(
    golden: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, text: str
) -> None:
    store = golden(name)
    root, config = store.copy(tmp_path), config_of(store)
    assert text in " ".join(note.text for note in inspect(root, config).notes)
    assert text in " ".join(one.text for one in explain(root, config).undelivered)
    page, member = Page(STORE_METRICS), Member(str(root), "b")
    add_figures(page, member, StoreWatch(member, config).look())
    metric = "flintmq_timer_waiting" if name == "timer" else "flintmq_transaction_unsettled"
    (line,) = [line for line in page.text().splitlines() if line.startswith(metric + "{")]
    assert line.endswith(" " + text.split()[0])
    keys = store.config if name == "config" else {**store.config, "timerWheelEnable": False}
    with caplog.at_level(logging.WARNING, "flintmq.store"), MessageStore(root, config=keys) as opened:
        assert text in caplog.text
        assert opened.put(Message("T", b"x")).status.name == "PUT_OK"
    caplog.clear()
    with caplog.at_level(logging.WARNING, "flintmq.store"), MessageStore(root, config=store.config):
        assert (text in caplog.text) is (name == "config"), "who opens it so delivers them"
    caplog.clear()
    shutil.rmtree(root)
    with caplog.at_level(logging.WARNING, "flintmq.store"), open_small(tmp_path / "plain"):
        assert "nobody" not in caplog.text
