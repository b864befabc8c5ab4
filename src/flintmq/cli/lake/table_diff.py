"""Compares a store with the table of its exports, for `flintmq diff`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flintmq.cli.commands.diff import Way, counted, json_lines, runs_and_notes
from flintmq.cli.parser import need
from flintmq.cli.terminal import verdict
from flintmq.cli.text import printable
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.cli.output import Output
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.history.diff_table import TableComparison


def diff_with_a_table(out: Output, a: str, b: str, catalog: str | None, by: Way, config: StoreConfig) -> int | None:
    """Compare A with B if B is a table; return the exit code, or None if B is a store."""
    if not is_table(a, b, catalog, by, config):
        return None
    need("pyarrow", "arrow")
    from flintmq.lake.history.diff_table import compare_table

    with out.progress("comparing") as progress:
        rows = compare_table(a, b, config, catalog=catalog, progress=progress)
    print_table(out, rows)
    return rows.exit_code


def is_table(a: str, b: str, catalog: str | None, by: Way, config: StoreConfig) -> bool:
    if holds_table(a, config):
        raise UsageError(f"{a} is a table of exports; give its store first, and a table second")
    if catalog is None and not holds_table(b, config):
        return False
    if by != "auto":
        raise UsageError("--by is for two stores; the rows of a table name their messages")
    return True


def holds_table(path: str, config: StoreConfig) -> bool:
    """Return whether a directory, or what is below a URL, looks like a table of exports."""
    from flintmq.lake.files.table_folder import folder_at
    from flintmq.lake.files.table_format import format_in
    from flintmq.storage.files.store_url import absolute

    return format_in(folder_at(absolute(path), config.s3).names()) is not None


def print_table(out: Output, found: TableComparison) -> None:
    out.lines(json_lines(found) if out.json else _table_text(found))


def _table_text(found: TableComparison) -> Iterator[str]:
    yield f"table    {printable(found.table)}: {found.format}, export {found.number}"
    yield f"compared {found.messages} messages of the log with {found.rows} rows"
    if found.waiting:
        yield f"waiting  {found.waiting} messages are not exported yet"
    if found.expired:
        yield f"expired  {found.expired} rows are of messages that are no longer in the log"
    if found.unfilled:
        yield f"unfilled {found.unfilled} rows were exported before a column was added, and have none in it"
    if found.unqueued:
        yield (
            f"unqueued {found.unqueued} records of the log are in no queue (prepared, rolled back, or of a deleted "
            "topic): an export with --follow leaves them out"
        )
    yield from runs_and_notes(found)
    parts = [
        counted(found.differences),
        f"{found.strangers} rows that name no message" if found.strangers else "",
        f"{found.lost_files} missing files of the table" if found.lost_files else "",
        f"{found.stray_files} files that no export made" if found.stray_files else "",
    ]
    result = "; ".join(filter(None, parts)) or "equal"
    alone = f", but for {found.left_alone} rows that were not compared" if found.left_alone else ""
    yield f"{verdict('result', found.equal)}   {result}{alone}"
