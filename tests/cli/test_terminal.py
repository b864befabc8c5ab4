"""Colours, tables and the bar: what a terminal gets, and what a pipe gets instead."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest

from flintmq.cli import terminal
from flintmq.cli.terminal import RED, Bar, TextTable, paint, width_of
from tests.compat.stores import Golden
from tests.support.own_time import own_time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert paint(RED, "defect") == "defect"
    monkeypatch.setattr("sys.stdout", Terminal())
    assert paint(RED, "defect") == "\x1b[1;31mdefect\x1b[0m" and paint(RED, "") == ""
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert paint(RED, "defect") == "defect"


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 1), ("库存", 4), ("a库", 3), ("\x1b[1;31mred\x1b[0m", 3), ("🎉", 2)],
)  # fmt: skip
def test_the_columns_that_a_text_takes(text: str, width: int) -> None:
    assert width_of(text) == width


def test_a_table_has_no_lines_and_numbers_at_the_right() -> None:
    table = TextTable("topic", "messages>", "why")
    table.add_row("库存", "7", "")
    table.add_row("Orders", "1234567890", "two\nlines")
    assert list(table.lines()) == [
        "topic     messages  why",
        "库存             7",
        "Orders  1234567890  two",
        "                    lines",
    ]


def test_a_table_without_a_head() -> None:
    table = TextTable()
    table.add_row("log", "2 files")
    assert list(table.lines()) == ["log  2 files"] and list(TextTable("a", "b>").lines()) == ["a  b"]
    assert list(TextTable().lines()) == []


def test_a_table_fits_the_terminal() -> None:
    table = TextTable("name", "what", "count>")
    table.add_row("one", "many words that say what it is, more than fit", "7")
    table.add_row("two", "w" * 30, "8")
    assert list(table.lines(40)) == [
        "name  what                         count",
        "one   many words that say what it      7",
        "      is, more than fit",
        "two   wwwwwwwwwwwwwwwwwwwwwwwwwww      8",
        "      www",
    ]
    assert max(map(width_of, table.lines(10))) == 4 + 2 + terminal.NARROWEST + 2 + 5
    assert list(table.lines(200)) == list(table.lines())


def test_the_bar_shows_how_far_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    own_time(monkeypatch, terminal, monotonic=lambda: now[0])
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((60, 24)))
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    bar = Bar("verifying")
    bar.update(1, 100)
    assert stream.getvalue() == ""  # nobody waits for so short a time
    now[0] += 10
    bar.update(25, 100)
    bar.update(26, 100)  # too soon to draw again
    assert stream.getvalue() == f"\r\x1b[2Kverifying {'#' * 9}{'.' * 27}  25% 0:00:30"
    assert len(stream.getvalue().removeprefix("\r\x1b[2K")) < 60
    bar.hide()
    assert stream.getvalue().endswith("\r\x1b[2K")
    now[0] += 1
    bar.update(0, 0)
    assert stream.getvalue().endswith("\r\x1b[2Kverifying ...")


@pytest.mark.parametrize("words", ["verify STORE", "doctor", "inspect STORE", "explain STORE/checkpoint"])
def test_on_a_terminal_the_same_is_said_in_colour(words: str, basic: Golden):
    line = [sys.executable, "-m", "flintmq", *words.replace("STORE", str(basic.path)).split()]
    plain = subprocess.run(line, capture_output=True, text=True).stdout
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {
        "TERM": "xterm",
        "COLUMNS": "1000",
    }
    with subprocess.Popen(line, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        process.wait(60)
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[" in text and re.sub(r"\x1b\[[0-9;]*m", "", text) == plain
