"""Printing: blocks, notes, JSON forms, and readers that go away."""

import enum
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flintmq.cli import output
from flintmq.cli.terminal import Bar, TextTable
from flintmq.errors import CorruptStoreError, NotAStoreError


class Pipe(io.RawIOBase):
    """A stdout whose reader goes away after some writes."""

    def __init__(self, writes: int) -> None:
        self.writes, self.blocks = writes, []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:  # type: ignore[no-untyped-def]
        if self.writes == 0:
            raise BrokenPipeError(32, "Broken pipe")
        self.writes -= 1
        self.blocks.append(bytes(data))
        return len(data)


def stdout(monkeypatch: pytest.MonkeyPatch, writes: int = 1000) -> Pipe:
    pipe = Pipe(writes)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pipe, write_through=True))  # type: ignore[arg-type]
    return pipe


def test_lines_are_written_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stdout(monkeypatch)
    output.Console().lines("x" * 99 for _ in range(10_000))
    assert b"".join(pipe.blocks) == (b"x" * 99 + b"\n") * 10_000
    assert 10 <= len(pipe.blocks) <= 16


def test_what_came_before_an_error_is_written_before_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stdout(monkeypatch)

    def rows() -> Iterator[str]:
        yield "first"
        raise CorruptStoreError("f", 1, "damaged")

    with pytest.raises(CorruptStoreError):
        output.Console().lines(rows())
    assert pipe.blocks == [b"first\n"]


def test_a_reader_that_goes_away_stops_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout(monkeypatch, writes=1)
    taken = 0

    def rows() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "x" * 1000

    with pytest.raises(output.PipeClosed):
        output.Console().lines(rows())
    assert taken < 400


def test_no_text_can_fail_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stdout(monkeypatch)
    output.Console().lines(["lone \ud800 surrogate"])
    assert pipe.blocks == [b"lone \\ud800 surrogate\n"]


def test_json_never_holds_a_raw_delete_character(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stdout(monkeypatch)
    output.Json().lines([output.dumps({"a": "\x7f\x9b\u202e"})])
    assert pipe.blocks == [b'{"a":"\\u007f\\u009b\\u202e"}\n']
    assert json.loads(pipe.blocks[0]) == {"a": "\x7f\x9b\u202e"}


class Colour(enum.Enum):
    DEEP_RED = 1


@dataclass
class Value:
    path: Path
    data: bytes
    colour: Colour
    names: frozenset[str]
    _secret: int = 0


def test_json_forms_of_values() -> None:
    value = Value(Path("a/b"), b"\x00\xff", Colour.DEEP_RED, frozenset({"z", "y"}))
    assert output.dumps([value]) == '[{"path":"a/b","data":"00ff","colour":"deep_red","names":["y","z"]}]'
    with pytest.raises(TypeError, match="a object has no JSON form"):
        output.dumps(object())


def test_a_result_is_one_object_or_what_its_renderer_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    def render(value: dict[str, int]) -> Iterator[str | TextTable]:
        table = TextTable("name", "count>")
        for name, count in value.items():
            table.add_row(name, str(count))
        yield table
        yield "x" * 500

    pipe = stdout(monkeypatch)
    output.output(True).result({"a": 1}, render)  # type: ignore[arg-type]
    assert pipe.blocks == [b'{"a":1}\n']
    pipe.blocks.clear()
    output.output(False).result({"a": 1, "long": 22}, render)  # type: ignore[arg-type]
    assert b"".join(pipe.blocks) == b"name  count\na         1\nlong     22\n" + b"x" * 500 + b"\n"


def test_notes_and_errors_are_one_escaped_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.Console().note("odd \x1b[31m\nname")
    output.Json().note("odd \x1b")
    output.report_error(NotAStoreError("x"), "x\x1b: no store", 2, as_json=False)
    output.report_error(NotAStoreError("x"), "x: no store", 2, as_json=True)
    error = CorruptStoreError("commitlog/0", 94, "body CRC is wrong", "see verify")
    output.report_error(error, str(error), 1, as_json=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "flintmq: odd \\x1b[31m\\nname"
    assert lines[1] == '{"note": "odd \\u001b"}'
    assert lines[2] == "flintmq: x\\x1b: no store"
    assert json.loads(lines[3]) == {"error": "NotAStoreError", "exit_code": 2, "message": "x: no store"}
    assert json.loads(lines[4]) == {
        "error": "CorruptStoreError",
        "exit_code": 1,
        "message": "commitlog/0, position 94: body CRC is wrong; see verify",
        "file": "commitlog/0",
        "position": 94,
        "reason": "body CRC is wrong",
    }


def test_a_closed_stderr_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    output.Console().note("nobody reads this")  # raises nothing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bar, "WAIT_S", 0.0)
    monkeypatch.setattr(Bar, "REDRAW_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    shown = {}
    for name, stream, out, quiet in (
        ("piped", io.StringIO(), output.Console(), False),
        ("terminal", Terminal(), output.Console(), False),
        ("quiet", Terminal(), output.Console(), True),
        ("json", Terminal(), output.Json(), False),
    ):
        monkeypatch.setattr("sys.stderr", stream)
        with output.be_quiet(quiet), out.progress("verifying") as tell:
            tell(1, 2)
            tell(2, 2)
        shown[name] = stream.getvalue()
    assert "verifying" in shown.pop("terminal") and set(shown.values()) == {""}


def test_what_is_printed_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch, capsysbinary) -> None:
    """The bar goes before a row or a note is written, and comes back with later work."""
    monkeypatch.setattr(Bar, "WAIT_S", 0.0)
    monkeypatch.setattr(Bar, "REDRAW_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Terminal())
    out = output.Console()
    with out.progress("reading") as tell:
        bar = out._bar
        assert bar is not None
        for write in (lambda: out.lines(["a row"]), lambda: out.note("a note")):
            tell(1, 2)
            assert bar._shown
            write()
            assert not bar._shown
        tell(2, 2)
        assert bar._shown
    assert not bar._shown and out._bar is None
    assert capsysbinary.readouterr().out == b"a row\n"


def test_warnings_of_the_library_are_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """They name files, and file names may hold escape sequences."""
    log = logging.getLogger("flintmq.test")
    for as_json in (False, True):
        with output.warnings_as_notes(as_json):
            log.warning("%s is not used", "a\x1b[2J\u202eb")
            log.info("not shown")
    text, line = capsys.readouterr().err.splitlines()
    assert text == "flintmq: a\\x1b[2J\\u202eb is not used"
    assert json.loads(line) == {"note": "a\x1b[2J\u202eb is not used"} and line.isascii()
    assert not logging.getLogger("flintmq").handlers
