"""Queues that lost files while a start reads records of others only: `flintmq.queues`, and gaps between files."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import CorruptStoreError
from flintmq.message import Message
from flintmq.store.consumequeue import known_ends
from flintmq.store.consumequeue.writer import OpenFiles
from flintmq.store.message_store import MessageStore
from tests.support.engine import FILE_SIZE, open_small, put_dispatched, tree
from tests.support.faults import Faulty

KEYS: dict[str, Any] = {
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mapperFileSizeBatchConsumeQueue": "460",
}
DERIVED = ("consumequeue", "batchconsumequeue")


def opened(root: Path) -> MessageStore:
    return open_small(root, **KEYS)


def made(root: Path) -> dict[str, bytes]:
    """A store whose last log files are of topic T alone; its queues, of ten units a file."""
    with opened(root) as store:
        store.create_topic("B", 1, "BatchCQ")
        for number in range(45):
            store.put(Message("U", b"%d" % number, tags="t", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
            store.put_batch([Message("B", b"%d" % number)] * 2)
        put_dispatched(store, 40, size=800)
    return tree(root, *DERIVED)


LOST = (
    "consumequeue/U",
    "consumequeue/%LMQ%a/0",
    "batchconsumequeue/B",
    *(f"consumequeue/U/0/{200 * n:020d}" for n in (0, 2, 4)),
    *(f"batchconsumequeue/B/0/{460 * n:020d}" for n in (0, 2, 4)),
)


@pytest.mark.parametrize("lost", ["", *LOST[:3], "consumequeue/T", "flintmq.queues", "last unit", "last file's size"])
def test_a_clean_start_writes_no_units_unless_some_are_missing(tmp_path: Path, monkeypatch, lost: str):
    """The mark says that all are on disk, and the list that no queue lost any; without the list nobody knows."""
    before = made(tmp_path)
    last = max((tmp_path / "consumequeue/T/0").iterdir())
    path = tmp_path / lost
    if lost == "last unit":
        data = last.read_bytes().rstrip(b"\0")
        last.write_bytes(data[: (len(data) - 1) // 20 * 20].ljust(200, b"\0"))
    elif lost == "last file's size":
        last.write_bytes(b"")
    elif lost:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    written: list[str] = []
    write = OpenFiles.write
    monkeypatch.setattr(OpenFiles, "write", lambda self, path, *rest: (written.append(path), write(self, path, *rest)))
    with opened(tmp_path) as store:
        assert tree(tmp_path, *DERIVED) == before
        assert bool(written) is bool(lost)
        assert store.put(Message("T", b"next")).queue_offset == 40


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("clean", [True, False])
def test_what_a_queue_lost_is_made_again(tmp_path: Path, lost: str, clean: bool):
    before = made(tmp_path)
    path = tmp_path / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not clean:
        (tmp_path / "abort").touch()
    with opened(tmp_path) as store:
        assert tree(tmp_path, *DERIVED) == before
        assert [m.body for m in store.get("U", 0, 0).messages[:3]] == [b"0", b"1", b"2"]
        assert store.get("B", 0, 0).status.name == store.get("%LMQ%a", 0, 20).status.name == "FOUND"
        assert store.put(Message("U", b"next")).queue_offset == 45
        assert store.put(Message("B", b"next")).queue_offset == 90


@pytest.mark.parametrize("cut", [20, 100, 200])
def test_a_queue_that_ends_before_its_end_is_made_again(tmp_path: Path, cut: int):
    before = made(tmp_path)
    last = tmp_path / "consumequeue/U/0" / f"{800:020d}"
    data = last.read_bytes()
    last.write_bytes(data[: 100 - min(cut, 100)] + bytes(100 + min(cut, 100)))
    with opened(tmp_path):
        assert tree(tmp_path, *DERIVED) == before


def test_nothing_is_read_twice_where_nothing_is_lost(tmp_path: Path):
    made(tmp_path)
    with opened(tmp_path) as store:
        assert any(d.startswith("recovery") for d in store.recovered.decisions)
        assert not any("lost" in d for d in store.recovered.decisions)
        again = next(d for d in store.recovered.decisions if "dispatched again" in d)
        assert int(again.split()[0]) < 10


def test_offsets_of_a_queue_that_retention_emptied_outlive_its_files(tmp_path: Path):
    made(tmp_path)
    keep = FILE_SIZE * 5
    for file in sorted((tmp_path / "commitlog").iterdir()):
        if int(file.name) < keep:
            file.unlink()
    shutil.rmtree(tmp_path / "consumequeue/U")
    with opened(tmp_path) as store:
        assert store.put(Message("U", b"next")).queue_offset == 45
        assert store.wait_dispatched(60)
        assert [m.body for m in store.get("U", 0, 45).messages] == [b"next"]


def test_it_says_nothing_once_others_have_written(tmp_path: Path):
    made(tmp_path)
    assert (tmp_path / known_ends.FILE_NAME).exists()
    (tmp_path / "flintmq.mark").unlink()  # as void as after RocketMQ
    shutil.rmtree(tmp_path / "consumequeue/U")  # a topic that RocketMQ deleted
    store = opened(tmp_path)
    assert not (tmp_path / known_ends.FILE_NAME).exists()
    assert not (tmp_path / "consumequeue/U").exists()
    store.close()
    assert (b"U", 0) not in known_ends.read(str(tmp_path), store.effects)
    open_small(tmp_path, dispatch="external", **KEYS).close()
    assert not (tmp_path / known_ends.FILE_NAME).exists()


def test_damage_leaves_it_alone(tmp_path: Path):
    made(tmp_path)
    (tmp_path / "flintmq.mark").unlink()
    log = tmp_path / "commitlog" / f"{0:020d}"
    log.write_bytes(bytes(200) + log.read_bytes()[200:])
    (tmp_path / "abort").touch()
    with pytest.raises(CorruptStoreError):
        opened(tmp_path)
    assert (tmp_path / known_ends.FILE_NAME).exists()


def test_what_is_written_is_read(tmp_path: Path):
    effects, ends = Faulty(), {("主题".encode(), 3): 5, (b"\xff\xfe", 0): 1 << 40, (b"a/b", 0): 7}
    known_ends.write(str(tmp_path), ends, effects)
    del ends[b"a/b", 0]  # has no directory
    assert known_ends.read(str(tmp_path), effects) == ends
    assert known_ends.lost(ends, {("主题".encode(), 3): 5}) == ["\ufffd\ufffd/0"]
    known_ends.forget(str(tmp_path), effects)
    known_ends.forget(str(tmp_path), effects)
    assert known_ends.read(str(tmp_path), effects) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[1]",
        '[["T", 0]]',
        '[["T", "x", 1]]',
        "[[1, 2, 3]]",
        "null",
        "[" * 100_000,
        '[["T", 0, 1e999]]',
        '[["T", 0, -1]]',
        f'[["T", 0, {1 << 63}]]',
        '[["\\ud800", 0, 1]]',
    ],
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: str):
    (tmp_path / known_ends.FILE_NAME).write_text(text)
    assert known_ends.read(str(tmp_path), Faulty()) == {}


def test_the_bounds_of_a_list_that_is_believed(tmp_path: Path):
    """From an empty queue to one that cannot grow; one end beyond that and the whole list is none."""
    disk = Faulty()
    most = known_ends.LARGEST_OFFSET
    ends = {(b"T", 0): 0, (b"T", 1): 1, (b"U", 0): most}
    known_ends.write(str(tmp_path), ends, disk)
    assert known_ends.read(str(tmp_path), disk) == ends
    for wrong in (-1, most + 1):
        known_ends.write(str(tmp_path), ends | {(b"U", 0): wrong}, disk)
        assert known_ends.read(str(tmp_path), disk) == {}


def test_a_queue_of_one_message_that_is_gone_is_lost():
    assert known_ends.lost({(b"T", 0): 1, (b"T", 1): 0, (b"U", 2): 5}, {(b"U", 2): 4}) == ["T/0", "U/2"]
    assert known_ends.lost({(b"T", 0): 1}, {(b"T", 0): 1}) == []
