"""Copies: the same bytes at rest, one consistent point of a live store, some messages in a store of their own."""

import itertools
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, UsageError
from flintmq.forensics import copy
from flintmq.forensics.copy import copy_some, copy_whole
from flintmq.forensics.verify.run import verify
from flintmq.message import Message
from flintmq.store.commitlog.predicate import Predicate
from tests.compat.stores import Golden
from tests.forensics.salvage.test_into import messages, same
from tests.support.engine import tree
from tests.support.makers import config_of

SMALL = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 50, "maxIndexNum": 400}


def log_of(root: Path, end: int) -> bytes:
    parts = sorted((root / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in parts)[: end - int(parts[0].name)]


def test_every_golden_store(golden_store: Golden, tmp_path: Path) -> None:
    into, config = tmp_path / "into", config_of(golden_store)
    done = copy_whole(str(golden_store.path), str(into), config)
    found_before = {} if done.live else verify(golden_store.path, config).defect_counts  # Java left some in one
    assert verify(into, config).defect_counts == found_before
    found = messages(into, golden_store)
    assert len(found) == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    assert all(same(*pair) for pair in zip(golden_store.live, found, strict=False))
    assert log_of(into, done.end) == log_of(golden_store.path, done.end)


def test_at_rest_every_byte_is_the_same(golden: Any, tmp_path: Path) -> None:
    root = golden("config").path
    done = copy_whole(str(root), str(tmp_path / "into"))
    expected = {name: data for name, data in tree(root, "").items() if name not in ("lock", "abort.bak")}
    assert {name: data for name, data in tree(tmp_path / "into", "").items() if name != "abort.bak"} == expected
    assert not done.live and done.left_out == [] and done.files >= len(expected)


def test_a_store_that_never_held_a_message(tmp_path: Path) -> None:
    with flintmq.MessageStore(tmp_path / "store", config=SMALL):  # its log has no file yet
        done = copy_whole(str(tmp_path / "store"), str(tmp_path / "copy"), StoreConfig.from_keys(SMALL))
    assert (done.end, done.damages) == (0, [])
    with flintmq.MessageStore(tmp_path / "copy", config=SMALL) as store:
        assert store.put(Message("T", b"first")).physical_offset == 0


def test_a_store_that_is_written_meanwhile(tmp_path: Path) -> None:
    """Each copy is a store without defects that holds the log up to one point, and goes on from there."""
    root, stop, told, config = tmp_path / "store", threading.Event(), [], StoreConfig.from_keys(SMALL)

    def write(store: flintmq.MessageStore) -> None:
        while not stop.is_set():
            number = len(told)
            result = store.put(Message(f"T{number % 3}", b"x" * (number % 700), queue_id=number % 2, keys=f"k{number}"))
            told.append(result.physical_offset)
            stop.wait(0.0005)

    with flintmq.MessageStore(root, config=SMALL) as store:
        told.append(store.put(Message("T0", b"", queue_id=0, keys="k0")).physical_offset)  # the log has its first file
        thread = threading.Thread(target=write, args=(store,))
        thread.start()
        try:
            copies = []
            for number in range(5):
                before = len(told)
                copies.append((copy_whole(str(root), str(tmp_path / f"c{number}"), config), before))
        finally:
            stop.set()
            thread.join()
    for number, (done, before) in enumerate(copies):
        into = tmp_path / f"c{number}"
        assert done.live and verify(into, config).defects == []
        assert log_of(into, done.end) == log_of(root, done.end)
        with flintmq.open_store(into) as view:
            held = [message.physical_offset for message in view.messages()]
            assert held == told[: len(held)] and len(held) >= before
        with flintmq.MessageStore(into, config=SMALL) as store:
            assert store.recovered.state.end == done.end
            assert store.put(Message("T0", b"more", queue_id=0)).queue_offset == sum(
                n % 6 == 0 for n in range(len(held))
            )
    assert copies[-1][0].end > copies[0][0].end


def test_what_a_killed_run_left_is_swept(golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, into = str(golden("crash").path), tmp_path / "into"
    child = os.fork()
    if not child:
        monkeypatch.setattr(copy, "bring_in", lambda *_: os._exit(9))
        try:
            copy_whole(root, str(into))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not into.exists() and [path.name for path in tmp_path.iterdir()] == [".into.flintmq-copy"]
    copy_whole(root, str(into))
    assert [path.name for path in tmp_path.iterdir()] == ["into"] and verify(into).defects == []


def test_some_messages(golden: Any, tmp_path: Path) -> None:
    root, since = golden("basic").path, 1795167380600
    done = copy_some(str(root), str(tmp_path / "into"), Predicate(topics=frozenset(["Orders"]), since=since))
    assert verify(tmp_path / "into").defects == []
    with flintmq.open_store(root) as old, flintmq.open_store(tmp_path / "into") as new:
        wanted = [m for m in old.messages() if m.topic == "Orders" and m.store_timestamp >= since]
        found = list(new.messages())
        assert found[0].physical_offset == 0 and done.log_bytes == found[-1].physical_offset + found[-1].size
        for one, other in zip(wanted, found, strict=True):
            for name in ("body", "properties", "store_timestamp", "born_timestamp", "msg_id", "queue_id", "store_host"):
                assert getattr(one, name) == getattr(other, name)
        for info in new.queues():
            offsets = [m.queue_offset for m in found if m.queue_id == info.queue_id]
            assert offsets == list(range(info.max_offset)) and info.topic == "Orders"
    told = [json.loads(line) for line in (tmp_path / "into" / "copy.jsonl").read_text().splitlines()]
    runs = [line for line in told if line["kind"] == "log"]
    assert sum(line["records"] for line in runs) == len(wanted) == done.records
    assert runs[0]["old"] == wanted[0].physical_offset


def test_damage(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    with (root / "commitlog" / "00000000000000262144").open("rb+") as file:
        file.write(b"\xff" * 50)
    whole = copy_whole(str(root), str(tmp_path / "whole"))
    assert log_of(tmp_path / "whole", whole.end) == log_of(root, whole.end)
    orders = Predicate(topics=frozenset(["Orders"]))
    with pytest.raises(CorruptStoreError, match="00000000000000262144"):
        copy_some(str(root), str(tmp_path / "some"), orders)
    assert not (tmp_path / "some").exists()
    done = copy_some(str(root), str(tmp_path / "some"), orders, strict=False)
    assert done.lost_ranges == 1 and 700 < done.records <= 763 and verify(tmp_path / "some").defects == []


def test_refusals(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(UsageError, match="is there already"):
        copy_whole(str(root), str(tmp_path / "full"))
    with pytest.raises(UsageError, match="is inside the store"):
        copy_whole(str(root), str(root / "copy"))
    with pytest.raises(UsageError, match="peer"):
        copy_some(str(root), str(tmp_path / "new"), Predicate(since=0), peer="4.9")


def test_what_is_no_file_of_a_store_is_left_out(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "link.json").symlink_to("/etc/hostname")
    (root / "config" / "folder").symlink_to(tmp_path)  # which holds the copy itself: following it would not end
    (root / "elsewhere").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "commitlog" / "pipe")
    (root / "commitlog" / "00000000000001310720").symlink_to("/etc/hostname")
    (root / "commitlog" / "notes.txt").write_text("not the log's")
    done = copy_whole(str(root), str(tmp_path / "into"))
    left_out = ["commitlog/00000000000001310720", "commitlog/notes.txt", "commitlog/pipe"]
    left_out += ["config/folder", "config/link.json", "elsewhere", "pipe"]
    assert sorted(done.left_out) == left_out
    assert not any(os.path.lexists(tmp_path / "into" / name) for name in left_out)


def test_a_directory_of_the_root_may_lie_on_another_disk(golden: Any, tmp_path: Path) -> None:
    root = golden("basic").copy(tmp_path)
    (root / "consumequeue").rename(tmp_path / "disk")
    (root / "consumequeue").symlink_to(tmp_path / "disk")
    done = copy_whole(str(root), str(tmp_path / "into"))
    assert done.left_out == [] and verify(tmp_path / "into").defects == []
    assert not (tmp_path / "into" / "consumequeue").is_symlink()
    with pytest.raises(UsageError, match="is inside the store"):
        copy_whole(str(root), str(tmp_path / "disk" / "copy"))


def test_progress_is_told_within_a_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file has 1 GiB: a bar that jumps from file to file stands still for long."""
    monkeypatch.setattr(copy, "CHUNK", 16384)
    with flintmq.MessageStore(tmp_path / "store", config={"mappedFileSizeCommitLog": 1 << 20}) as store:
        while store.put(Message("T", bytes(1 << 12))).physical_offset < 1 << 19:
            pass
    told: list[tuple[int, int]] = []
    copied = copy_whole(str(tmp_path / "store"), str(tmp_path / "into"), progress=lambda *at: told.append(at))
    done, totals = zip(*told, strict=True)
    assert set(totals) == {copied.end} and copied.end > 1 << 19
    assert list(done) == sorted(done) and done[-1] == copied.end
    assert max(after - before for before, after in itertools.pairwise(done)) <= 16384 + 4096
