"""`flintmq explain`: one file of a store, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.declare import Argument, Option
from flintmq.cli.options import JsonOption, SetOption, examples, limit_option
from flintmq.cli.output import dumps, output
from flintmq.cli.terminal import BOLD, CYAN, FAINT, RED, paint
from flintmq.cli.text import printable, shorten_text, size
from flintmq.cli.values import parse_position, store_config

if TYPE_CHECKING:
    from flintmq.forensics.explain.lines import Line
    from flintmq.forensics.explain.run import Explained

EPILOG = examples(
    "flintmq explain /var/rocketmq/store/commitlog/00000000000000000000 --at 12345",
    "flintmq explain /var/rocketmq/store/checkpoint --json",
)
HEX_BYTES = 8
"""A line shows this many of its bytes."""
NAME_CHARS = 34
TEXT_CHARS = 160


def command(
    file: Annotated[str, Argument("FILE", "Any file of a store.")],
    at: Annotated[str | None, Option("--at POSITION", "Explain in full what covers this byte of the file.")] = None,
    kind: Annotated[str | None, Option("--as KIND", "Its kind, if its path does not show it.")] = None,
    limit: Annotated[
        int | None, limit_option("Units with a line of their own (10); with --at those after it (2).")
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain any file of a store, byte by byte.

    It explains the log, queues and their extensions, batch queues, index, timer store, checkpoints and configuration.
    Without --at it prints an overview: the first units in a line each, and counts of the rest. With --at it prints the
    record, unit, slot or item that covers the position, field by field, with its neighbours, and checks the place that
    it points to.

    Errors are marked, and make the exit code 1. Kinds for --as: commitlog, consumequeue, consumequeue_ext,
    batchconsumequeue, compactionlog, compactioncq, index, checkpoint, mark, timerlog, timerwheel, timercheck, json,
    text, other.
    """
    position = None if at is None else parse_position("--at", at)
    from flintmq.forensics.explain.run import explain

    out = output(as_json)
    with explain(file, position, kind=kind, limit=limit, config=store_config(settings)) as found:
        out.lines(map(json_of, found.lines) if as_json else _text(found))
    return 1 if found.problems else 0


def json_of(line: Line) -> str:
    found = {**asdict(line), "unit": line.unit or None}
    data = found.pop("data")
    return dumps({**found, "bytes": data})


def _text(found: Explained) -> Iterator[str]:
    from flintmq.forensics.explain.file_kinds import KINDS

    place = found.place
    yield _fact("file", found.path)
    yield _fact("kind", f"{KINDS[place.kind]}, {place.how}")
    begins = f", offset {place.start} in its queue of files" if place.start is not None else ""
    exact = f" ({size(found.size)})" if found.size >= 1024 else ""
    yield _fact("size", f"{found.size} bytes{exact}{begins}")
    unit, empty = "", True
    width = len(str(max(found.size - 1, 0)))
    for line in found.lines:
        parts = line.unit if line.name != line.unit.partition(" ")[0] else ""  # empty: a unit in one line
        yield from [""] if empty or parts != unit else []
        unit, empty = parts, False
        yield from _line(line, width)
    if not empty:
        yield ""
    for name, text in found.found:
        yield _fact(name, text)
    if found.first is not None:
        more = f" ({found.problems} in all)" if found.problems > 1 else ""
        position, problem = found.first
        yield f"{paint(RED, 'wrong   ')}  position {position}: {printable(problem)}{more}"
    for step in found.steps:
        yield _fact("next", step)


def _fact(name: str, text: str) -> str:
    return f"{paint(BOLD, f'{name:<8}')}  {printable(text)}"


def _end_of(name: str) -> str:
    """Shorten a long name to its end, the most specific part of a path of keys."""
    return name if len(name) <= NAME_CHARS else "…" + name[1 - NAME_CHARS :]


def _line(line: Line, width: int) -> Iterator[str]:
    """Yield position, length, bytes, name, value and meaning, then a problem in its own line."""
    shown = line.data[:HEX_BYTES].hex() + (".." if line.length > HEX_BYTES else "")
    name, text = _end_of(printable(line.name)), shorten_text(printable(line.text), TEXT_CHARS)
    place = f"{line.offset:>{width}} {line.length:>6}"
    described = f"{paint(FAINT, f'{place}  {shown:<{2 * HEX_BYTES + 2}}')}  {paint(CYAN, f'{name:<27}')}  {text}"
    meaning = f"  {paint(FAINT, '- ' + printable(line.meaning).replace('`', ''))}" if line.meaning else ""
    yield (described + meaning).rstrip()
    if line.problem is not None:
        yield f"{'':>{width + 7}}  {paint(RED, 'wrong: ' + printable(line.problem))}"
