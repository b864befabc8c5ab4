"""Symbolic links below a store that comes from strangers: what writes a store follows none of them, and says so."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from flintmq.errors import FlintError
from flintmq.message import Message
from flintmq.storage.effects import REAL
from flintmq.store.message_store import MessageStore
from flintmq.store.queue_writer import OpenFiles
from tests.store.engine import KEYS, message, open_small

BATCH = {"enableConsumeQueueExt": "true"}
LINKS = [  # a link in the place of each, at each level, of each kind of what a store holds
    "consumequeue/T",
    "consumequeue/T/0",
    "consumequeue/T/0/00000000000000000000",
    "consumequeue_ext/T",
    "consumequeue_ext/T/0",
    "consumequeue_ext/T/0/00000000000000000000",
    "batchconsumequeue/B",
    "batchconsumequeue/B/0",
    "batchconsumequeue/B/0/00000000000000000000",
    "commitlog/00000000000000000000",
    "commitlog/00000000000000004096",
    "index/FILE",
    "config/topics.json",
    "config/consumerOffset.json",
    "quarantine/salvage-0001",
    "timerlog/00000000000000000000",
    "checkpoint",
    "abort",
    "flintmq.mark",
    "flintmq.queues",
    "lock",
]


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below a directory, with its kind and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path.relative_to(root))] = mode, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "store"
    with open_small(root, **BATCH) as store:
        store.create_topic("B", 1, "BatchCQ")
        for number in range(60):
            store.put(message(number, size=100))
        store.put_batch([Message("B", b"x"), Message("B", b"y")])
        store.commit_offset("g", "T", 0, 3)
        assert store.wait_dispatched(30)
    return root


def engine(root: Path) -> None:
    with MessageStore(root, config=KEYS | BATCH) as store:
        for number in range(40):
            store.put(message(number, size=100))
        store.put_batch([Message("B", b"x")])
        if not store.wait_dispatched(30):
            raise store._dispatch.stopped_at or AssertionError("dispatch waits for something")
        store.commit_offset("g", "T", 0, 9)
        store._retention.files.flushed_where = store._log.end
        for path in (p.path for p in store._files.files[:-1]):
            if not os.path.islink(path):
                os.utime(path, (0, 0))
        store._retention._delete("by this test")
        store._retention.clean_once()


@pytest.mark.parametrize("link", LINKS)
def test_the_engine_follows_no_link_below_a_store(link: str, sound: Path, tmp_path: Path) -> None:
    root, victim = tmp_path / "store", tmp_path / "victim"
    shutil.copytree(sound, root)
    if link == "index/FILE":
        link = "index/" + sorted(os.listdir(root / "index"))[0]
    place = root / link
    # What the link names has what the store would have there, and a file besides, so that all names are met.
    if place.is_dir():
        shutil.copytree(place, victim)
        shutil.rmtree(place)
    elif place.exists():
        shutil.copy(place, victim)
        place.unlink()
    elif "." in place.name or place.name in ("abort", "lock") or (place.name.isdigit() and place.parent.name != "B"):
        victim.write_bytes(b"precious" * 512)
    else:
        victim.mkdir()
        (victim / f"{0:020d}").write_bytes(b"precious")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(victim)
    before = snapshot(victim) if victim.is_dir() else victim.read_bytes()
    told = ""
    try:
        engine(root)
    except (FlintError, OSError) as error:
        told = str(error)
    after = snapshot(victim) if victim.is_dir() else victim.read_bytes()
    assert after == before, told
    if link.startswith(("consumequeue", "batchconsumequeue")):
        assert "symbolic link" in told and link.rsplit("/", 1)[0] in told and "\n" not in told


@pytest.mark.parametrize("link", ["consumequeue/T", "consumequeue/T/0", "consumequeue/T/0/00000000000000000000"])
def test_who_writes_queues_without_the_engine_follows_none_either(link: str, tmp_path: Path) -> None:
    """`flintmq spark dispatch` writes by these, below a directory that it guards."""
    root, victim = tmp_path / "store", tmp_path / "victim"
    place = root / link
    place.parent.mkdir(parents=True)
    if place.name.isdigit() and len(place.name) == 20:
        victim.write_bytes(bytes(200))
    else:
        (victim / "0").mkdir(parents=True)
        (victim / f"{0:020d}").write_bytes(bytes(200))
        (victim / "0" / f"{0:020d}").write_bytes(bytes(200))
    place.symlink_to(victim)
    before = snapshot(tmp_path)
    REAL.guard(str(root))
    files = OpenFiles()
    with pytest.raises(FlintError, match="symbolic link"):
        files.write(str(root / "consumequeue/T/0" / f"{0:020d}"), 200, b"x", 0)
    files.close()
    assert snapshot(tmp_path) == before


def test_the_root_and_its_direct_sub_directories_may_be_links(sound: Path, tmp_path: Path) -> None:
    """Operators put them on disks of their own."""
    real, root = tmp_path / "real", tmp_path / "store"
    shutil.copytree(sound, real)
    for name in ("consumequeue", "index", "commitlog", "config"):
        (real / name).rename(tmp_path / name)
        (real / name).symlink_to(tmp_path / name)
    root.symlink_to(real)
    engine(root)
    with MessageStore(root, config=KEYS | BATCH) as store:
        assert store.get("T", 0, store.get("T", 0, 0).max_offset - 1).messages
