"""`flintmq diff`: what differs between two stores, or a store and its table."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.declare import Argument, Option
from flintmq.cli.export_options import CatalogOption
from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.text import iso, printable, size
from flintmq.cli.values import store_config
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.forensics.diff.differences import Differences, Run
    from flintmq.forensics.diff.run import Comparison, DiffSide, OneSided
    from flintmq.lake.diff_table import TableComparison

EPILOG = examples(
    "flintmq diff /var/rocketmq/store /tmp/copied",
    "flintmq diff /var/rocketmq/store /tmp/copied --by message --json",
    "flintmq diff /var/rocketmq/store /tmp/lake",
)
RUNS_SHOWN = 40


class Way(enum.StrEnum):
    """The way of finding the counterpart of a record."""

    auto = "auto"
    offset = "offset"
    message = "message"


AArgument = Annotated[str, Argument(metavar="A", show_default=False, help="A store's directory, or its URL.")]
BArgument = Annotated[
    str, Argument(metavar="B", show_default=False, help="The other store, or the table of exports of A.")
]
ByOption = Annotated[
    Way, Option("--by", metavar="WAY", help="offset: a slave or a copy; message: a store that was moved; or auto.")
]


def command(
    a: AArgument,
    b: BArgument,
    by: ByOption = Way.auto,
    catalog: CatalogOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two stores, or a store and its table.

    The exit code is 1 if something differs. By offset the bytes are compared, and records only where these differ: for
    a master and its slave, or a store and its copy. By message (topic, queue and queue offset) for stores whose log
    offsets differ, as after a replay. If B is what `flintmq export` wrote, each message of A is compared with its row;
    A may then be several stores by a pattern. Queues and index follow from the log; `flintmq verify` checks them.
    """
    from flintmq.forensics.diff.run import compare

    out, config = output(as_json), store_config(settings)
    if is_table(a, b, catalog, by, config):
        from flintmq.cli.command import need

        need("pyarrow", "arrow")
        from flintmq.lake.diff_table import compare_table

        with out.progress("comparing") as progress:
            rows = compare_table(a, b, config, catalog=catalog, progress=progress)
        print_table(out, rows)
        return rows.exit_code
    with out.progress("comparing") as progress:
        found = compare(a, b, config, by.value, progress)
    print_stores(out, found)
    return found.exit_code


def is_table(a: str, b: str, catalog: str | None, by: Way, config: StoreConfig) -> bool:
    """Return whether B is a table of exports.

    Raises:
        UsageError: --by is given for a table, or A is one.
        StoreAccessError, MissingExtraError: A or B is a URL that cannot be read.
    """
    from flintmq.lake.table_folder import folder_at
    from flintmq.lake.table_format import format_in
    from flintmq.storage.store_url import absolute

    def is_one(path: str) -> bool:
        return format_in(folder_at(absolute(path), config.s3).names()) is not None

    if is_one(a):
        raise UsageError(f"{a} is a table of exports; give its store first, and a table second")
    if catalog is None and not is_one(b):
        return False
    if by is not Way.auto:
        raise UsageError("--by is for two stores; the rows of a table name their messages")
    return True


def print_stores(out: Output, found: Comparison) -> None:
    """Print the result of a comparison of two stores."""
    out.lines(_json(found) if out.json else _text(found))


def _json(found: Comparison | TableComparison) -> Iterator[str]:
    """Yield a line for each run of differences, then one with the counts."""
    for run in found.differences.runs:
        yield dumps({"kind": "difference", **run.as_dict()})
    yield dumps({"kind": "summary", **found.as_dict()})


def _text(found: Comparison) -> Iterator[str]:
    yield from (_side_line("a", found.a), _side_line("b", found.b))
    if found.messages is None:
        span = f"log offsets {found.begin} to {found.end}, {size(found.end - found.begin)}, by offset"
        yield f"compared {span}" if found.end > found.begin else "compared nothing: the logs have no offset in common"
    else:
        yield f"compared {found.messages[0]} messages of a and {found.messages[1]} of b, by topic, queue and offset"
    yield from _runs_and_notes(found)
    yield f"result   {_result(found)}"


def print_table(out: Output, found: TableComparison) -> None:
    """Print the result of a comparison with a table."""
    out.lines(_json(found) if out.json else _table_text(found))


def _table_text(found: TableComparison) -> Iterator[str]:
    """Yield the lines for people about a store and its table."""
    yield f"table    {printable(found.table)}: {found.format}, export {found.number}"
    yield f"compared {found.messages} messages of the log with {found.rows} rows"
    if found.waiting:
        yield f"waiting  {found.waiting} messages are not exported yet"
    if found.expired:
        yield f"expired  {found.expired} rows are of messages that are no longer in the log"
    if found.unfilled:
        yield f"unfilled {found.unfilled} rows were exported before a property column was added, and have none in it"
    if found.unqueued:
        yield (
            f"unqueued {found.unqueued} records of the log are in no queue (prepared, rolled back, or of a deleted "
            "topic): an export with --follow leaves them out"
        )
    yield from _runs_and_notes(found)
    parts = [
        _counted(found.differences),
        f"{found.strangers} rows that name no message" if found.strangers else "",
        f"{found.lost_files} missing files of the table" if found.lost_files else "",
        f"{found.stray_files} files that no export made" if found.stray_files else "",
    ]
    result = "; ".join(filter(None, parts)) or "equal"
    yield f"result   {result}{f', but for {found.left_alone} rows that were not compared' if found.left_alone else ''}"


def _runs_and_notes(found: Comparison | TableComparison) -> Iterator[str]:
    for run in found.differences.runs[:RUNS_SHOWN]:
        yield from _run_lines(run)
    if found.differences.run_count > RUNS_SHOWN:
        yield f"         and {found.differences.run_count - RUNS_SHOWN} more runs of differences"
    yield from map(_part_line, getattr(found, "one_sided", ()))
    for note in found.notes[:RUNS_SHOWN]:
        yield f"note     {printable(note)}"


def _side_line(name: str, side: DiffSide) -> str:
    state = ", in use" if side.live else ""
    damage = f", {side.damage} damaged places" if side.damage else ""
    return f"{name}        {printable(side.path)}: log offsets {side.log_begin} to {side.log_end}{state}{damage}"


def _run_lines(run: Run) -> Iterator[str]:
    first, last = run.first, run.last
    if first.topic is None:
        yield f"differs  {first.kind}: {first.bytes} bytes, {_places(run)}"
        return
    offsets = f"{first.queue_offset}" if run.count == 1 else f"{first.queue_offset} to {last.queue_offset}"
    what = f" ({', '.join(sorted(run.fields))})" if run.fields else ""
    yield f"differs  {first.kind}{what}: {printable(first.topic)}, queue {first.queue_id}, queue offset {offsets}"
    times = [iso(one.store_timestamp) for one in (first, last) if one.store_timestamp is not None]
    yield f"         {_places(run)}, stored {' to '.join(dict.fromkeys(times))}"


def _places(run: Run) -> str:
    """Return the log offsets of a run in both stores."""
    found = []
    for side, first, last in (
        ("a", run.first.a_offset, run.last.a_offset),
        ("b", run.first.b_offset, run.last.b_offset),
    ):
        if first is not None:
            found.append(f"{first} in {side}" if first == last else f"{first} to {last} in {side}")
    return f"log offset {' and '.join(found)}"


def _part_line(part: OneSided) -> str:
    other = "b" if part.side == "a" else "a"
    why = f"{other} begins later" if part.where == "begin" else f"{other} ends earlier"
    if part.growing:
        why += ", and is in use"
    span = "" if part.first_timestamp is None or part.last_timestamp is None else (
        f", stored {iso(part.first_timestamp)} to {iso(part.last_timestamp)}"
    )  # fmt: skip
    return f"only {part.side}   log offsets {part.begin} to {part.end}: {part.messages} messages{span} ({why})"


def _result(found: Comparison) -> str:
    if found.equal:
        return "equal, but for what a store in use may get yet" if found.one_sided else "equal"
    parts = list(filter(None, [_counted(found.differences)]))
    parts += [f"{part.messages} messages only in {part.side}" for part in found.one_sided if not part.growing]
    if damage := found.a.damage + found.b.damage:
        parts.append(f"damage at {damage} place{'s' * (damage > 1)}, where nothing was compared")
    return "; ".join(parts)


def _counted(found: Differences) -> str:
    """Return the number of differences of each kind; nothing without any."""
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(found.counts.items()))
    total = sum(found.counts.values())
    parts = [f"{total} difference{'s' if total > 1 else ''} ({counts})"] if total else []
    parts += [f"since {iso(found.first_timestamp)}"] if found.first_timestamp is not None else []
    return "; ".join(parts)
