"""Prints for commands: a console for people, or JSON for programs.

Commands compute; an Output prints. Both outputs write to stdout in blocks of bytes and never through a text layer that
could fail on an odd locale. Progress and messages go to stderr. A reader that went away (`flintmq scan ... | head -1`)
is no error: it raises PipeClosed, which `main` turns into exit code 0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from flintmq.cli import signals
from flintmq.cli.terminal import Bar, TextTable
from flintmq.cli.text import printable
from flintmq.errors import CorruptStoreError, FlintError

if TYPE_CHECKING:
    from flintmq.store.commitlog.report import Report

BLOCK_BYTES = 1 << 16
"""Rows are collected into blocks of about this many bytes before they are written."""

DAMAGES_SHOWN = 20
"""Damaged places reported one by one; further ones are only counted."""

Progress = Callable[[int, int], None]
"""Called with (done, total) in any unit; the total may be 0 while it is not known."""


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""


quiet = False
"""Whether the user wants no progress bars (-q); `be_quiet` sets it for a command."""


def parts_of(progress: Progress, count: int) -> list[Progress]:
    """Divide progress among several pieces of work of the same length, done in turn."""

    def part(number: int) -> Progress:
        return lambda done, total: progress(number * total + done, count * total)

    return [part(number) for number in range(count)]


@contextlib.contextmanager
def be_quiet(wanted: bool) -> Iterator[None]:
    global quiet
    before, quiet = quiet, quiet or wanted
    try:
        yield
    finally:
        quiet = before


class PipeClosed(Exception):
    """The reader of our output has gone; the command ends without an error."""


class Output:
    """Base of both outputs: raw writing, messages and progress."""

    json = False
    _bar: Bar | None = None

    def write(self, data: bytes) -> None:
        """Write bytes to stdout at once."""
        if self._bar is not None:
            self._bar.hide()
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise PipeClosed from None

    def lines(self, rows: Iterable[str]) -> None:
        """Write one line a row, in blocks; to a terminal each row at once.

        If making a row fails, the rows before it are written first.

        Raises KeyboardInterrupt: a signal arrived before the next row, and a library dropped its exception.
        """
        block: list[str] = []
        length = 0
        most = 0 if sys.stdout.isatty() else BLOCK_BYTES
        try:
            for row in rows:
                signals.check()
                block.append(row)
                length += len(row)
                if length >= most:
                    self._flush(block)
                    length = 0
        finally:
            self._flush(block)

    def _flush(self, block: list[str]) -> None:
        if block:
            data = "\n".join(block).encode("utf-8", "backslashreplace") + b"\n"
            block.clear()
            # Only a string can hold DEL, and JSON allows the escape there; a terminal should not receive the raw byte.
            self.write(data.replace(b"\x7f", b"\\u007f") if self.json else data)

    def result(self, value: Any, render: Callable[[Any], Iterable[str | TextTable]]) -> None:
        """Print a command's value: as one JSON object, or as rendered by `render`."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Print one line for people on stderr, such as what was skipped; in JSON mode as an object."""
        if self._bar is not None:
            self._bar.hide()
        stderr(json.dumps({"note": text}) if self.json else f"flintmq: {printable(text)}")

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[Progress]:
        """Show a progress bar on stderr within the block; yield the function that takes progress.

        There is no bar if stderr is no terminal or with -q or --json. Printing hides the bar for a moment.
        """
        if quiet or self.json or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield no_progress
            return
        self._bar = bar = Bar(title)
        try:
            yield bar.update
        finally:
            self._bar = None
            bar.hide()


class Console(Output):
    """Text for people: tables that fit the terminal, whole lines when piped."""

    def result(self, value: Any, render: Callable[[Any], Iterable[str | TextTable]]) -> None:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for part in render(value):
            self.lines(part.split("\n") if isinstance(part, str) else part.lines(columns))


class Json(Output):
    """One JSON object a line, in ASCII, which cannot control a terminal or forge log lines."""

    json = True

    def result(self, value: Any, render: Callable[[Any], Iterable[str | TextTable]]) -> None:
        self.lines([dumps(value)])


def output(as_json: bool) -> Output:
    return Json() if as_json else Console()


def report_damage(out: Output, report: Report) -> int:
    for damage in report.damages[:DAMAGES_SHOWN]:
        out.note(f"skipped {damage.lost} bytes at {damage.file}, position {damage.position}: {damage.reason}")
    if report.damage_count > DAMAGES_SHOWN:
        out.note(f"skipped {report.damage_count} places in all, {report.lost_bytes} bytes")
    return 1 if report.damage_count else 0


def dumps(value: Any) -> str:
    """Return a value as compact ASCII JSON: bytes in hex, paths and enums as text."""
    return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if not f.name.startswith("_")}
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def error_line(error: Exception, message: str, exit_code: int, as_json: bool) -> str:
    if not as_json:
        return f"flintmq: {printable(message)}"
    kinds = type(error).__mro__
    name = next((kind.__name__ for kind in kinds if kind.__module__ == FlintError.__module__), kinds[0].__name__)
    fields: dict[str, object] = {"error": name, "exit_code": exit_code, "message": message}
    if isinstance(error, CorruptStoreError):
        fields |= {"file": error.file, "position": error.position, "reason": error.reason}
    return dumps(fields)


def report_error(error: FlintError | Exception, message: str, exit_code: int, as_json: bool) -> None:
    stderr(error_line(error, message, exit_code, as_json))


def stderr(line: str) -> None:
    # A closed stderr must not hide the exit code that follows.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()


class _Warnings(logging.Handler):
    """Prints the library's warnings as notes, one escaped line each, for they quote file names."""

    def __init__(self, as_json: bool) -> None:
        super().__init__(logging.WARNING)
        self.output = output(as_json)

    def emit(self, record: logging.LogRecord) -> None:
        self.output.note(record.getMessage())


@contextlib.contextmanager
def warnings_as_notes(as_json: bool) -> Iterator[None]:
    """Print warnings of flintmq's loggers as notes on stderr, within the block.

    Without a handler Python would print them unescaped, and file names may contain escape sequences.
    """
    logger, handler = logging.getLogger("flintmq"), _Warnings(as_json)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
