"""The golden files themselves: complete, whole, and read by the fixtures as they were written."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.compat.stores import EXPECT, FOLDER, GOLDEN_NAMES, Golden

RECORD_KEYS = {
    "physical_offset", "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "sys_flag", "born_timestamp",
    "born_host", "store_timestamp", "store_host", "reconsume_times", "prepared_transaction_offset", "body_length",
    "body_sha1", "topic", "tags", "keys", "properties", "msg_id", "offset_msg_id",
}  # fmt: skip
# Counted by Java when the stores were made (golden/README.md).
RECORDS = {
    "basic": 3000, "batch": 154, "config": 186, "config540": 127, "config550": 88, "cqext": 300, "crash": 384,
    "crash-keys": 200, "crash540": 404, "crash550": 272, "crc": 193, "delay": 87, "delay550": 87, "flags": 111,
    "flags540": 111, "flags550": 111, "lmq": 150, "lmq550": 150, "poison": 5, "rolled": 374, "stale": 195,
    "stale-aligned": 200, "timer": 140, "timer550": 140, "v540": 450, "v550": 450,
}  # fmt: skip


def test_names():
    assert set(GOLDEN_NAMES) == set(RECORDS)


@pytest.mark.parametrize("suffix", [".jsonl", ".queues.jsonl", ".config.json", ".ops.jsonl"])
def test_every_store_has_its_files(suffix: str):
    assert [name for name in GOLDEN_NAMES if not (FOLDER / (name + suffix)).is_file()] == []


def test_store_is_complete(golden_store: Golden):
    assert (golden_store.path / "commitlog").is_dir()
    assert (golden_store.path / "checkpoint").stat().st_size == 4096
    assert len(golden_store.rows) == RECORDS[golden_store.name]
    assert all(row.keys() == RECORD_KEYS for row in golden_store.rows)
    assert {row["kind"] for row in golden_store.queue_rows} <= {"store", "queue", "key"}


def test_expect_names_stores_and_known_keys():
    assert set(EXPECT) <= set(GOLDEN_NAMES)
    keys = {key for line in EXPECT.values() for key in line}
    assert keys == {"beyond", "consumequeue", "index", "rebuild", "verify"}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in EXPECT if f"`{name}`" not in readme] == []


def test_config_and_sets(golden):
    crc = golden("crc")
    assert crc.config == {
        "enabledAppendPropCRC": True,
        "mappedFileSizeCommitLog": 65536,
        "mappedFileSizeConsumeQueue": 2000,
        "maxHashSlotNum": 500,
        "maxIndexNum": 2000,
    }
    assert crc.sets[:4] == ["--set", "enabledAppendPropCRC=true", "--set", "mappedFileSizeCommitLog=65536"]
    assert golden("batch").topics["BatchTopic"]["attributes"] == {"queue.type": "BatchCQ"}
    assert golden("crash").sets[:2] == ["--set", "flushDiskType=ASYNC_FLUSH"]
    assert golden("config").broker["brokerName"] == "broker-a"


def test_copy_is_private(golden, tmp_path: Path):
    store = golden("poison")
    copy = store.copy(tmp_path)
    assert copy == tmp_path / "poison"
    stamps = store.stamps()
    (copy / "checkpoint").write_bytes(b"")
    assert store.stamps() == stamps


def test_archives_are_the_ones_java_wrote():
    """Digests of the archives, so that nobody makes a golden store again with our own code by accident."""
    written = json.loads((FOLDER / "digests.json").read_text(encoding="utf-8"))
    found = {name: hashlib.sha256((FOLDER / f"{name}.tar.xz").read_bytes()).hexdigest() for name in GOLDEN_NAMES}
    assert found == written
