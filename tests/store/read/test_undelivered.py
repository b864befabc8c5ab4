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
from tests.forensics.answers.test_damage import CHECK_DAMAGE, TIMER_LOG_DAMAGE, written
from tests.support.engine import KEYS, open_small, put_all
from tests.support.makers import config_of, hurt_body

CHECKED = {"config": 36, "config540": 52, "config550": 0}  # CID_RMQ_SYS_TRANS in their consumerOffset.json


def of(root: Path, config: StoreConfig) -> dict[str, tuple[int | None, bool]]:
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


def metrics_of(root: Path, config: StoreConfig) -> dict[str, str]:
    """Of the metrics without further labels their values."""
    page, member = Page(STORE_METRICS), Member(str(root), "b")
    add_figures(page, member, StoreWatch(member, config).look())
    pairs = (line.rsplit(" ", 1) for line in page.text().splitlines() if not line.startswith("#"))
    return {name.partition("{")[0]: value for name, value in pairs}


def names_it_unknown(root: Path, config: StoreConfig, kind: str, metric: str, why: str) -> None:
    """JSON, text and metrics: no number, and the reason."""
    found = inspect(root, config)
    (one,) = [one for one in found.undelivered if one.kind == kind]
    assert (one.messages, one.exact) == (None, False) and "is not known: " in one.text and why in one.text
    assert [note.text for note in found.notes if note.code == kind] == [one.text]
    assert one.text in [one.text for one in explain(root, config).undelivered]
    metrics = metrics_of(root, config)
    assert metric not in metrics and "flintmq_store_clean" in metrics


@pytest.mark.parametrize("damage", [*TIMER_LOG_DAMAGE, "beyond the queue", "from later"])
def test_timers_of_a_damaged_timer_log_are_not_known(golden: Any, tmp_path: Path, damage: str) -> None:
    store = golden("timer")
    root, config = store.copy(tmp_path), StoreConfig()  # sizes are those of the files
    assert metrics_of(root, config)["flintmq_timer_waiting"] == "87"
    (TIMER_LOG_DAMAGE | CHECK_DAMAGE)[damage](root)
    why = f"{root}/timerlog: it lacks" if damage in TIMER_LOG_DAMAGE else f"{root}/config/timercheck: it says more"
    names_it_unknown(root, config, "timer-waiting", "flintmq_timer_waiting", why)


@pytest.mark.parametrize("damage", CHECK_DAMAGE)
def test_no_wrong_timercheck_makes_an_exact_number(golden: Any, tmp_path: Path, damage: str) -> None:
    store = golden("timer")
    root = store.copy(tmp_path)
    CHECK_DAMAGE[damage](root)
    messages, exact = of(root, config_of(store))["timer-waiting"]
    assert not exact and messages in (None, len(rows_of(store, "rmq_sys_wheel_timer"))), "all, each once"


@pytest.mark.parametrize("read", [1, 10_000])
def test_a_timer_log_whose_lost_part_was_delivered_hides_nothing(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    """Unless it lacks more than is read for a count."""
    store = golden("timer")
    root, config = store.copy(tmp_path), config_of(store)
    due = max(int(row["properties"].get("TIMER_OUT_MS", 0)) for row in store.rows)
    written("config/timercheck", (due + 1).to_bytes(8, "big"))(root)
    shutil.rmtree(root / "timerlog")
    monkeypatch.setattr("flintmq.store.read.undelivered.MOST_READ", read)
    assert of(root, config) == ({} if read > 1 else {"timer-waiting": (None, False)})


@pytest.mark.parametrize(("name", "topic", "kind", "metric"), [
    ("timer", "rmq_sys_wheel_timer", "timer-waiting", "flintmq_timer_waiting"),
    ("config", "RMQ_SYS_TRANS_HALF_TOPIC", "halves-unsettled", "flintmq_transaction_unsettled"),
    ("config", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "halves-unsettled", "flintmq_transaction_unsettled"),
])  # fmt: skip
@pytest.mark.parametrize("lost", ["directory", "files", "a link to itself"])
def test_what_waits_in_a_lost_queue_is_not_known(
    golden: Any, tmp_path: Path, name: str, topic: str, kind: str, metric: str, lost: str
) -> None:
    root, config = golden(name).copy(tmp_path), config_of(golden(name))
    queue = root / "consumequeue" / topic / "0"
    if lost == "directory":
        shutil.rmtree(queue.parent)
    elif lost == "files":
        for file in queue.iterdir():
            file.unlink()
    else:
        shutil.rmtree(queue)
        queue.symlink_to(queue)
    names_it_unknown(root, config, kind, metric, topic)


def test_a_half_message_whose_outcome_is_damaged_is_at_most_one_more(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        put_all(store, 5, topic="RMQ_SYS_TRANS_HALF_TOPIC")
        place = store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"0,3,", tags="d")).physical_offset
        store.put(Message("RMQ_SYS_TRANS_OP_HALF_TOPIC", b"4,", tags="d"))
        assert store.wait_dispatched(60)
    hurt_body(tmp_path, place)
    assert of(tmp_path, StoreConfig.from_keys(KEYS)) == {"halves-unsettled": (4, False)}


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
        assert store.wait_dispatched(60)
    assert of(tmp_path, StoreConfig.from_keys(KEYS)) == {"halves-unsettled": (3, True)}


def test_levels_that_the_configuration_does_not_have(tmp_path: Path) -> None:
    with open_small(tmp_path, messageDelayLevel="1h 2h") as store:
        assert store.put(Message("T", b"x", delay_level=2)).status.name == "PUT_OK"
        assert store.wait_dispatched(60)
    assert of(tmp_path, StoreConfig.from_keys(KEYS | {"messageDelayLevel": "1h"})) == {"delays-waiting": (1, True)}
    assert of(tmp_path, StoreConfig.from_keys(KEYS | {"messageDelayLevel": "1h 2h"})) == {}


def test_what_pops_left_and_compacted_topics(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        put_all(store, 4, topic="rmq_sys_REVIVE_LOG_c")
        store.commit_offset("CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_c", 0, 1)
        assert store.wait_dispatched(60)
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
    metric = "flintmq_timer_waiting" if name == "timer" else "flintmq_transaction_unsettled"
    assert metrics_of(root, config)[metric] == text.split()[0]
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
