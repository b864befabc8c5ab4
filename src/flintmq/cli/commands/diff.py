"""`flintmq diff`: what differs between two stores, or a store and its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from flintmq import hooks
from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import JsonOption, SetOption, catalog_option, examples
from flintmq.cli.output import Output, dumps, output
from flintmq.cli.terminal import verdict
from flintmq.cli.text import iso, printable, size
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from flintmq.forensics.diff.differences import Differences, Run
    from flintmq.forensics.diff.run import Comparison, DiffSide, OneSided

EPILOG = examples(
    "flintmq diff /var/rocketmq/store /tmp/copied",
    "flintmq diff /var/rocketmq/store /tmp/copied --by message --json",
    "flintmq diff /var/rocketmq/store /tmp/lake",
)
RUNS_SHOWN = 40


class Compared(Protocol):
    """The result of a comparison, of two stores or of a store and a table."""

    @property
    def differences(self) -> Differences:
        """The differences, joined to runs."""

    @property
    def notes(self) -> list[str]:
        """Sentences about all else that was found."""

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, for programs."""


Way = Literal["auto", "offset", "message"]
"""The way of finding the counterpart of a record."""
AArgument = Annotated[str, Argument("A", "A store's directory, or its URL.")]
BArgument = Annotated[str, Argument("B", "The other store, or the table of exports of A.")]
ByOption = Annotated[Way, Option("--by WAY", "offset: a slave or a copy; message: a store that was moved; or auto.")]
CatalogOption = Annotated[str | None, catalog_option("Of an Iceberg table B")]


def command(
    a: AArgument,
    b: BArgument,
    by: ByOption = "auto",
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
    exit_code: int | None = hooks.load("diff_with_a_table")(out, a, b, catalog, by, config)
    if exit_code is not None:
        return exit_code
    with out.progress("comparing") as progress:
        found = compare(a, b, config, by, progress)
    print_stores(out, found)
    return found.exit_code


def print_stores(out: Output, found: Comparison) -> None:
    out.lines(json_lines(found) if out.json else _text(found))


def json_lines(found: Compared) -> Iterator[str]:
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
    yield from runs_and_notes(found)
    yield f"{verdict('result', found.equal)}   {_result(found)}"


def runs_and_notes(found: Compared) -> Iterator[str]:
    """Yield the lines about the differences, then those about what was not compared."""
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
    parts = list(filter(None, [counted(found.differences)]))
    parts += [f"{part.messages} messages only in {part.side}" for part in found.one_sided if not part.growing]
    if damage := found.a.damage + found.b.damage:
        parts.append(f"damage at {damage} place{'s' * (damage > 1)}, where nothing was compared")
    return "; ".join(parts)


def counted(found: Differences) -> str:
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(found.counts.items()))
    total = sum(found.counts.values())
    parts = [f"{total} difference{'s' if total > 1 else ''} ({counts})"] if total else []
    parts += [f"since {iso(found.first_timestamp)}"] if found.first_timestamp is not None else []
    return "; ".join(parts)
