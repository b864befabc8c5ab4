"""Makes tables for people; nothing here writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def plain_table(*columns: str, header: bool = True) -> Table:
    """Return a table without lines; a name that ends with > marks a column of numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=header, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name.rstrip(">"), justify="right" if name.endswith(">") else "left")
    return table


def plain_text(value: str) -> Text:
    """Return text that rich prints unchanged, without parsing markup."""
    from rich.text import Text

    return Text(value)
