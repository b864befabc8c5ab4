"""Writes and checks the generated tables of a page whose rest is written by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def filled(page: Path, text: str, tables: Iterable[str]) -> str:
    """Replace each table of the page's text by the current one, which has the same first line.

    Raises:
        ValueError: the text lacks one.
    """
    for table in tables:
        head = table.partition("\n")[0]
        before, found, after = text.partition(head)
        if not found:
            raise ValueError(f"{page} has no table {head}")
        text = before + table + "\n\n" + after.partition("\n\n")[2]
    return text


def main(words: list[str], name: str, page: Path, tables: Iterable[str]) -> int:
    """Write or check the page below the current directory; return the exit code.

    Args:
        words: of the command line.
        name: of the generator, in `tools.docs`.
    """
    if words not in (["--write"], ["--check"]):
        sys.stderr.write(f"usage: python -m tools.docs.{name} --write | --check\n")
        return 2
    text = page.read_text(encoding="utf-8")
    current = filled(page, text, tables)
    if words == ["--write"]:
        page.write_text(current, encoding="utf-8")
    elif current != text:
        sys.stderr.write(f"{page} does not match the sources; run: python -m tools.docs.{name} --write\n")
        return 1
    return 0
