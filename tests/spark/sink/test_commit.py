"""Commits: each batch once, whatever dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

import flintmq
from flintmq.config import StoreConfig
from flintmq.errors import StoreLockedError
from flintmq.message import Message
from flintmq.spark.sink import commit as sink
from flintmq.spark.sink.commit import STAGED, commit, discard, stage
from flintmq.spark.sink.options import SinkOptions
from flintmq.spark.sink.rows import to_schema
from flintmq.store.message_store import MessageStore
from tests.spark.sink.test_rows import rows

CONFIG = StoreConfig.from_keys({"mappedFileSizeCommitLog": 1 << 16, "maxHashSlotNum": 100, "maxIndexNum": 400})


def staged(root: Path, *bodies: list[bytes]) -> list[str]:
    """Files of a batch, each of a task."""
    return [stage(str(root), iter([to_schema(rows(topic=["T"] * len(each), body=each), CONFIG)]))[0] for each in bodies]


def options(root: Path, query: str | None = "q") -> SinkOptions:
    return SinkOptions(str(root), query, None, CONFIG, "5.3.3")


def bodies(root: Path) -> list[bytes]:
    with flintmq.open_store(root, config=CONFIG) as store:
        return [message.body for message in store.messages()]


def left(root: Path) -> list[str]:
    return os.listdir(root / STAGED)


def test_a_batch_is_there_once_in_order(tmp_path: Path) -> None:
    commit(options(tmp_path), 0, staged(tmp_path, [b"1", b"2"], [b"3"]))
    commit(options(tmp_path), 0, staged(tmp_path, [b"3"], [b"1", b"2"]))
    commit(options(tmp_path, "other"), 0, staged(tmp_path, [b"4"]))
    commit(options(tmp_path), 1, [])
    commit(options(tmp_path), 1, staged(tmp_path, [b"never"]))
    assert bodies(tmp_path) == [b"1", b"2", b"3", b"4"] and left(tmp_path) == []
    for _ in range(2):
        commit(options(tmp_path, None), None, staged(tmp_path, [b"unnamed"]))
    assert bodies(tmp_path)[4:] == [b"unnamed"] * 2 and left(tmp_path) == []


@pytest.mark.parametrize("stop", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("query", ["q", None])
def test_a_commit_that_died_is_finished_from_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, query: str | None
) -> None:
    """Spark computes the batch again, here in another order: what is there counts, and is there once."""
    want = [b"%d" % number for number in range(9)]
    real = sink.put_all

    def dying(store: Any, messages: list[Message], what: Any) -> None:
        if stop:
            real(store, messages[:stop], what)
        raise KeyboardInterrupt

    monkeypatch.setattr(sink, "put_all", dying)
    first = staged(tmp_path, want)
    with pytest.raises(KeyboardInterrupt):
        commit(options(tmp_path, query), 3 if query else None, first)
    discard(str(tmp_path), first)  # Spark's abort
    assert left(tmp_path) == first
    monkeypatch.setattr(sink, "put_all", real)
    with MessageStore(tmp_path, CONFIG) as store:
        store.put(Message("Foreign", b"between"))
    if query:
        commit(options(tmp_path), 3, staged(tmp_path, want[::-1]))
    else:
        commit(options(tmp_path, "another"), 0, [])
    found = bodies(tmp_path)
    assert found.pop(stop) == b"between" and found == want and left(tmp_path) == []


def test_what_was_staged_in_vain_goes(tmp_path: Path) -> None:
    files = staged(tmp_path, [b"1"], [b"2"])
    discard(str(tmp_path), files[:1])
    assert left(tmp_path) == files[1:]
    assert stage(str(tmp_path), iter([])) == ("", 0)

    def failing() -> Any:
        yield to_schema(rows(topic=["T"], body=[b"x"]), CONFIG)
        raise ValueError

    with pytest.raises(ValueError):
        stage(str(tmp_path), failing())
    assert left(tmp_path) == files[1:]


def test_a_store_that_is_open_refuses(tmp_path: Path) -> None:
    with MessageStore(tmp_path, CONFIG), pytest.raises(StoreLockedError):
        commit(options(tmp_path), 0, [])
