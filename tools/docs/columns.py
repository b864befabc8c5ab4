"""Writes the table of the schema's columns in docs/operations/json.md.

Types come from the schema, meanings from the docstrings of StoredMessage. `python -m tools.docs.columns --write` writes
the table; `--check` and a test say whether it is current.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pyarrow as pa

from flintmq.arrow.schema import SCHEMA, VIEW_SCHEMA
from flintmq.message import StoredMessage
from tools.docs import tables as in_page

PAGE = Path("docs/operations/json.md")
OF_KERNEL = {"body": "As stored, maybe compressed; `decompress` gives the producer's.", "size": "Bytes of the record."}


def table() -> str:
    """Return the table: a row for each column of the schema."""
    rows = ["| column | JSON | Arrow | as views | meaning |", "|---|---|---|---|---|"]
    for field, view in zip(SCHEMA, VIEW_SCHEMA, strict=True):
        meaning = OF_KERNEL.get(field.name) or (inspect.getdoc(getattr(StoredMessage, field.name)) or "").split("\n")[0]
        as_view = "" if view.type == field.type else _arrow(view.type)
        json = _json(field.type) + (" or null" if meaning.endswith("or None.") else "")
        meaning = re.sub(r"docs/(internals/\S+/([\w-]+)\.md)", r"[\2](../\1)", meaning.replace(", or None.", "."))
        rows.append(f"| `{field.name}` | {json} | {_arrow(field.type)} | {as_view} | {meaning.removesuffix('.')} |")
    return "\n".join(rows)


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"dictionary<{kind.index_type}, {kind.value_type}>"
    return re.sub(r" \(.*?\)|, ordered=\w+|tz=", "", str(kind))


def _json(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "number: ms"
    if pa.types.is_integer(kind):
        return "number"
    return {"binary": "base64", "string": "text"}.get(str(kind), "object of texts")


def filled(text: str) -> str:
    """Return the page's text with the current table."""
    return in_page.filled(PAGE, text, [table()])


def main(words: list[str]) -> int:
    """Write or check the page below the current directory; return the exit code."""
    return in_page.main(words, "columns", PAGE, [table()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
