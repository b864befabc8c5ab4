"""Symbolic links below a store that comes from strangers: what writes a store follows none of them, and says so."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.cli import app
from flintmq.errors import FlintError
from flintmq.message import Message
from flintmq.storage.files.filesystem import REAL
from flintmq.store.consumequeue.writer import OpenFiles
from flintmq.store.message_store import MessageStore
from tests.storage.files.test_guarded import snapshot
from tests.support.engine import KEYS, message, open_small
from tests.support.makers import patch

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
    with MessageStore(root, config=KEYS | BATCH, unique_keys=False) as store:
        for number in range(40):
            store.put(message(number, size=100))
        store.put_batch([Message("B", b"x")])
        if not store.wait_dispatched(30):
            raise store._parts.dispatch.stopped_at or AssertionError("dispatch waits for something")
        store.commit_offset("g", "T", 0, 9)
        store._parts.retention.files.flushed_where = store._parts.log.end
        for path in (p.path for p in store._parts.files.files[:-1]):
            if not os.path.islink(path):
                os.utime(path, (0, 0))
        store._parts.retention._delete("by this test")
        store._parts.retention.clean_once()


def linked(link: str, root: Path, victim: Path) -> None:
    """Put a link to `victim` in the place of what a store holds there, or would."""
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


def content(victim: Path) -> object:
    return snapshot(victim) if victim.is_dir() else (victim.lstat().st_mode, victim.read_bytes())


@pytest.mark.parametrize("link", LINKS)
def test_the_engine_follows_no_link_below_a_store(link: str, sound: Path, tmp_path: Path) -> None:
    root, victim = tmp_path / "store", tmp_path / "victim"
    shutil.copytree(sound, root)
    linked(link, root, victim)
    before = content(victim)
    told = ""
    try:
        engine(root)
    except (FlintError, OSError) as error:
        told = str(error)
    assert content(victim) == before, told
    if link.startswith(("consumequeue", "batchconsumequeue")):
        assert "symbolic link" in told and link.rsplit("/", 1)[0] in told and "\n" not in told


SETS = [word for key, value in (KEYS | BATCH).items() for word in ("--set", f"{key}={value}")]


def torn(root: Path) -> None:
    """Leave it as a crash would: a torn last record, the newest units and items not there."""
    (root / "abort").write_bytes(b"1")
    files = [file for file in sorted((root / "commitlog").iterdir()) if any(file.read_bytes())]  # no spare one
    data = files[-1].read_bytes()
    end = len(data.rstrip(b"\0"))
    files[-1].write_bytes(data[: end - 20] + bytes(len(data) - end + 20))
    (root / "flintmq.mark").unlink()
    (root / "flintmq.queues").unlink()


def damaged(root: Path) -> None:
    """A body, a queue file, the index and the topics say something else; a file of each is not there."""
    for name, at in ((f"commitlog/{0:020d}", 150), (f"consumequeue/T/0/{0:020d}", 3)):
        patch(root / name, at, b"\xff\xff")
    for name in os.listdir(root / "index"):
        patch(root / "index" / name, 45, b"\xff\xff")
    (root / "batchconsumequeue" / "B" / "0" / f"{0:020d}").unlink()
    (root / "config" / "topics.json").write_text("{")


COMMANDS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "put": (lambda root: None, ["put", "STORE", "T", "body", "--queue", "0", "--key", "k"]),
    "recover": (torn, ["recover", "STORE"]),
    "salvage in place": (damaged, ["salvage", "STORE", "--in-place", "--yes"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_follows_a_link_below_a_store(
    command: str, sound: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each link of the table; without one the command does its work, with one it does so or ends with a line."""
    prepare, words = COMMANDS[command]
    wrong, codes = {}, {}
    # The first two are the engine, whose test has all.
    for number, link in enumerate(["", *(LINKS if "salvage" in command else LINKS[::2])]):
        root, victim = tmp_path / str(number) / "store", tmp_path / str(number) / "victim"
        shutil.copytree(sound, root)
        prepare(root)
        before_all = snapshot(root)
        if link:
            linked(link, root, victim)
        before = content(victim) if link else None
        codes[link] = app.run([str(root) if word == "STORE" else word for word in (*words, *SETS)])
        said = capsysbinary.readouterr()
        assert b"Traceback" not in said.out + said.err and b"internal error" not in said.err, (link, said)
        if link and content(victim) != before:
            wrong[link] = said
        if codes[link] not in (0, 1) and not said.err.strip():
            wrong[link] = "not a word"
        if any(b'"state": "apply"' in journal.read_bytes() for journal in root.glob("quarantine/*/journal.json")):
            wrong[link] = "half done"
        if not link:
            assert snapshot(root) != before_all and codes[link] in (0, 1), said
    assert wrong == {}
    assert set(codes.values()) > {codes[""]}, "some link is refused"


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
    with MessageStore(root, config=KEYS | BATCH, unique_keys=False) as store:
        assert store.get("T", 0, store.get("T", 0, 0).max_offset - 1).messages
