"""A target store, its ledger, or a query's checkpoint that was put back, replaced or copied: named, or right rows."""

import json
import shutil
from pathlib import Path

import pytest

from flintmq import Message, MessageStore, open_store
from flintmq.errors import StoreError, UnsupportedFormatError
from flintmq.spark.jobs.replay.job import replay
from flintmq.spark.sink.commit import commit
from tests.spark.sink.test_commit import CONFIG, bodies, options, staged
from tests.support.engine import put_messages

LEDGER = "flintmq.puts"


def sunk(root: Path) -> None:
    """Two batches of a query, with a copy of the log as it was between them."""
    commit(options(root), 0, staged(root, [b"1", b"2"]))
    shutil.copytree(root, root.parent / "earlier")
    commit(options(root), 1, staged(root, [b"3"]))


def put_back_the_log(root: Path, of: Path) -> None:
    """Everything but the ledger is that of another copy."""
    ledger = (root / LEDGER).read_bytes()
    shutil.rmtree(root)
    shutil.copytree(of, root)
    (root / LEDGER).write_bytes(ledger)


@pytest.mark.parametrize("more", [0, 1, 9])
@pytest.mark.parametrize("kept", [True, False])
def test_a_log_that_was_put_back_without_the_ledger(tmp_path: Path, more: int, kept: bool) -> None:
    """Also with a ledger of FlintMQ 0.1, which names no record, while the log is shorter."""
    root = tmp_path / "store"
    sunk(root)
    put_back_the_log(root, tmp_path / "earlier")
    if not kept:
        value = json.loads((root / LEDGER).read_text())
        for giver in value["givers"].values():
            del giver["anchor"]
        (root / LEDGER).write_text(json.dumps({**value, "format": 1}))
    put_messages(root, (Message("Other", b"x" * number) for number in range(more)), CONFIG)
    files = staged(root, [b"4"])
    if more and not kept:
        return  # nothing that 0.1 noted shows it
    with pytest.raises(
        StoreError, match="sink q put messages that the log has no more: .*; bring that log back"
    ) as caught:
        commit(options(root), 2, files)
    assert "\n" not in str(caught.value) and bodies(root)[:2] == [b"1", b"2"]


def test_a_store_that_was_put_back_or_copied_with_its_ledger(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sunk(root)
    commit(options(tmp_path / "earlier"), 1, staged(tmp_path / "earlier", [b"3"]))
    assert bodies(tmp_path / "earlier") == [b"1", b"2", b"3"]
    shutil.copytree(root, tmp_path / "copy")
    for place in (root, tmp_path / "copy"):
        commit(options(place), 2, staged(place, [b"4"]))
        assert bodies(place) == [b"1", b"2", b"3", b"4"]


def test_a_checkpoint_that_was_removed_or_put_back(tmp_path: Path) -> None:
    """Spark repeats the last batch only. Rows of an earlier number are others, and were dropped without a word."""
    root = tmp_path / "store"
    sunk(root)
    commit(options(root), 1, staged(root, [b"3"]))
    assert bodies(root) == [b"1", b"2", b"3"]
    with pytest.raises(StoreError, match="batch 0 of q comes after batch 1: its checkpoint was removed, or put back"):
        commit(options(root), 0, staged(root, [b"new"]))
    assert bodies(root) == [b"1", b"2", b"3"]
    commit(options(root), 2, staged(root, [b"4"]))
    assert bodies(root) == [b"1", b"2", b"3", b"4"]


def test_a_ledger_of_a_newer_version(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sunk(root)
    value = json.loads((root / LEDGER).read_text())
    assert (value["format"], value["flintmq"]) == (2, "0.2.0")
    for change, why in (({"format": 3}, "format 3"), ({"more": 1}, "key 'more'")):
        (root / LEDGER).write_text(json.dumps({**value, "flintmq": "0.3.0", **change}))
        with pytest.raises(UnsupportedFormatError, match=f"{why} is not known here: made by FlintMQ 0.3.0, newer than"):
            commit(options(root), 2, [])
    deep = {name: {**giver, "more": 1} for name, giver in value["givers"].items()}
    (root / LEDGER).write_text(json.dumps({**value, "givers": deep}))
    with pytest.raises(UnsupportedFormatError, match="key 'more' is not known here"):
        commit(options(root), 2, [])


@pytest.mark.parametrize("what", ["target", "source", "source written again"])
def test_a_replay_whose_target_or_source_was_put_back(tmp_path: Path, what: str) -> None:
    source, into = tmp_path / "source", tmp_path / "into"

    def put(word: bytes, count: int) -> None:
        with MessageStore(source, dev=True) as store:
            store.put_many([Message("A", word + b"%d" % number) for number in range(count)])

    put(b"first", 5)
    replay(None, str(source), str(into), live=True)
    shutil.copytree(source, tmp_path / "earlier source")
    shutil.copytree(into, tmp_path / "earlier")
    put(b"second", 5)
    assert replay(None, str(source), str(into)).rows == 5
    if what == "target":
        put_back_the_log(into, tmp_path / "earlier")
    else:
        shutil.rmtree(source)
        (tmp_path / "earlier source").rename(source)
        if what == "source written again":
            put(b"another", 20)
    with open_store(into) as view:
        before = [message.body for message in view.messages()]
    with pytest.raises(
        (StoreError, ValueError), match="put messages that the log has no more|no longer has the message at log offset"
    ):
        replay(None, str(source), str(into))
    with open_store(into) as view:
        assert [message.body for message in view.messages()] == before
