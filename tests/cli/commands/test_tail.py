"""`flintmq tail`: what it prints, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from flintmq import open_store
from flintmq.cli.reader_gone import ReaderGone
from flintmq.errors import NotAStoreError
from flintmq.forensics.topic_tail import TopicTail
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.cli.conftest import Run, process
from tests.support.engine import put_messages, stored


def test_the_newest_as_scan_shows_them(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").path
    scanned = run("scan", path, "--topic", "Orders").out.splitlines()
    assert run("tail", path, "Orders").out.splitlines() == scanned[-10:]
    assert run("tail", path, "Orders", "--since", 0, "-n", 2).out.splitlines() == scanned[:2]
    assert run("tail", path, "Orders", "-n", 0).out == ""
    scanned = run("scan", path, "--topic", "库存", "--queue", 2, "--tag", "TagB", "--json").out.splitlines()
    words = ("tail", path, "库存", "--queue", 2, "--tag", "TagB", "--json")
    assert run(*words, "--since", 0).out.splitlines() == scanned
    assert run(*words, "-n", 4).out.splitlines() == scanned[-4:]
    scanned = run("scan", path, "--topic", "Orders", "--since", "2026-11-20T09:36:21Z").out
    assert run("tail", path, "Orders", "--since", "2026-11-20T09:36:21Z").out == scanned != ""
    assert run("tail", path, "Orders", "-n", 1, "--format", "{queue_id}/{queue_offset}").out == "0/184\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("Order",), 7, "topics are Orders, Payments"),
        (("Orders", "--queue", 7), 7, "its queues are 0, 1, 2, 3"),
        (("Orders", "--since", "noon"), 2, "--since: 'noon' is not a time"),
        (("Orders", "--format", "{nothing}"), 2, "nothing"),
        (("Orders", "--json", "--format", "{topic}"), 2, "exclude each other"),
        (("Orders", "--limit", "-1"), 2, "--limit"),
    ],
)
def test_wrong_use(run: Run, golden, words: tuple[str, ...], code: int, text: str) -> None:  # type: ignore[no-untyped-def]
    result = run("tail", golden("basic").path, *words)
    assert result.code == code and text in result.err and result.out == ""
    assert run("tail", golden("basic").path / "nothing", "Orders").code == 2


def test_what_a_store_holds_cannot_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    put_messages(tmp_path, [Message("T", b"\x1b[2J\xff", tags="\u202etag")], dev=True)
    result = run("tail", tmp_path, "T")
    assert "\\x1b[2J\\xff" in result.out and "\\u202etag" in result.out


def following(store: Path, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return process("tail", store, "T", "--follow", *words)


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


@pytest.mark.parametrize("gone", ["", "commitlog"])
def test_following_ends_with_the_store(tmp_path: Path, gone: str) -> None:
    """A disk that is not mounted any more gives no messages: nobody should wait for them."""
    root = tmp_path / "store"
    stored(root, 1)
    with open_store(root) as view:
        coming = TopicTail(view, "T").coming(ReaderGone(view.root))
        (root / gone).rename(tmp_path / "away")
        with pytest.raises(NotAStoreError, match=f"{root / gone}: it is not there any more; bring it back"):
            next(coming)


def test_following_a_live_store_until_ctrl_c(tmp_path: Path) -> None:
    with MessageStore(tmp_path, dev=True) as store:
        store.put(Message("T", b"before"))
        store.wait_dispatched(60)
        with following(tmp_path, "--format", "{body}") as child:
            assert line(child) == "before\n"
            for n in range(3):
                store.put(Message("U", b"other"))
                store.put(Message("T", b"%d" % n))
                assert line(child) == f"{n}\n", "each as it comes, though a program reads it"
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 130
            assert child.stderr is not None and child.stderr.read() == ""


def test_it_ends_when_its_reader_goes_also_while_nothing_comes(tmp_path: Path) -> None:
    with MessageStore(tmp_path, dev=True) as store:
        store.put(Message("T", b"x"))
        store.wait_dispatched(60)
        with following(tmp_path, "--since", "0", "--limit", "5") as child:
            assert line(child) != ""
            assert child.stdout is not None and child.stderr is not None
            child.stdout.close()
            began = time.monotonic()
            assert child.wait(20) == 0 and time.monotonic() - began < 15
            assert child.stderr.read() == ""


def test_a_topic_that_is_still_to_come_and_a_limit(tmp_path: Path) -> None:
    with MessageStore(tmp_path, dev=True) as store:
        store.put(Message("U", b"x"))
        with following(tmp_path, "--since", "0", "--limit", "2", "--queue", "1", "--format", "{body}") as child:
            assert child.stderr is not None
            assert "no messages here yet" in child.stderr.readline()
            for n in range(6):
                store.put(Message("T", b"%d" % n, queue_id=n % 2))
            assert [line(child), line(child)] == ["1\n", "3\n"]
            assert child.wait(20) == 0


def test_output_to_a_file(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").path
    words = [sys.executable, "-m", "flintmq", "tail", str(path), "Orders", "-f", "--since", "0", "-n", "3"]
    with (tmp_path / "out").open("wb") as out:
        assert subprocess.run(words, stdout=out, timeout=60, env=os.environ).returncode == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 3


def test_nothing_is_said(run: Run, golden) -> None:  # type: ignore[no-untyped-def]
    path = golden("basic").path
    for words in (("--tag", "zzz"), ("--since", "2030-01-01"), ("--tag", "zzz", "--json")):
        said = run("tail", path, "Orders", *words)
        assert (said.code, said.out) == (0, "") and "no such message of topic Orders is there" in said.err
    assert "no such message" not in run("tail", path, "Orders", "-n", 0).err
