"""Runs the command line in this process and says everything that was wrong with how it behaved."""

import io
import json
import os
import signal
import stat
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from flintmq.cli import app
from flintmq.cli.help_topics import EXIT_INTERNAL
from flintmq.errors import FlintError

SECONDS_MAX = 60
ERROR_LINES_MAX = 25
ERROR_CHARS_MAX = 2000  # of a line: paths of 255 bytes, each escaped, and what is said about them


def exit_codes() -> set[int]:
    """Those of the documented table that bytes of a store can lead to: not a bug's, not Ctrl-C's."""

    def tree(error: type[FlintError]) -> Iterator[int]:
        yield error.exit_code
        for child in error.__subclasses__():
            yield from tree(child)

    return {0, *tree(FlintError)} - {EXIT_INTERNAL}


class Outcome(NamedTuple):
    """What one run of a command gave."""

    words: list[str]
    status: int
    out: bytes
    err: str
    seconds: float

    @property
    def rows(self) -> int:
        return self.out.count(b"\n")


class TooSlow(BaseException):
    """The time is over. No Exception, so that no command takes it for one of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends what runs in the block by TooSlow when the time is over (main thread only; kernels end first)."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(*words: str | os.PathLike[str]) -> Outcome:
    """Run one command as its script would, within SECONDS_MAX."""
    argv = [os.fspath(word) for word in words]
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    began = time.monotonic()
    try:
        with time_limit(SECONDS_MAX):
            status = app.run(argv)
    finally:
        sys.stdout, sys.stderr = before
    assert isinstance(out.buffer, io.BytesIO)
    return Outcome(argv, status, out.buffer.getvalue(), err.getvalue(), time.monotonic() - began)


def complaints(done: Outcome, allowed: set[int]) -> list[str]:
    """Everything about an outcome that must not be, in words."""
    found = []
    if done.status not in allowed:
        found.append(f"exit code {done.status}")
    if "Traceback" in done.err or b"Traceback" in done.out:
        found.append("a traceback")
    if done.status not in (0, 1) and not done.err:
        found.append("an error without a word")
    lines = done.err.splitlines()
    if len(lines) > ERROR_LINES_MAX or any(len(line) > ERROR_CHARS_MAX for line in lines):
        found.append(f"{len(lines)} lines on stderr, the longest of {max(map(len, lines))} characters")
    try:
        text = done.out.decode("utf-8")
    except UnicodeDecodeError as error:
        found.append(f"output is not UTF-8 ({error})")
        text = ""
    for name, shown in (("stdout", text), ("stderr", done.err)):
        raw = {char for char in set(shown) if char not in "\n\t" and not is_harmless(char)}
        if raw:
            found.append(f"raw {sorted(map(ascii, raw))[:5]} on {name}")
    if "--json" in done.words:
        found += not_json(text, "stdout") + not_json(done.err, "stderr")
    return [f"flintmq {' '.join(map(ascii, done.words))}: {what}; {done.err[-300:]!r}" for what in found]


def is_harmless(char: str) -> bool:
    """Whether a terminal shows it and does nothing else: no control, no bidi mark, no surrogate."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def not_json(text: str, name: str) -> list[str]:
    """What is wrong with lines that have to be JSON in ASCII."""
    if not text.isascii():
        return [f"--json gave more than ASCII on {name}"]
    for line in text.splitlines():
        try:
            json.loads(line)
        except ValueError:
            return [f"--json gave {line[:80]!r} on {name}"]
    return []


def stamps(root: Path) -> dict[str, tuple[int, ...]]:
    """Everything below root with kind, size, time of change and inode: equal as long as nobody wrote to it."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            size = 0 if stat.S_ISDIR(info.st_mode) else info.st_size
            found[ascii(path)] = (info.st_mode, size, info.st_mtime_ns, info.st_ino)
    return found
