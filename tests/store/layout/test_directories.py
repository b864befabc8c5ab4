import os
import shutil

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError, UnsupportedFormatError, UsageError
from flintmq.forensics.inspect import inspect
from flintmq.forensics.verify.run import verify
from flintmq.message import Message
from flintmq.store.layout.directories import (
    LogDirectory,
    find_root,
    in_rocksdb,
    log_directories,
    refuse_rocksdb_queues,
)
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.support.engine import put_messages

PLAIN = StoreConfig()


def folders(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def test_a_store_is_a_directory_with_a_commit_log(tmp_path):
    store = folders(tmp_path / "store", "commitlog")
    assert find_root(store, PLAIN) == str(store)
    assert find_root(f"{store}/x/../", PLAIN) == str(store)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: root, "does not exist; give the directory that holds commitlog/"),
        (lambda root: root.write_bytes(b""), "is a file; give the directory"),
        (lambda root: os.mkfifo(root), "is no directory; give the directory"),
        (lambda root: root.symlink_to("/gone"), "is a link to /gone, which does not exist; give the directory"),
        (lambda root: folders(root, "x"), "holds no commitlog/; give a store's root"),
        (lambda root: (folders(root, "x"), (root / "commitlog").write_bytes(b"")), "holds no commitlog/"),
        (lambda root: (folders(root), root.mkdir(), (root / ("0" * 20)).write_bytes(b"")), "holds log files itself"),
    ],
)
def test_what_is_no_store(tmp_path, make, says):
    make(tmp_path / "store")
    with pytest.raises(NotAStoreError, match=says) as caught:
        find_root(tmp_path / "store", PLAIN)
    assert "\n" not in str(caught.value)


def test_kinds_of_stores_that_are_not_read(tmp_path):
    rocks = folders(tmp_path / "rocks", "commitlog", "consumequeue/Topic")
    find_root(rocks, PLAIN)
    (rocks / "consumequeue" / "000012.sst").write_bytes(b"")
    find_root(rocks, PLAIN)  # readers read the log
    with pytest.raises(UnsupportedFormatError, match="consume queues in RocksDB.* the queues then come from the log"):
        refuse_rocksdb_queues(str(rocks))
    ledger = folders(tmp_path / "ledger", "commitlog", "dledger-n0/data")
    for path in (ledger, ledger / "dledger-n0"):
        with pytest.raises(UnsupportedFormatError, match="dledger-n0: a DLedger log"):
            find_root(path, PLAIN)


def test_commit_log_directories(tmp_path):
    root = folders(tmp_path / "s", "commitlog", "a", " b", "old")
    own = LogDirectory(f"{root}/commitlog", True)
    assert log_directories(str(root), PLAIN) == [own]
    config = PLAIN.with_keys({"readOnlyCommitLogStorePaths": f"{root}/old"})
    assert log_directories(str(root), config) == [own, LogDirectory(f"{root}/old", False)]
    # Only the whole text is trimmed; a directory named as read-only too is read-only.
    config = PLAIN.with_keys(
        {"storePathCommitLog": f"  {root}/old/,{root}/a,{root}/ b ", "readOnlyCommitLogStorePaths": f"{root}/old"}
    )
    assert log_directories(str(root), config) == [
        LogDirectory(f"{root}/a", True),
        LogDirectory(f"{root}/ b", True),
        LogDirectory(f"{root}/old", False),
    ]
    with pytest.raises(NotAStoreError, match=r"/gone: storePathCommitLog names it"):
        log_directories(str(root), PLAIN.with_keys({"storePathCommitLog": f"{root}/gone"}))


# Directories and names of files as brokers of 5.4.0 and 5.5.0 made them, with the keys that had them do so.
ROCKSDB = {
    "consumequeue": ("CURRENT", "consume queues"),  # storeType=defaultRocksDB
    "consumequeue_rocksdb": ("MANIFEST-000005", "consume queues"),  # and useSeparateStorePathForRocksdbCQ
    "rocksdbstore": ("000013.sst", "index, timers or transactions"),  # indexRocksDBEnable, timerRocksDBEnable
    "config/topics": ("000011.sst", "topics"),  # storeType=defaultRocksDB
    "config/subscriptionGroups": ("OPTIONS-000007", "groups"),
    "config/consumerOffsets": ("CURRENT", "committed offsets"),
    "config/rdb": ("000009.sst", "topics, groups and committed offsets"),  # configManagerVersion=v2
}


@pytest.mark.parametrize("folder", ROCKSDB)
def test_what_is_in_rocksdb_is_told_and_only_queues_there_hinder_writing(golden, tmp_path, folder, caplog):
    """A reader gives every message of the log, the engine refuses a store whose queues it would not write."""
    store, (name, what) = golden("v550"), ROCKSDB[folder]
    root = store.copy(tmp_path)
    assert in_rocksdb(str(root)) == {}, "rocksdbstore/ is there, without data"
    if folder.startswith("consumequeue"):
        shutil.rmtree(root / "consumequeue")
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / name).write_bytes(b"x")
    assert in_rocksdb(str(root)) == {folder: f"{what} in RocksDB"}
    config = StoreConfig.from_keys(store.config)
    with open_store(root, config=config) as view:
        assert len(list(view.messages())) == len(store.rows)
        assert view.get("Orders", 0, 0).topic == "Orders"
    assert [note.text for note in inspect(root, config).notes if note.code == "rocksdb"] == [
        f"{folder}/: {what} in RocksDB, which FlintMQ does not read; the log is read"
    ]
    assert verify(root, config).exit_code == 0
    if folder.startswith("consumequeue"):
        with pytest.raises(UnsupportedFormatError, match="consume queues in RocksDB, which FlintMQ does not write"):
            MessageStore(root, config)
        return
    with caplog.at_level("WARNING", "flintmq.store"), MessageStore(root, config):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        f"{root / folder}: {what} in RocksDB, which FlintMQ neither reads nor writes"
    ]


def test_a_topic_that_is_named_as_a_file_of_rocksdb(tmp_path):
    put_messages(tmp_path, (Message(topic, b"x") for topic in ("CURRENT", "MANIFEST-1", "OPTIONS-1")), dev=True)
    assert in_rocksdb(str(tmp_path)) == {}
    with MessageStore(tmp_path, dev=True) as store:
        assert len(list(store)) == 3


@pytest.mark.parametrize("place", ["commitlog", "consumequeue/T/0", "index", "quarantine/x/y", "config", "a link"])
def test_no_store_is_made_inside_another_one(tmp_path, place):
    """RocketMQ does not start with foreign files there."""
    root = tmp_path / "store"
    put_messages(root, [Message("T", b"x")])
    (tmp_path / "link").symlink_to(root / "commitlog")
    before = sorted(root.rglob("*"))
    inside = tmp_path / "link" if place == "a link" else root / place
    with pytest.raises(UsageError, match=f"inside the store {root}; give a directory of its own"):
        MessageStore(inside)
    assert sorted(root.rglob("*")) == before


def test_a_store_beside_a_commit_log_of_another_is_no_part_of_it(tmp_path):
    """As with storePathCommitLog=/data/commitlog; and a directory may be called as one of a store's."""
    (tmp_path / "commitlog").mkdir()
    for name in ("store", "data/index", "index-of-mine"):
        put_messages(tmp_path / name, [Message("T", b"x")])


def test_a_store_that_is_there_is_opened_whatever_lies_beside_it(tmp_path):
    put_messages(tmp_path / "index", [Message("T", b"x")])
    (tmp_path / "commitlog").mkdir()
    with MessageStore(tmp_path / "index") as store:
        assert [message.body for message in store] == [b"x"]
