"""Shows what a read returned as a table: to a notebook, and to Arrow, pandas and Polars.

One class for all that people look at; by default its rows are messages. Packages are imported by name when they are
asked for, because a core without them has these results as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from flintmq.errors import MissingExtraError
from flintmq.format.text import brief

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from _typeshed import DataclassInstance

ROWS_SHOWN = 50
SHOWN = ("topic", "queue_id", "queue_offset", "stored", "tags", "keys", "body")
"""What a notebook shows of a message in a list."""


class Summary:
    """The result of an operation: a dataclass that is a dict for JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(cast("DataclassInstance", self))


class Tabular:
    """Something with rows and columns.

    Raises (every method): MissingExtraError if a package is not installed; what reading raises.
    """

    __slots__ = ()

    def to_arrow(self, columns: Sequence[str] | None = None, **options: Any) -> pyarrow.Table:
        """Return the rows as a pyarrow.Table, with the types of flintmq.scan_arrow. All of them are in memory.

        Args:
            columns: names of columns, in the order wanted; None for all.
            options: of a view those of flintmq.scan_arrow, of a dataset those of its `scanner`; of others none.

        Raises:
            UsageError: an unknown column.
        """
        return self._table(columns, **options)

    def to_pandas(self, columns: Sequence[str] | None = None, **options: Any) -> pandas.DataFrame:
        """Return the rows as a pandas.DataFrame; arguments are those of `to_arrow`. Properties are dicts."""
        _brought("pandas", "pandas")
        frame: pandas.DataFrame = self.to_arrow(columns, **options).to_pandas(maps_as_pydicts="lossy")
        return frame

    def to_polars(self, columns: Sequence[str] | None = None, **options: Any) -> polars.DataFrame:
        """Return the rows as a polars.DataFrame; arguments are those of `to_arrow`."""
        frame: polars.DataFrame = _brought("polars", "'flintmq[polars]'").from_arrow(self.to_arrow(columns, **options))
        return frame

    def _repr_html_(self) -> str:
        """Return the first rows as HTML, for a notebook."""
        return html(*self._shown())

    def _table(self, columns: Sequence[str] | None) -> pyarrow.Table:
        table: pyarrow.Table = import_module("flintmq.frames.messages").table(self._each_message(), columns)
        return table

    def _shown(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return SHOWN, ([getattr(message, name) for name in SHOWN] for message in self._each_message())

    def _each_message(self) -> Iterable[Any]:
        return self  # type: ignore[return-value]  # such a class is one


def html(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the first rows as a table; what a cell says is escaped, and cut if it is long."""
    shown = list(islice(rows, ROWS_SHOWN + 1))
    from html import escape

    lines = ["".join(f"<th>{escape(name)}</th>" for name in names)]
    lines += ["".join(f"<td>{_cell(value)}</td>" for value in row) for row in shown[:ROWS_SHOWN]]
    more = f"<p>The first {ROWS_SHOWN} rows.</p>" if len(shown) > ROWS_SHOWN else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value) if isinstance(value, (str, datetime)) else brief(value)
    from html import escape

    return escape(text if len(text) <= 160 else f"{text[:120]}...")


def _brought(package: str, install: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"to_{package} needs {package}: pip install {install}") from error
