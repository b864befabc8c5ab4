"""Writes the tables of docs/operations/verify.md from the codes.

`python -m tools.docs.verify --write` writes them; `--check` and a test say whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from flintmq.forensics.verify.codes import DEFECTS, NOTES
from tools.docs import tables as in_page

PAGE = Path("docs/operations/verify.md")


def tables() -> Iterator[str]:
    """Yield the tables of the page: defects and notes."""
    rows = (f"| `{name}` | {code.meaning} | {code.advice} |" for name, code in DEFECTS.items())
    yield _table("| defect | meaning | what to do |", "|---|---|---|", *rows)
    yield _table("| note | meaning |", "|---|---|", *(f"| `{name}` | {meaning} |" for name, meaning in NOTES.items()))


def _table(*lines: str) -> str:
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return the page's text with the current tables."""
    return in_page.filled(PAGE, text, tables())


def main(words: list[str]) -> int:
    """Write or check the page below the current directory; return the exit code."""
    return in_page.main(words, "verify", PAGE, tables())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
