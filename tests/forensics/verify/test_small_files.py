"""Checkpoint, configuration files, committed offsets, the root."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.forensics.verify.findings import Findings
from flintmq.forensics.verify.run import verify
from flintmq.forensics.verify.small_files import check_checkpoint, check_offsets, read_checkpoint
from flintmq.format import flintmq_mark
from flintmq.format.checkpoint import Checkpoint
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.config_reader import BrokerConfig, TopicConfig
from tests.compat.stores import Golden
from tests.support.makers import check, config_of, flip, patch


@pytest.fixture
def broker(golden: Callable[[str], Golden], tmp_path: Path) -> tuple[Golden, Path]:
    """A whole broker directory."""
    root = golden("config").copy(tmp_path)
    (root / "timerwheel").unlink()
    return golden("config"), root


def checkpoint(root: Path, *numbers: int, size: int = 4096) -> None:
    (root / "checkpoint").write_bytes(struct.pack(">5q", *numbers).ljust(size, b"\0")[:size])


def test_a_checkpoint_may_lag_and_may_be_missing(broker: tuple[Golden, Path]):
    store, root = broker
    checkpoint(root, 0, 0, 0, 0, 0)
    check(root, store, notes=())
    checkpoint(root, 1, 2, 3, 4, 5)
    check(root, store, notes=())
    (root / "checkpoint").unlink()
    check(root, store, notes={"checkpoint-missing"})


@pytest.mark.parametrize("field", range(5))
def test_a_checkpoint_must_not_be_ahead(broker: tuple[Golden, Path], field: int):
    store, root = broker
    last, end = store.rows[-1]["store_timestamp"], 74_697
    limits = [last, last, last, None, end]
    numbers = [0] * 5
    numbers[field] = (limits[field] or 10**15) + 1
    checkpoint(root, *numbers)
    found = check(root, store, defects=() if limits[field] is None else {"checkpoint-ahead"})
    if found.defects:
        assert found.defects[0].position == 8 * field
        assert found.defects[0].found == str(numbers[field])
        numbers[field] -= 1
        checkpoint(root, *numbers)
        check(root, store)


def test_a_checkpoint_of_another_shape(broker: tuple[Golden, Path]):
    store, root = broker
    for size in (0, 39, 40, 4095, 5000):
        checkpoint(root, 0, 0, 0, 0, 0, size=size)
        check(root, store, defects={"checkpoint-bad"})
    checkpoint(root, -1, 0, 0, 0, 0)
    check(root, store, defects={"checkpoint-bad"})
    checkpoint(root, 0, 0, 0, 0, 0)
    patch(root / "checkpoint", 48, b"\1")
    check(root, store, notes={"checkpoint-rest"})
    checkpoint(root, 0, 0, 0, 0, 0)
    patch(root / "checkpoint", 40, b"\1")
    check(root, store, defects={"checkpoint-ahead"})


def test_a_log_that_lost_its_records(broker: tuple[Golden, Path]):
    """Nothing in the log itself tells that its last file is missing; the checkpoint does."""
    store, root = broker
    (root / "commitlog" / f"{65536:020}").unlink()
    found = verify(root, config_of(store))
    assert found.defect_counts["checkpoint-ahead"] == 3  # both times, and the confirm offset
    (root / "commitlog" / f"{0:020}").write_bytes(bytes(65536))
    assert "checkpoint-ahead" in verify(root, config_of(store)).defect_counts


def test_checkpoint_functions_alone(tmp_path: Path):
    found = Findings()
    assert read_checkpoint(str(tmp_path), found, REAL) == Checkpoint()
    (tmp_path / "checkpoint").mkdir()
    assert read_checkpoint(str(tmp_path), found, REAL) == Checkpoint()
    assert (found.note_counts, found.defect_counts) == ({"checkpoint-missing": 1}, {"checkpoint-bad": 1})
    check_checkpoint(str(tmp_path), Checkpoint(5, 5, 5), 0, 5, found)
    assert found.defect_count == 1
    check_checkpoint(str(tmp_path), Checkpoint(5), 0, 0, found)
    assert found.defects[-1].expected == "physic_timestamp 0, since the log has no record"


def test_every_bit_of_our_own_mark(broker: tuple[Golden, Path]):
    store, root = broker
    physic = struct.unpack(">q", (root / "checkpoint").read_bytes()[:8])[0]
    (root / "flintmq.mark").write_bytes(flintmq_mark.encode(5, physic))
    check(root, store, notes=())
    for at in range(len(flintmq_mark.encode(5, physic))):
        flip(root / "flintmq.mark", at, 1 << at % 8)
        check(root, store, defects={"mark-bad"})
        flip(root / "flintmq.mark", at, 1 << at % 8)


def test_our_own_note_of_deleted_topics(broker: tuple[Golden, Path]):
    store, root = broker
    note = root / "flintmq.deleted"
    note.write_bytes(b'{"format": 1, "topics": [["Gone", 10, 20, true]]}')
    check(root, store, notes=())
    for text in (b"", b"{", b"[]", b'{"format": 1, "topics": [["Gone", "x", 20, true]]}'):
        note.write_bytes(text)
        [defect] = check(root, store, defects={"deleted-bad"}).defects
        assert defect.file == str(note) and "it cannot be understood (" in defect.found
    note.unlink()
    note.mkdir()
    check(root, store, defects={"deleted-bad"})


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b'{"topicConfigTable":[]}', b'{"topicConfigTable":{"A":5}}', b"{}", b"[]", b"\xff\xff", b'{"a":1}x'],
)
def test_configuration_that_rocketmq_would_not_write(broker: tuple[Golden, Path], text: bytes):
    store, root = broker
    for name in ("topics.json", "topics.json.bak"):
        before = (root / "config" / name).read_bytes()
        (root / "config" / name).write_bytes(text)
        found = check(root, store, defects={"config-bad"})
        assert found.defects[0].file == str(root / "config" / name)
        (root / "config" / name).write_bytes(before)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("subscriptionGroup.json", b"subscriptionGroupTable"),
        ("consumerOffset.json", b"offsetTable"),
        ("delayOffset.json", b"offsetTable"),
        ("consumerFilter.json", b"filterDataByTopic"),
        ("consumerOrderInfo.json", b'"table'),
    ],
)
def test_a_table_must_be_there(broker: tuple[Golden, Path], name: str, table: bytes):
    store, root = broker
    path = root / "config" / name
    data = path.read_bytes()
    assert table in data
    path.write_bytes(data.replace(table, table[:-1] + b"_"))
    check(root, store, defects={"config-bad"})


def test_other_files_in_config(broker: tuple[Golden, Path]):
    store, root = broker
    (root / "config" / "transactionMetrics").write_text("{")
    check(root, store, defects={"config-bad"})
    (root / "config" / "transactionMetrics").write_text("{}")
    (root / "config" / "mine.txt").write_text("hello")
    (root / "config" / "rdb").mkdir()
    check(root, store, notes={"unknown-file"})
    (root / "compaction" / "position-checkpoint").write_text("?")
    check(root, store, defects={"config-bad"})


def test_offsets_ahead_of_their_queues(broker: tuple[Golden, Path]):
    store, root = broker
    path = root / "config" / "consumerOffset.json"
    data = path.read_text()
    assert "0:14" in data  # Audit@AuditGroup, whose queue 0 has 14 messages
    path.write_text(data.replace("0:14", "0:15"))
    (defect,) = check(root, store, defects={"offset-ahead"}).defects
    assert (defect.expected, defect.found) == ("group AuditGroup, queue Audit/0: an offset up to 14", "15")
    for offset in (-5, -2):
        path.write_text(data.replace("0:14", f"0:{offset}"))
        (defect,) = check(root, store, defects={"offset-ahead"}).defects
        expected = "group AuditGroup, queue Audit/0: an offset from 0 to 14 (-1: none yet)"
        assert (defect.expected, defect.found) == (expected, str(offset))
    for offset in (13, 0, -1):
        path.write_text(data.replace("0:14", f"0:{offset}"))
        check(root, store)
    path.write_text(data.replace('"Audit@', '"Deleted@'))
    check(root, store)
    delay = root / "config" / "delayOffset.json"
    delay.write_text(delay.read_text().replace("3:2", "3:3"))
    check(root, store, defects={"offset-ahead"})


def test_offsets_of_light_queues_and_empty_ones():
    found = Findings()
    ends = {("%LMQ%a", 0): 5, ("T", 0): 0}
    config = BrokerConfig(
        topics={"T": TopicConfig("T")},
        consumer_offsets={("T", "g"): {0: 0, 1: 0, 2: -1}},
        lmq_offsets={("%LMQ%a", "g"): 5, ("%LMQ%gone", "g"): 50},
        files=("lmqConsumerOffset.json",),
    )
    check_offsets("/s", config, lambda topic, queue: ends.get((topic, queue)), found)
    assert found.defects == []
    ahead = BrokerConfig(topics=config.topics, lmq_offsets={("%LMQ%a", "g"): 6}, files=config.files)
    check_offsets("/s", ahead, lambda topic, queue: ends.get((topic, queue)), found)
    assert found.defects[0].file == "/s/config/lmqConsumerOffset.json"
    check_offsets(
        "/s", BrokerConfig(topics=config.topics, consumer_offsets={("T", "g"): {1: 1}}), lambda *_: None, found
    )
    assert found.defect_count == 2


def test_what_lies_in_the_root(broker: tuple[Golden, Path]):
    store, root = broker
    for name in ("timerwheel.5824", "epochFileCheckpoint", "brokerIdentity.bak", "quarantine"):
        (root / name).touch()
    (root / "timerwheel.5824").unlink()
    check(root, store, notes=())
    (root / "notes.txt").touch()
    (root / "kvStore").mkdir()
    (root / "compaction" / "compactionLog" / "T").mkdir(parents=True)
    found = check(root, store, notes={"unknown-file", "not-checked"})
    assert found.note_counts == {"unknown-file": 1, "not-checked": 2}


def test_a_log_directory_below_the_root_is_known(golden: Callable[[str], Golden], tmp_path: Path):
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    (root / "commitlog").rename(root / "mylog")
    (root / "commitlog").mkdir()
    config = config_of(store).with_keys({"storePathCommitLog": str(root / "mylog")})
    found = verify(root, config)
    assert (found.exit_code, found.notes, found.records) == (0, [], 3000)
