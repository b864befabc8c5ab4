"""Names the command that shows what a figure counted, as a line for a shell.

Names come from messages: a line never holds a character that cannot be seen, and each word is quoted.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flintmq.format.text import iso, utc

LINE_CHARS = 2000


@dataclass(frozen=True)
class Commands:
    """Commands over some stores.

    `topics`, `since`, `until`: what was asked for, which each command repeats.
    """

    stores: Sequence[str]
    topics: Sequence[str] = ()
    since: int | None = None
    until: int | None = None

    def scan(self, topic: str | None = None, **options: Any) -> str:
        """Return a scan with options; "" if the line would be too long.

        `options`: `since` and `until` (ms), `queue`, `key`.
        """
        words = ["scan", *self.stores]
        for name in self.topics if topic is None else [topic]:
            words += ["--topic", name]
        for option, value in {"since": self.since, "until": self.until, **options}.items():
            if value is not None:
                words += [f"--{option}", _time(value) if option in ("since", "until") else str(value)]
        return _line(words)

    def inspect(self) -> str:
        return _line(["inspect", *self.stores])


def _time(ms: int) -> str:
    return str(ms) if utc(ms) is None else iso(ms)


def _line(words: Sequence[str]) -> str:
    line = " ".join(map(quoted, ["flintmq", *words]))
    return line if len(line) <= LINE_CHARS else ""


def quoted(word: str) -> str:
    """Quote a word for a shell.

    One with invisible characters is quoted as bash, zsh and ksh read it: $'\\x1b'.
    """
    if word.isprintable():
        return shlex.quote(word)
    data = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in data) + "'"
