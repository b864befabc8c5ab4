import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import flintmq
from flintmq.cli.commands import put
from flintmq.storage.files.lock import StoreLock
from tests.cli.conftest import Run


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_message_is_stored_and_scanned(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    result = run("put", store, "Orders", "hello", "--tag", "paid", "--key", "order-1", "--queue", 3)
    assert (result.code, result.err) == (0, f"flintmq: made a new store in {store}\n")
    assert run("put", store, "Other", "hello").err == ""  # it is there now
    said, msg_id = result.out.removesuffix("\n").rsplit(" ", 1)
    assert said == "PUT_OK  Orders/3/0  @0  167 B  7F00000100002A9F0000000000000000  msg_id" and len(msg_id) == 32
    assert run("query", store, "Orders", msg_id).out.count("Orders/3/0") == 1
    row = json.loads(run("scan", store, "--topic", "Orders", "--json").out)
    assert (row["topic"], row["queue_id"], row["tags"], row["keys"], row["body"]) == (
        "Orders",
        3,
        "paid",
        "order-1",
        "aGVsbG8=",
    )
    assert run("verify", store).code == 0 and run("query", store, "Orders", "order-1").out.endswith("hello\n")


def test_each_line_is_a_message(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\ntwo\r\n\nfour")
    result = run("put", tmp_path / "store", "T", "--lines", "--json", "--set", "flushDiskType=SYNC_FLUSH")
    assert [row["queue_offset"] for row in result.rows] == [0, 1, 2, 3]
    told = [row["msg_id"] for row in result.rows]
    assert [row["msg_id"] for row in run("scan", tmp_path / "store", "--json").rows] == told and len(set(told)) == 4
    assert {row["outcome"] for row in result.rows} == {"ok"} and result.code == 0
    bodies = [json.loads(line)["body"] for line in run("scan", tmp_path / "store", "--json").out.splitlines()]
    assert bodies == ["b25l", "dHdv", "", "Zm91cg=="]


def test_no_unique_key_where_none_is_wanted(run: Run, tmp_path: Path) -> None:
    said = run("put", tmp_path / "store", "T", "x", "--no-unique-key").out
    assert said == "PUT_OK  T/0/0  @0  93 B  7F00000100002A9F0000000000000000\n"
    assert run("put", tmp_path / "store", "T", "x", "--no-unique-key", "--json").rows[0]["msg_id"] is None


def test_standard_input_is_the_body(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"\x00\xff\n")
    assert run("put", tmp_path / "store", "T").code == 0
    assert json.loads(run("scan", tmp_path / "store", "--json").out)["body"] == "AP8K"


def test_an_empty_standard_input_is_no_body(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"")  # as a cron job's is
    result = run("put", tmp_path / "store", "T")
    assert result.code == 2 and "standard input is empty; give BODY ('' for an empty one)" in result.err
    assert not (tmp_path / "store").exists()
    assert run("put", tmp_path / "store", "T", "").code == 0


@pytest.mark.parametrize("name", ["notes.txt", ".bashrc", "src/"])
def test_no_store_is_made_among_other_things(run: Run, tmp_path: Path, name: str) -> None:
    place = tmp_path / "home"
    place.mkdir()
    (place / name).mkdir() if name.endswith("/") else (place / name).write_text("mine")
    result = run("put", place, "T", "x")
    assert result.code == 2 and f"no store, and holds other things ('{name.strip('/')}')" in result.err
    assert [one.name for one in place.iterdir()] == [name.strip("/")]


@pytest.mark.parametrize("name", ["config", "lost+found"])
def test_a_store_is_made_where_only_its_own_things_are(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "store" / name).mkdir(parents=True)
    assert run("put", tmp_path / "store", "T", "x").code == 0


def test_a_refused_message_ends_with_its_status(run: Run, tmp_path: Path) -> None:
    result = run("put", tmp_path / "store", "T", "x" * 70_000, "--set", "mappedFileSizeCommitLog=65536")
    assert result.code == 3 and result.out == "MESSAGE_ILLEGAL  not stored\n"
    assert "MESSAGE_ILLEGAL: record-size: " in result.err and result.err.endswith("; nothing is stored\n")


def test_a_topic_that_cannot_be_makes_no_store(run: Run, tmp_path: Path) -> None:
    result = run("put", tmp_path / "store", "a/b", "x")
    assert result.code == 3 and "MESSAGE_ILLEGAL: topic: " in result.err and not (tmp_path / "store").exists()


def test_no_line_behind_a_refused_one_is_stored(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\n" + b"x" * 70_000 + b"\nthree\n")
    result = run("put", tmp_path / "store", "T", "--lines", "--set", "mappedFileSizeCommitLog=65536")
    assert result.code == 3 and [line.split()[0] for line in result.out.splitlines()] == ["PUT_OK", "MESSAGE_ILLEGAL"]
    assert [row["body"] for row in run("scan", tmp_path / "store", "--json").rows] == ["b25l"]


def test_wrong_use(run: Run, tmp_path: Path) -> None:
    assert run("put", tmp_path / "store", "T", "x", "--lines").code == 2
    assert run("put", tmp_path / "store", "T", "x", "--set", "noSuchKey=1").code == 2
    assert not (tmp_path / "store").exists()


def test_a_store_that_somebody_has_open_is_left_alone(run: Run, tmp_path: Path) -> None:
    run("put", tmp_path / "store", "T", "x")
    lock = StoreLock(str(tmp_path / "store"))
    try:
        assert run("put", tmp_path / "store", "T", "y").code == 6
    finally:
        lock.release()
    assert len(run("scan", tmp_path / "store").out.splitlines()) == 1


class Slow(io.BytesIO):
    """A pipe into which somebody writes a piece now and then, and that a signal ends."""

    def __init__(self, store: Path, pieces: list[bytes]) -> None:
        super().__init__()
        self.store, self.pieces = store, pieces
        self.stored: list[int] = []

    def read1(self, most: int | None = -1, /) -> bytes:
        if self.store.exists():
            self.stored.append(sum(1 for _ in flintmq.open_store(self.store).messages()))
        if not self.pieces:
            raise KeyboardInterrupt
        return self.pieces.pop(0)

    def read(self, most: int | None = -1, /) -> bytes:
        return self.read1(most)


def test_lines_are_stored_as_they_come_and_counted_at_a_signal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("put", tmp_path / "store", "Other", "first")
    pipe = Slow(tmp_path / "store", [b"one\ntwo\nth", b"re", b"e\n", b"four\r\nbegun"])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=pipe))
    result = run("put", tmp_path / "store", "T", "--lines", "--set", "flushDiskType=SYNC_FLUSH")
    assert pipe.stored == [1, 3, 3, 4, 5]  # at each look for more
    assert result.code == 130 and result.err == "flintmq: stopped: 4 messages stored; later input was not\n"
    bodies = [row["body"] for row in run("scan", tmp_path / "store", "--topic", "T", "--json").rows]
    assert bodies == ["b25l", "dHdv", "dGhyZWU=", "Zm91cg=="]


@pytest.mark.parametrize("there", [False, True])
def test_no_line_is_no_silent_success(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    if there:
        run("put", tmp_path / "store", "T", "first")
    feed(monkeypatch, b"")
    result = run("put", tmp_path / "store", "T", "--lines")
    assert (result.code, result.out) == (
        0,
        "",
    ) and result.err == "flintmq: standard input is empty: 0 messages stored\n"
    assert (tmp_path / "store").exists() == there, "no store is made for nothing"


def test_a_signal_at_the_one_body_says_that_nothing_is_stored(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Slow(tmp_path / "store", [])))
    result = run("put", tmp_path / "store", "T")
    assert (result.code, result.err) == (130, "flintmq: stopped: no message stored\n")
    assert not (tmp_path / "store").exists()


def test_lines_of_any_cut_are_the_same(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a\n\nbc\r\n" + b"x" * 3000 + b"\n" + b"\n".join(b"%d" % n for n in range(2500))
    for size in (1, 7, 1024, 1 << 20):
        monkeypatch.setattr("flintmq.cli.commands.put.BLOCK", size)
        feed(monkeypatch, data)
        groups = list(put._line_groups())
        assert [line for group in groups for line in group] == [line.rstrip(b"\r") for line in data.split(b"\n")]
        assert max(map(len, groups)) <= put.LINES_AT_ONCE
    assert len(groups) == 4  # of a file: 1000, 1000, 503 lines with an end, and the last one
