"""Generates the tables in docs/internals/format from the declarations.

Run `python -m tools.docs.format --check` or `--write`. A page marks the place of a table with `<!-- layout: NAME -->`
and `<!-- end -->`; `<!-- bits: LAYOUT FIELD -->` marks the meanings of a field's bits, `<!-- names: WHAT -->` a table
of names. Everything between the marks is generated, the rest is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from flintmq.format import (
    batch_queue,
    checkpoint,
    config_names,
    consume_queue,
    consume_queue_ext,
    flintmq_mark,
    index,
    inner_batch,
    message_id,
    properties,
    record,
    timer,
    zone_map,
)
from flintmq.format.layout import WIDTHS, Int, Layout, Part, Sized, Total

LAYOUTS: Final[tuple[Layout[Any], ...]] = (
    record.RECORD,
    record.BLANK,
    inner_batch.ENTRY,
    message_id.HOST,
    message_id.OFFSET_ID,
    message_id.CLIENT_ID,
    consume_queue.UNIT,
    consume_queue_ext.EXT_UNIT,
    batch_queue.BATCH_UNIT,
    index.HEADER,
    index.SLOT,
    index.ITEM,
    checkpoint.CHECKPOINT,
    timer.WHEEL_SLOT,
    timer.LOG_UNIT,
    timer.LOG_END,
    timer.TIMER_CHECK,
    flintmq_mark.MARK,
    zone_map.HEADER,
    zone_map.ZONE,
)
_BY_NAME: Final = {layout.name: layout for layout in LAYOUTS}
_NAMES: Final = {
    "properties": properties.MEANINGS,
    "config files": config_names.FILES,
    "config keys": config_names.KEYS,
}
_MARKED: Final = re.compile(r"<!-- (?P<what>layout|bits|names): (?P<name>[^>]+?) -->\n.*?<!-- end -->", re.DOTALL)


class LayoutRow(NamedTuple):
    """One line of a layout's table. Offset and size are text because of symbols such as `48+B`."""

    offset: str
    size: str
    type: str
    field: str
    meaning: str


def rows(layout: Layout[Any]) -> list[LayoutRow]:
    """Return the table of a layout, one row for each field on disk."""
    found: list[LayoutRow] = []
    fixed, symbols = 0, list[str]()
    for field, type_, widths, symbol, meaning in _pieces(layout.parts):
        offset = "+".join(([str(fixed)] if fixed or not symbols else []) + symbols)
        size = " or ".join(map(str, widths)) if widths else ""
        found.append(
            LayoutRow(offset, f"{symbol} = {size}" if symbol and size else symbol or size, type_, field, meaning)
        )
        if symbol:
            symbols.append(symbol)
        else:
            fixed += widths[0]
    return found


def _pieces(parts: Iterable[tuple[str, Part]]) -> Iterator[tuple[str, str, tuple[int, ...], str, str]]:
    """Yield (field, type, widths, symbol of a variable width, meaning) of fields and lengths."""
    for name, part in parts:
        if isinstance(part, (Int, Total)):
            yield name, part.type, (WIDTHS[part.type],), "", part.meaning
        elif isinstance(part, Sized):
            yield name, "bytes", part.widths, part.symbol, part.meaning
        else:
            widths = tuple(WIDTHS[type_] for type_ in part.types)
            yield part.name, " or ".join(part.types), widths, "v" if len(widths) > 1 else "", part.length_meaning(name)
            yield name, "bytes", (), part.symbol, part.meaning


def table(layout: Layout[Any]) -> str:
    """Format the table of a layout in Markdown, with a line on its size."""
    size = f"{layout.min_size} bytes" if layout.fixed else f"At least {layout.min_size} bytes"
    lines = ["| Offset | Bytes | Type | Field | Meaning |", "|---|---|---|---|---|"]
    lines += [f"| {row.offset} | {row.size} | {row.type} | {row.field} | {row.meaning} |" for row in rows(layout)]
    return f"{size}.\n\n" + "\n".join(lines)


def bits_table(name: str) -> str:
    """Format the table of the bits of one field.

    `name` is the name of the layout and of the field, with a space between.
    """
    layout, _, field = name.rpartition(" ")
    part = dict(_BY_NAME[layout].parts)[field]
    assert isinstance(part, Int) and part.bits, name
    lines = ["| Bits | Mask | Meaning |", "|---|---|---|"]
    for group in part.bits:
        low, high = (group.mask & -group.mask).bit_length() - 1, group.mask.bit_length() - 1
        lines.append(f"| {low}{f'-{high}' if high > low else ''} | 0x{group.mask:X} | {group.meaning} |")
    return "\n".join(lines)


def names_table(name: str) -> str:
    """Format the table of one kind of names."""
    lines = ["| Name | Meaning |", "|---|---|"]
    return "\n".join(lines + [f"| `{known}` | {meaning} |" for known, meaning in _NAMES[name].items()])


def filled(text: str) -> str:
    """Return a page with its tables generated again.

    Raises:
        KeyError: the page names a layout, field or kind of names that does not exist.
    """

    def replace(match: re.Match[str]) -> str:
        what, name = match["what"], match["name"]
        made = {"layout": lambda: table(_BY_NAME[name]), "bits": lambda: bits_table(name)}
        text = made.get(what, lambda: names_table(name))()
        return f"<!-- {what}: {name} -->\n{text}\n<!-- end -->"

    return _MARKED.sub(replace, text)


def layouts_in(text: str) -> list[str]:
    """Return the names of the layouts whose tables a page holds."""
    return [match["name"] for match in _MARKED.finditer(text) if match["what"] == "layout"]


def main(arguments: list[str] | None = None) -> int:
    """Check or write the pages; return 1 if a page is old under --check or a layout has none."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs.format", description="Byte tables of docs/internals/format."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="say which pages are old; change nothing")
    what.add_argument("--write", action="store_true", help="write the tables of all pages")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/internals/format"))
    options = parser.parse_args(arguments)
    missing = set(_BY_NAME)
    old = []
    for page in sorted(options.folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        missing -= set(layouts_in(text))
        if filled(text) != text:
            old.append(page)
            if options.write:
                page.write_text(filled(text), encoding="utf-8")
    for page in old:
        print(f"{page}: {'written' if options.write else 'old; run with --write'}")
    for name in sorted(missing):
        print(f"{options.folder}: no page holds the table of {name}; add its markers to one")
    return 1 if missing or (old and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())
