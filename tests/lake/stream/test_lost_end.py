"""Streams of a store whose log lost its end: they stop, as a read of the whole log does, or say what they leave out."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from flintmq import Message, MessageStore
from flintmq.cli import app
from flintmq.errors import CorruptStoreError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.stream.options import StreamOptions
from flintmq.lake.stream.reader import StoreStream
from tests.support.engine import put_messages

COUNT = 500
FILES = {"mappedFileSizeCommitLog": 16384}


def last_file(log: Path) -> Path:
    return max(log.iterdir())


def removed(log: Path) -> None:
    last_file(log).unlink()


def cut(log: Path) -> None:
    """Keep the last file's first record."""
    path = last_file(log)
    os.truncate(path, int.from_bytes(path.read_bytes()[:4], "big"))


def zeroed(log: Path) -> None:
    """Leave it as a sparse copy does whose last blocks did not come."""
    path = last_file(log)
    size = path.stat().st_size
    cut(log)
    os.truncate(path, size)


DAMAGES = pytest.mark.parametrize("damage", [removed, cut, zeroed])


def put(root: Path, count: int = COUNT) -> None:
    put_messages(root, (Message("T", b"%d" % number, queue_id=number % 2) for number in range(count)), FILES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that stopped cleanly."""
    put(tmp_path / "store")
    return tmp_path / "store"


def end_of(stream: StoreStream, start: Mapping[str, Any]) -> Mapping[str, Any]:
    return stream.end_after(stream.available(start))


@DAMAGES
def test_a_stream_stops_or_says_so_once(store: Path, damage: Callable[[Path], None]) -> None:
    whole = StoreStream(StreamOptions(ReadOptions(str(store))))
    assert whole.available(whole.initial()).messages == COUNT
    damage(store / "commitlog")
    strict = StoreStream(StreamOptions(ReadOptions(str(store))))
    for _ in range(2):
        with pytest.raises(CorruptStoreError, match=f"{store}/commitlog"):
            end_of(strict, strict.initial())
    said = list[str]()
    lenient = StoreStream(StreamOptions(ReadOptions(str(store), fail_on_data_loss=False)), lose=said.append)
    begin = lenient.initial()
    there = lenient.available(begin)
    assert end_of(lenient, begin) and 0 < there.messages < COUNT
    assert len(said) == 1 and str(store / "commitlog") in said[0] and said[0].endswith("(now going on)")


@DAMAGES
def test_an_export_that_follows(
    store: Path, damage: Callable[[Path], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved = (name := last_file(store / "commitlog")).read_bytes()
    damage(store / "commitlog")
    table = str(tmp_path / "table")
    words = ["export", str(store), "--out", table, "--follow", "--once"]
    assert app.run(words) == 1
    error = capfd.readouterr().err
    assert str(store / "commitlog") in error and "--skip-damage" in error
    assert app.run([*words, "--skip-damage"]) == 1
    out = capfd.readouterr().out
    assert "exported" in out and "lost" in out
    name.write_bytes(saved)  # the true bytes came back: what was left out follows
    assert app.run(words) == 0
    assert app.run(["diff", str(store), table]) == 0


@DAMAGES
def test_a_stream_that_goes_on(store: Path, damage: Callable[[Path], None]) -> None:
    """The damage comes between two micro-batches."""
    stream = StoreStream(StreamOptions(ReadOptions(str(store))))
    begin = stream.initial()
    end = end_of(stream, begin)
    put(store, 200)
    damage(store / "commitlog")
    with pytest.raises(CorruptStoreError):
        end_of(stream, end)


@DAMAGES
def test_a_copy_of_a_store_that_is_written_elsewhere(store: Path, damage: Callable[[Path], None]) -> None:
    """Its mark may be younger than its log, as files were copied in any order: the next copying brings the rest."""
    saved = (name := last_file(store / "commitlog")).read_bytes()
    damage(store / "commitlog")
    (store / "abort").touch()
    said = list[str]()
    stream = StoreStream(StreamOptions(ReadOptions(str(store))), lose=said.append)
    begin = stream.initial()
    end = end_of(stream, begin)
    assert 0 < stream.available(begin).messages < COUNT
    assert end_of(stream, end) == end
    assert len(said) == 1 and f"{store}/commitlog" in said[0] and said[0].endswith("may still grow)")
    name.write_bytes(saved)
    assert stream.available(begin).messages == COUNT


def test_an_export_of_such_a_copy_says_what_it_lacks(
    store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All of its log is missing, which is no store without messages."""
    saved = {path: path.read_bytes() for path in (store / "commitlog").iterdir()}
    for path in saved:
        path.unlink()
    (store / "abort").touch()
    words = ["export", str(store), "--out", str(tmp_path / "table"), "--follow", "--once"]
    assert app.run(words) == 1
    assert "lost" in capfd.readouterr().out
    for path, content in saved.items():
        path.write_bytes(content)
    assert app.run(words) == 0
    assert app.run(["diff", str(store), str(tmp_path / "table")]) == 0


def test_a_store_that_is_open_is_read_as_it_is(store: Path) -> None:
    """Its writer checked the end when it opened it, and goes on from there."""
    with MessageStore(store, FILES) as opened:
        assert opened.put(Message("T", b"more", queue_id=0)).status.name == "PUT_OK"
        assert opened.wait_dispatched(20)
        stream = StoreStream(StreamOptions(ReadOptions(str(store))))
        assert stream.available(stream.initial()).messages == COUNT + 1
