"""What became of the messages of real brokers: by Java's rows, units and the scripts that wrote the stores."""

import json
import re
import shutil
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.cluster.member import Member
from flintmq.errors import UsageError
from flintmq.forensics.answers import collect
from flintmq.forensics.answers.answer import Answer
from flintmq.forensics.answers.collect import TraceAsked
from flintmq.forensics.answers.dead import dead
from flintmq.forensics.answers.halves import halves
from flintmq.forensics.answers.timers import timers
from flintmq.forensics.answers.trace import Trace, trace
from tests.compat.stores import FOLDER, Golden, read_lines
from tests.support.makers import config_of

SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
ENDS = {"COMMIT_MESSAGE": "delivered", "ROLLBACK_MESSAGE": "rolled back", "UNKNOW": "hanging"}
NO_OUTCOMES = {**ENDS, "ROLLBACK_MESSAGE": "hanging"}
"""The broker of config540 stopped before it wrote the outcomes; CHECKED in test_undelivered.py says so."""


def of(store: Golden, root: Path | None = None, **asked: Any) -> Answer[Trace]:
    return trace([Member(str(root or store.path), "")], TraceAsked(**asked), config_of(store))


def rows_of(store: Golden, topic: str) -> list[dict[str, Any]]:
    return [row for row in store.rows if row["topic"] == topic]


def of_ids(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["msg_id"]: row for row in rows}


@pytest.mark.parametrize(("name", "ends"), [("config", ENDS), ("config540", NO_OUTCOMES), ("config550", ENDS)])
def test_transactions_end_as_their_senders_said(golden: Callable[[str], Golden], name: str, ends: dict[str, str]):
    store = golden(name)
    script = read_lines(FOLDER / f"{name}.ops.jsonl")
    said = sorted((op["keys"], ends[op["outcome"]]) for op in script if op["op"] == "transaction")
    found = of(store, topic="Tx").rows
    assert sorted((row.keys, row.state) for row in found) == said and len(said) >= 4
    assert {row.source for row in found} == {"transaction"} and {row.producer for row in found} == {"OracleProducer"}
    committed = of_ids(rows_of(store, "Tx"))
    for row in found:
        if row.state == "delivered":
            java = committed[row.msg_id]
            assert (row.physical_offset, row.stored_ms) == (java["physical_offset"], java["store_timestamp"])
    checks = defaultdict(int)
    for java in rows_of(store, HALF):
        times = int(java["properties"].get("TRANSACTION_CHECK_TIMES", 0))
        checks[java["msg_id"]] = max(checks[java["msg_id"]], times)
    assert {row.msg_id: row.asked for row in found} == checks


@pytest.mark.parametrize(("name", "open_ones"), [("config", 3), ("config540", 4), ("config550", 1)])
def test_halves_are_those_without_an_outcome(golden: Callable[[str], Golden], name: str, open_ones: int):
    """As many as RocketMQ's own offsets say (tests/store/read/test_undelivered.py); of config540 one is committed."""
    store, member = golden(name), [Member(str(golden(name).path), "")]
    script = read_lines(FOLDER / f"{name}.ops.jsonl")
    unknown = sorted(op["keys"] for op in script if op.get("outcome") == "UNKNOW")
    found = halves(member, config_of(store))
    assert found.counts == {"records": len(rows_of(store, HALF)), "open": open_ones}
    keys = sorted(row.keys for row in found.rows if row.state == "hanging")
    if name == "config540":
        committed = [row for row in found.rows if row.state == "committed"]
        assert [row.keys for row in committed] == [op["keys"] for op in script if op.get("outcome") == "COMMIT_MESSAGE"]
        assert [row.ended_ms for row in committed] == [row["store_timestamp"] for row in rows_of(store, "Tx")]
        assert set(unknown) < set(keys) and len(keys) == 3 and "asks their senders" in found.notes[0]
    else:
        assert keys == unknown and found.notes == []
    assert all(row.asked > 0 and row.topic == "Tx" for row in found.rows)
    one = halves(member, config_of(store), limit=1)
    assert len(one.rows) == 1 and one.is_cut == (open_ones > 1) and one.counts == found.counts
    ended = halves(member, config_of(store), ended=True)
    assert len(ended.rows) == sum(op["op"] == "transaction" for op in script)


def units(root: Path, topic: str) -> dict[int, int]:
    """Log offset -> tags code, as RocketMQ wrote them: of the schedule topic the time of delivery."""
    found = {}
    for file in (root / "consumequeue" / topic).rglob("0*"):
        for offset, size, code in struct.iter_unpack(">qiq", file.read_bytes()) if file.is_file() else ():
            if size:
                found[offset] = code
    return found


@pytest.mark.parametrize("name", ["delay", "delay550"])
def test_delays_wait_until_they_are_in_their_topic(golden: Callable[[str], Golden], name: str):
    store = golden(name)
    due = units(store.path, SCHEDULE)
    waited = {
        id: row for id, row in of_ids(rows_of(store, SCHEDULE)).items() if "ORIGIN_MESSAGE_ID" not in row["properties"]
    }
    waited = {id: row for id, row in waited.items() if row["properties"]["REAL_TOPIC"] == "Later"}
    arrived = of_ids(rows_of(store, "Later"))
    found = {row.msg_id: row for row in of(store, topic="Later").rows}
    assert found.keys() == waited.keys() | arrived.keys() and len(waited) > 40 < len(found)
    for id, row in found.items():
        assert row.state == ("delivered" if id in arrived else "waiting")
        assert row.source == (
            "delay" if id in waited and "REAL_TOPIC" in arrived.get(id, waited[id])["properties"] else None
        )
        assert row.stored_ms == (arrived[id]["store_timestamp"] if id in arrived else None)
        if row.source:
            assert row.due_ms == due[waited[id]["physical_offset"]], "as RocketMQ computed it"
    listed = timers([Member(str(store.path), "")], config_of(store))
    never = [row for row in rows_of(store, SCHEDULE) if row["properties"]["REAL_TOPIC"] == "Never"]
    assert listed.counts == {"delay": len(waited.keys() - arrived.keys()) + len(never)} and len(never) == 3
    assert [row.due_ms for row in listed.rows] == sorted(due[row.physical_offset] for row in listed.rows)
    assert {row.msg_id for row in listed.rows} == (waited.keys() - arrived.keys()) | of_ids(never).keys()
    first = timers([Member(str(store.path), "")], config_of(store), limit=4)
    assert first.rows == listed.rows[:4] and first.is_cut and not listed.is_cut


@pytest.mark.parametrize("name", ["timer", "timer550"])
def test_timers_wait_until_they_are_in_their_topic(golden: Callable[[str], Golden], name: str):
    store = golden(name)
    waited, arrived = of_ids(rows_of(store, TIMER)), of_ids(rows_of(store, "Timed"))
    found = {row.msg_id: row for row in of(store, topic="Timed").rows}
    assert found.keys() == waited.keys() | arrived.keys() and len(waited) > 100
    for id, row in found.items():
        assert row.state == ("delivered" if id in arrived else "waiting")
        assert row.source == ("timer" if id in waited else None)
        assert row.due_ms == (int(waited[id]["properties"]["TIMER_OUT_MS"]) if id in waited else None)
    listed = timers([Member(str(store.path), "")], config_of(store))
    assert {row.msg_id for row in listed.rows} == waited.keys() - arrived.keys()
    assert listed.counts == {"timer": len(listed.rows)}
    assert {row.topic for row in listed.rows} == {"Timed"} and {row.source for row in listed.rows} == {"timer"}


@pytest.mark.parametrize(
    ("name", "group", "topic"),
    [("config", "TradeGroup", "Trade"), ("config540", "TradeGroup", "Trade"), ("config550", "TradeGroup", "Trade"),
     ("delay", "DelayGroup", "Later"), ("delay550", "DelayGroup", "Later")],
)  # fmt: skip
def test_retries_are_of_the_message_that_they_name(golden: Callable[[str], Golden], name: str, group: str, topic: str):
    store = golden(name)
    java = {row["properties"]["ORIGIN_MESSAGE_ID"]: row for row in rows_of(store, f"%RETRY%{group}")}
    given_back = {row["properties"].get("ORIGIN_MESSAGE_ID"): row for row in rows_of(store, SCHEDULE)}
    found = {row.offset_msg_id: row for row in of(store, topic=topic).rows if row.retries}
    assert found.keys() == java.keys() and java
    for id, row in found.items():
        [retry] = row.retries
        assert (retry.group, retry.times, retry.stored_ms) == (group, 1, java[id]["store_timestamp"])
        assert retry.waits_ms == given_back[id]["store_timestamp"]
        assert (retry.topic, retry.queue_offset) == (f"%RETRY%{group}", java[id]["queue_offset"])
    listed = dead([Member(str(store.path), "")], config_of(store), retries=True)
    assert listed.counts == {"retries": len(java)}
    by_id = {row["offset_msg_id"]: row for row in store.rows}
    for one in listed.rows:
        origin = next(id for id, row in java.items() if row["physical_offset"] == one.physical_offset)
        first = by_id[origin]
        place = (one.first_topic, one.first_queue, one.first_offset, one.first_ms)
        assert place == (topic, first["queue_id"], first["queue_offset"], first["store_timestamp"])
        assert (one.group, one.is_dead, one.times, one.reason) == (group, False, 1, "given back")


@pytest.mark.parametrize("name", ["config", "config540", "config550"])
def test_groups_have_passed_what_is_before_their_offset(golden: Callable[[str], Golden], name: str):
    """The offsets as RocketMQ wrote them; in its JSON numbers are keys."""
    store = golden(name)
    text = (store.path / "config/consumerOffset.json").read_text(encoding="utf-8")
    table = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))["offsetTable"]
    table = {key: {int(queue): at for queue, at in value.items()} for key, value in table.items()}
    for topic in ("Trade", "Audit", "Tx"):
        groups = {key.split("@")[1]: value for key, value in table.items() if key.split("@")[0] == topic}
        for row in of(store, topic=topic).rows:
            if row.stored_ms is None:
                assert row.groups == []
                continue
            want = {group: at.get(row.queue_id, -1) > row.queue_offset for group, at in groups.items()}
            assert {one.group: one.passed for one in row.groups} == want
    assert groups


def test_every_message_is_found_by_key_id_and_property(golden: Callable[[str], Golden]):
    store = golden("config")
    for java in rows_of(store, "Trade")[:20]:
        holders = [row for row in store.rows if java["keys"] in (row["keys"] or "").split(" ")]
        ids = {row["msg_id"] for row in holders}
        assert {row.msg_id for row in of(store, key=java["keys"]).rows} == ids
        in_topic = [row["physical_offset"] for row in holders if row["topic"] == "Trade"]
        assert [row.physical_offset for row in of(store, key=java["keys"], topic="Trade").rows] == in_topic
        same = [row["physical_offset"] for row in rows_of(store, "Trade") if row["msg_id"] == java["msg_id"]]
        assert [row.physical_offset for row in of(store, id=java["msg_id"]).rows] == same
        for id in (java["offset_msg_id"], java["offset_msg_id"].lower()):
            [row] = of(store, id=id).rows
            assert (row.physical_offset, row.offset_msg_id) == (java["physical_offset"], java["offset_msg_id"])
    held = {row["msg_id"] for row in store.rows if row["properties"].get("region") == "r2"}
    assert {row.msg_id for row in of(store, property=("region", "r2")).rows} == held and held


def test_the_index_answers_without_a_walk(golden: Callable[[str], Golden], monkeypatch: pytest.MonkeyPatch):
    store = golden("config")

    def rows_of_key(key: str) -> list[Trace]:
        # In an hour of deleteWhen what is to go goes at the moment of the question.
        return [replace(row, delete_ms=None) for row in of(store, topic="Trade", key=key).rows]

    by_walk = {java["keys"]: rows_of_key(java["keys"]) for java in rows_of(store, "Trade")[:30]}
    monkeypatch.setattr(collect, "FILE_BYTES", 0)
    monkeypatch.setattr(collect, "LogWalk", None)  # whoever called it would fail
    for key, rows in by_walk.items():
        assert rows_of_key(key) == rows and rows
    assert any(row.retries for rows in by_walk.values() for row in rows)


@pytest.mark.parametrize("name", ["basic", "rolled", "lmq", "crash", "flags", "batch", "v540"])
def test_plain_messages_are_one_row_each(golden: Callable[[str], Golden], name: str):
    """Where nothing waits and nothing is retried, rows are records."""
    store = golden(name)
    for topic in {row["topic"] for row in store.live if row["sys_flag"] & 12 == 0} - {SCHEDULE, "rmq_sys_wheel_timer"}:
        if topic.startswith(("%", "RMQ_SYS", "rmq_sys")) or "\ufffd" in topic:
            continue
        want = {
            row["physical_offset"] for row in store.live if row["topic"] == topic and row["sys_flag"] & 12 in (0, 8)
        }
        found = {row.physical_offset for row in of(store, topic=topic).rows if row.state == "delivered"}
        assert found == want, topic


def test_limits_and_times_say_that_there_is_more(golden: Callable[[str], Golden]):
    store = golden("basic")
    rows = sorted(rows_of(store, "Orders"), key=lambda row: row["physical_offset"])
    found = of(store, topic="Orders", limit=5)
    assert [row.physical_offset for row in found.rows] == [row["physical_offset"] for row in rows[:5]] and found.is_cut
    assert not of(store, topic="Orders", limit=len(rows)).is_cut
    begin, end = rows[40]["store_timestamp"], rows[90]["store_timestamp"]
    want = [row["physical_offset"] for row in rows if begin <= row["store_timestamp"] < end]
    assert [row.physical_offset for row in of(store, topic="Orders", since=begin, until=end).rows] == want and want


@pytest.mark.parametrize(
    "asked", [{}, {"key": ""}, {"topic": "%DLQ%G"}, {"topic": HALF}, {"topic": SCHEDULE}, {"property": ("", "x")}]
)
def test_what_no_message_can_have_is_refused(golden: Callable[[str], Golden], asked: dict[str, Any]):
    with pytest.raises(UsageError):
        of(golden("basic"), **asked)


def test_an_answer_is_a_table(golden: Callable[[str], Golden]):
    store = golden("config")
    found = of(store, topic="Trade")
    table = found.to_arrow()
    assert table.num_rows == len(found.rows) == len(rows_of(store, "Trade"))
    assert str(table.schema.field("stored_ms").type) == "timestamp[ms, tz=UTC]"
    assert table["physical_offset"].to_pylist() == [row.physical_offset for row in found.rows]
    retried = [row for row in found.to_arrow(["retries", "keys"]).to_pylist() if row["retries"]]
    assert [one["group"] for row in retried for one in row["retries"]] == ["TradeGroup"] * 2
    assert halves([Member(str(store.path), "")], config_of(store)).to_arrow().num_rows == 3
    assert "TradeGroup" in found._repr_html_()


@pytest.mark.parametrize(
    ("name", "topic"),
    [("config", HALF), ("config", "RMQ_SYS_TRANS_OP_HALF_TOPIC"), ("delay", SCHEDULE), ("timer", TIMER)],
)
def test_queues_without_files_are_found_in_the_log(
    golden: Callable[[str], Golden], tmp_path: Path, name: str, topic: str
):
    """As after the loss of a directory: what waits there waits still."""
    store, root = golden(name), golden(name).copy(tmp_path)
    shutil.rmtree(root / "consumequeue" / topic)
    whole, copy = [Member(str(store.path), "")], [Member(str(root), "")]
    config = config_of(store)
    assert halves(copy, config).rows == halves(whole, config).rows
    assert timers(copy, config).rows == timers(whole, config).rows
    assert [row.state for row in trace(copy, TraceAsked(topic="Tx"), config).rows] == [
        row.state for row in trace(whole, TraceAsked(topic="Tx"), config).rows
    ]


def test_a_lost_record_of_what_waits_is_said(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("timer"), golden("timer").copy(tmp_path)
    waiting = timers([Member(str(root), "")], config_of(store)).rows
    java = next(row for row in store.rows if row["physical_offset"] == waiting[0].physical_offset)
    file = root / "commitlog/00000000000000000000"
    data = bytearray(file.read_bytes())
    data[java["physical_offset"] + 90 : java["physical_offset"] + 120] = b"\xff" * 30
    file.write_bytes(data)
    found = timers([Member(str(root), "")], config_of(store))
    assert len(found.rows) == len(waiting) - 1
    assert found.report.damage_count and "1 messages that wait cannot be read" in found.notes[-1]
