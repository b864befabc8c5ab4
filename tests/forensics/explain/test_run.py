"""Every file of every golden store, and rubbish: each byte is told once, nothing is raised."""

import os
import random
from pathlib import Path

import pytest

from flintmq.config.keys import from_settings
from flintmq.errors import ConfigError, StoreAccessError, UsageError
from flintmq.forensics.explain import file_kinds
from flintmq.forensics.explain.run import UNITS_SHOWN, explain
from tests.compat.stores import Golden
from tests.support.looks import look
from tests.support.makers import config_of

DAMAGED = {"poison", "stale", "stale-aligned"}  # what Java left there is not as it must be
LOG = "00000000000000000000"


def test_every_byte_of_every_file_of_every_golden_store(golden_store: Golden) -> None:
    config, chance = config_of(golden_store), random.Random(golden_store.name)
    files = sorted(path for path in golden_store.path.rglob("*") if path.is_file())
    assert len(files) >= 7
    for path in files:
        seen = look(path, config=config)
        assert len(seen.lines) <= 4 * UNITS_SHOWN + 60 or seen.explained.place.kind in (
            file_kinds.JSON,
            file_kinds.TEXT,
        )
        assert not seen.problems or golden_store.name in DAMAGED, (path, seen.problems[0])
        size = seen.explained.size
        places = {0, size - 1, chance.randrange(max(size, 1))} if size < 1 << 20 else {chance.randrange(size)}
        for at in places:
            if 0 <= at < size:
                focus = look(path, at, config=config)
                assert not focus.problems or golden_store.name in DAMAGED, (path, at, focus.problems[0])


def test_each_kind_is_told_by_the_path(golden_store: Golden) -> None:
    """What the directories of RocketMQ hold; nothing is guessed from bytes here."""
    folders = {
        "commitlog": "commitlog", "consumequeue": "consumequeue", "consumequeue_ext": "consumequeue_ext",
        "batchconsumequeue": "batchconsumequeue", "index": "index", "timerlog": "timerlog", "rocksdbstore": "other",
        "compaction": "json", "checkpoint": "checkpoint", "timerwheel": "timerwheel", "abort": "text",
        "abort.bak": "text", "lock": "text",
    }  # fmt: skip
    for path in golden_store.path.rglob("*"):
        if path.is_file():
            inside = path.relative_to(golden_store.path).parts
            due = folders.get(inside[0]) or ("timercheck" if inside[1].startswith("timercheck") else "json")
            place = file_kinds.by_path(str(path))
            assert place is not None and (place.kind, place.root) == (due, str(golden_store.path)), path


@pytest.mark.parametrize("kind", file_kinds.KINDS)
def test_rubbish_of_every_kind(kind: str, golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    chance = random.Random(kind)
    store = golden("timer").path
    sources = [(store / "commitlog" / LOG).read_bytes()[:9000], (store / "timerlog" / LOG).read_bytes()]
    sources.append((store / "consumequeue" / "rmq_sys_wheel_timer" / "0" / LOG).read_bytes())
    sources.append((store / "config" / "topics.json").read_bytes())
    path = tmp_path / "file"
    for turn in range(24):
        data = bytearray(chance.choice([*sources, chance.randbytes(chance.choice([1, 7, 19, 45, 91, 500, 5000]))]))
        for _ in range(chance.choice([0, 1, 20])):
            data[chance.randrange(len(data))] = chance.choice([0, 127, 128, 255])
        path.write_bytes(data[: chance.randrange(len(data) + 1)] if turn % 3 else bytes(data))
        size = path.stat().st_size
        look(path, kind=kind, limit=chance.choice([None, 0, 3]))
        if size:
            look(path, chance.randrange(size), kind=kind)


def test_empty_files_of_a_known_kind_and_of_none(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for name in ("abort", f"commitlog/{LOG}", "checkpoint"):
        (tmp_path / name).touch()
        assert look(tmp_path / name).lines == [] or name == "checkpoint"
    (tmp_path / "what").touch()
    with pytest.raises(UsageError, match=r"what: is empty; say what it is with --as KIND \(commitlog, "):
        look(tmp_path / "what")


def test_a_checkpoint_that_was_emptied_is_told(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.touch()
    with explain(path) as explained:
        lines = list(explained.lines)
    assert sum(line.length for line in lines) == 0
    assert explained.first is not None and "needs 8 bytes, 0 are left" in explained.first[1]


def test_what_cannot_be_explained_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\x07neither this nor that")
    (tmp_path / "link").symlink_to(tmp_path / "bytes")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="has no known path or content; say what it is with --as KIND"):
        look(tmp_path / "bytes")
    with pytest.raises(UsageError, match="is a directory; name one file in it"):
        look(tmp_path)
    with pytest.raises(StoreAccessError, match="there is no such file"), explain(tmp_path / "nothing"):
        pass
    with pytest.raises(StoreAccessError, match="is a symbolic link"):
        look(tmp_path / "link", kind="text")
    with pytest.raises(StoreAccessError, match="not a regular file"):
        look(tmp_path / "pipe", kind="text")
    with pytest.raises(UsageError, match="'queue' is not a kind of file; there are commitlog, consumequeue, "):
        look(tmp_path / "bytes", kind="queue")
    with pytest.raises(ConfigError):
        look(tmp_path / "bytes", kind="text", config=from_settings(["noSuchKey=1"]))


def test_a_position_outside_the_file_says_where_it_would_be(golden) -> None:  # type: ignore[no-untyped-def]
    log = golden("basic").path / "commitlog"
    with pytest.raises(UsageError, match="--at 131072 is outside the file; its positions are 0 to 131071$"):
        look(log / LOG, 131072)
    with pytest.raises(UsageError, match="its positions are 0 to 131071; offset 140000 is position 8928$"):
        look(log / "00000000000000131072", 140000)


def test_a_limit_of_lines(golden) -> None:  # type: ignore[no-untyped-def]
    log = golden("basic").path / "commitlog" / LOG
    assert [len(look(log, limit=limit).named("record")) for limit in (0, 1, 7)] == [0, 1, 7]
    assert len(look(log).named("record")) == UNITS_SHOWN
    assert len({line.unit for line in look(log, 12345, limit=5).named("record")}) == 6  # one lies in front


def test_a_store_that_shrinks_is_no_error(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The size is the one of the opening; what went away reads as zeros."""
    copy = golden("basic").copy(tmp_path)
    path = copy / "consumequeue" / "Orders" / "0" / LOG
    with explain(path, limit=1000) as explained:
        os.truncate(path, 100)
        lines = list(explained.lines)
    assert sum(line.length for line in lines) == 2000
    assert [line.name for line in lines] == ["unit"] * 5 + ["zeros"]
