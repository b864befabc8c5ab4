"""Inspect: what a store holds, as Java sees it, and whatever its derived files hold."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from flintmq.errors import NotAStoreError, UnsupportedFormatError
from flintmq.forensics.inspect import Inspection, OffsetSummary, inspect
from tests.compat.stores import Golden
from tests.support.makers import config_of

# Where RocketMQ is not the measure: it reads stale units, and stops at a record it cannot read.
JAVA_IS_WRONG = {"stale", "poison"}


def look(store: Golden) -> Inspection:
    return inspect(store.path, config_of(store))


def test_queues_and_bounds_are_javas(golden_store: Golden):
    if golden_store.name in JAVA_IS_WRONG:
        pytest.skip(f"{golden_store.name}: RocketMQ's own bounds are wrong (tests/compat/golden/README.md)")
    found = look(golden_store)
    ours = {(t.name, q.queue_id): (q.min_offset, q.max_offset, t.type) for t in found.topics for q in t.queues}
    theirs = {
        (row["topic"], row["queue_id"]): (row["min"], row["max"], row["type"])
        for row in golden_store.queue_rows
        if row["kind"] == "queue"
    }
    assert ours == theirs
    store = golden_store.queue_rows[0]
    assert (found.log.begin, found.log.end) == (store["min_physical_offset"], store["max_physical_offset"])
    assert found.messages == sum(high - low for low, high, _ in theirs.values())


def test_the_range_of_times_is_the_logs(golden_store: Golden):
    if golden_store.expect.get("beyond"):
        pytest.skip(f"{golden_store.name}: RocketMQ reads only a part of the log")
    found = look(golden_store)
    assert found.log.first_time == golden_store.live[0]["store_timestamp"]
    assert found.log.last_time == golden_store.live[-1]["store_timestamp"]


def test_a_stale_store_is_read_up_to_its_end(golden: Callable[[str], Golden]):
    found = look(golden("stale"))
    assert (found.log.end, found.log.ending) == (37_575, "stale_tail")
    assert [(queue.queue_id, queue.max_offset) for queue in found.topics[0].queues] == [(0, 98), (1, 97)]
    assert [note.code for note in found.notes] == ["log-end"]


def test_how_a_store_was_stopped(golden: Callable[[str], Golden]):
    assert {name: look(golden(name)).clean for name in ("basic", "crash", "crash540", "crash550", "crash-keys")} == {
        "basic": True, "crash": False, "crash540": False, "crash550": False, "crash-keys": False,
    }  # fmt: skip
    assert not look(golden("crash")).live


def test_groups_and_their_lag(golden: Callable[[str], Golden]):
    store = golden("config")
    text = (store.path / "config" / "consumerOffset.json").read_text()
    (trade,) = re.findall(r'"Trade@TradeGroup":\{(.*?)\}', text, re.DOTALL)
    committed = {int(queue): int(offset) for queue, offset in re.findall(r"(\d+):(\d+)", trade)}
    ends = {
        row["queue_id"]: row["max"] for row in store.queue_rows if row["kind"] == "queue" and row["topic"] == "Trade"
    }
    found = look(store)
    (group,) = (group for group in found.groups if group.name == "TradeGroup")
    assert group.offsets == [
        OffsetSummary("Trade", queue, committed[queue], ends[queue], ends[queue] - committed[queue])
        for queue in range(4)
    ]
    assert group.configured
    assert group.lag == sum(ends.values()) - sum(committed.values())
    assert {one.name for one in found.groups} >= {"AuditGroup", "TxGroup", "SELF_TEST_C_GROUP"}


def test_delay_levels(golden: Callable[[str], Golden]):
    store = golden("delay")
    queues = [row for row in store.queue_rows if row["kind"] == "queue" and row["topic"] == "SCHEDULE_TOPIC_XXXX"]
    ends = {row["queue_id"]: row["max"] for row in queues}
    committed = {1: 12, 2: 6, 3: 9, 5: 0, 14: 0, 17: 0, 18: 0}  # config/delayOffset.json
    expected = [(level - 1, offset, ends[level - 1] - offset) for level, offset in committed.items()]
    assert [(one.queue_id, one.offset, one.lag) for one in look(store).delays] == expected


def test_configured_topics_without_messages_are_listed(golden: Callable[[str], Golden]):
    found = {topic.name: topic for topic in look(golden("config")).topics}
    assert found["SELF_TEST_TOPIC"].configured and not found["SELF_TEST_TOPIC"].queues
    assert (found["Bulk"].type, found["Trade"].type) == ("BatchCQ", "SimpleCQ")
    assert {topic.configured for topic in look(golden("basic")).topics} == {None}


def test_files_index_checkpoint_and_timer(golden: Callable[[str], Golden]):
    found = look(golden("basic"))
    assert [(folder.kind, folder.files, folder.bytes) for folder in found.folders] == [
        ("commitlog", 6, 6 * 131_072),
        ("consumequeue", 35, 35 * 2000),
        ("index", 4, 4 * 42_040),
    ]
    assert [one.items for one in found.index] == [1999, 1999, 1999, 1231]
    assert (found.index[0].begin_offset, found.index[-1].end_offset) == (0, 737_115)
    assert found.checkpoint is not None
    assert found.checkpoint["logics_timestamp"] == golden("basic").rows[-1]["store_timestamp"]
    assert found.timer is None
    timer = look(golden("timer")).timer
    assert timer is not None
    assert (timer.log_files, timer.log_flushed_position, timer.queue_offset) == (2, 5824, 111)


def test_it_has_a_json_form(golden_store: Golden):
    assert json.loads(json.dumps(asdict(look(golden_store))))["root"] == str(golden_store.path)


def test_a_log_alone(golden: Callable[[str], Golden], tmp_path: Path):
    shutil.copytree(golden("basic").path / "commitlog", tmp_path / "commitlog")
    found = inspect(tmp_path)
    assert found.messages == 3000
    assert [topic.name for topic in found.topics] == ["Orders", "Payments", "Shipments", "库存"]
    assert (found.checkpoint, found.index, found.notes) == (None, [], [])


def test_odd_bytes_in_derived_files_are_notes(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("config"), golden("config").copy(tmp_path)
    (root / "checkpoint").write_bytes(b"short")
    (root / "config" / "timercheck").write_bytes(b"")
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{')
    (root / "config" / "consumerOffset.json").write_bytes(b"\xff" * 100)
    next((root / "index").iterdir()).write_bytes(b"x" * 39)
    for path in (root / "consumequeue").rglob("0" * 20):
        path.write_bytes(b"\xff" * 2000)
    found = inspect(root, config_of(store))
    assert {note.code for note in found.notes} >= {"checkpoint", "timer", "config", "index"}
    assert found.checkpoint is None
    assert found.log.end == 74_697


def test_what_is_no_store(tmp_path: Path):
    with pytest.raises(NotAStoreError):
        inspect(tmp_path)
    (tmp_path / "dledger-a").mkdir()
    with pytest.raises(UnsupportedFormatError):
        inspect(tmp_path)


def test_a_link_in_place_of_a_queue_is_a_note(golden: Callable[[str], Golden], tmp_path: Path):
    """The queue counts as empty, because no link is followed; that must not happen without a word."""
    path = shutil.copytree(golden("basic").path, tmp_path / "store")
    folder = next(path.glob("consumequeue/*/0"))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    found = inspect(str(path))
    [note] = [note for note in found.notes if note.code == "link"]
    assert note.text == f"{folder}: a symbolic link, which is not followed; put what it names itself there"


def test_many_links_are_a_few_notes(golden: Callable[[str], Golden], tmp_path: Path):
    path = shutil.copytree(golden("basic").path, tmp_path / "store")
    for number in range(25):
        (path / "index" / f"{number:02d}").symlink_to(tmp_path)
    texts = [note.text for note in inspect(str(path)).notes if note.code == "link"]
    assert len(texts) == 20 and texts[-1].startswith(f"{path}/index/19: a symbolic link")
    assert [text.endswith(" (and 5 more)") for text in texts] == [False] * 19 + [True]
