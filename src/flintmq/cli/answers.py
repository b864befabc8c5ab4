"""Prints answers about single messages: rows as JSON or for people, then what they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from flintmq.cli.output import dumps, output, report_damage
from flintmq.cli.terminal import TextTable
from flintmq.cli.text import iso, printable, shorten_text

if TYPE_CHECKING:
    from flintmq.forensics.answers.answer import Answer

Row = TypeVar("Row")
CHARS = 60
SHOWN = 100
"""Rows where nobody says a limit."""


def print_answer(
    answer: Answer[Row],
    as_json: bool,
    render: Callable[[list[Row]], Iterable[str | TextTable]],
    nothing: str,
    *,
    any_ends: bool = True,
) -> int:
    """Print rows and notes; return the exit code: 1 if damage may hide rows.

    `nothing`: the note if there are no rows. `any_ends`: rows say what waits, or how it ended.
    """
    out = output(as_json)
    if as_json:
        out.lines(map(dumps, answer.rows))
    elif answer.rows:
        out.result(answer.rows, render)
    for text in answer.notes:
        out.note(text)
    if answer.counts:
        out.note(", ".join(f"{name}: {number}" for name, number in answer.counts.items()))
    if answer.is_cut:
        out.note(f"there are more; only {len(answer.rows)} shown: --limit N shows more")
    code = report_damage(out, answer.report)
    if code and any_ends:
        out.note("what seems to wait, to hang, or rolled back may have ended in what cannot be read; `flintmq verify`")
    if not answer.rows and not answer.is_cut:
        out.note(f"{nothing}{', as far as the log can be read' if code else ''}")
    return code


def table_of(columns: dict[str, Callable[[Any], object]]) -> Callable[[list[Any]], Iterable[TextTable]]:
    """Return a function that makes a table of rows, of the columns that say anything."""

    def render(rows: list[Any]) -> Iterable[TextTable]:
        cells = {name: [cell(of(row)) for row in rows] for name, of in columns.items()}
        used = {name: column for name, column in cells.items() if any(text != "-" for text in column)}
        found = TextTable(*used)
        for row in zip(*used.values(), strict=True):
            found.add_row(*row)
        yield found

    return render


def cell(value: object) -> str:
    return "-" if value in (None, "", -1) else shorten_text(printable(str(value)), CHARS)


def when(ms: int | None) -> str:
    return "-" if ms is None else iso(ms)


def place(topic: str, queue_id: int | None, offset: int | None) -> str:
    return "/".join(cell(part) for part in (topic, queue_id, offset))
