"""`flintmq salvage`: recover the intact messages of a damaged store."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import flag
from flintmq.cli.options import PAGES, JsonOption, PeerOption, SetOption, StoreArgument, examples, out_option
from flintmq.cli.output import Output, output
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.forensics.salvage.in_place import Mended
    from flintmq.forensics.salvage.into import Salvaged

EPILOG = examples(
    "flintmq salvage /var/rocketmq/store --out /tmp/saved",
    "flintmq copy /var/rocketmq/store --out /tmp/copy && flintmq salvage /tmp/copy --in-place --yes",
)
SHOWN = 20  # changes listed one by one


@dataclass(frozen=True)
class SalvageWords:
    store: StoreArgument
    into: Annotated[str | None, out_option("Write a new store into this new directory.")] = None
    in_place: bool = flag("--in-place", "Mend the store itself; --undo reverts it.")
    dry_run: bool = flag("--dry-run", "With --in-place: report the changes, make none.")
    yes: bool = flag("--yes", "With --in-place or --undo: do not ask.")
    undo: bool = flag("--undo", "Revert all changes of --in-place.")
    peer: PeerOption = "5.3.3"
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: SalvageWords) -> int:
    """Recover the intact messages of a damaged store. Stop the broker before.

    --out writes every intact record into a new store, with new offsets in order; queues, index, configuration and
    committed offsets follow, and salvage.jsonl in it maps old to new and lists the losses. The old store is only read.

    --in-place makes the least change after which a broker starts: damaged ranges of the log are copied to quarantine/
    and covered by filler records of a topic of their own, FLINTMQ_QUARANTINE; other messages keep their places and
    offsets; queues, index and small files are mended. It asks before; the next run finishes a killed one.
    """
    if (words.into is not None) + words.in_place + words.undo != 1:
        raise UsageError("give one of: --out DIR (a new store), --in-place (the store itself), --undo")
    if (words.dry_run and not words.in_place) or (words.yes and words.into is not None):
        raise UsageError("--dry-run belongs to --in-place, --yes to --in-place and --undo")
    out, config = output(words.as_json), store_config(words.settings)
    if words.into is not None:
        from flintmq.forensics.salvage.into import salvage_into

        with out.progress("salvage") as progress:
            done = salvage_into(words.store, words.into, config, words.peer, progress)
        out.result(done, _salvaged)
        return 0
    return (_undo if words.undo else _in_place)(words, config, out)


def _in_place(words: SalvageWords, config: StoreConfig, out: Output) -> int:
    from flintmq.forensics.salvage.in_place import plan_in_place

    with out.progress("looking") as progress:
        mending = plan_in_place(words.store, config, words.peer, progress, dry_run=words.dry_run)
    with mending:
        mended = mending.mended
        if not words.dry_run and mending.needed:
            if not words.yes:
                out.lines(_mended(mended, False))
                _ask(f"change {printable(words.store)}")
            mending.carry_out()
        out.result(mended, lambda value: _mended(value, not words.dry_run))
        return 1 if mended.left else 0


def _undo(words: SalvageWords, config: StoreConfig, out: Output) -> int:
    from flintmq.forensics.salvage.in_place import undo_in_place

    if not words.yes:
        _ask(f"bring {printable(words.store)} back as it was, with its damage")
    undone = undo_in_place(words.store, config)
    out.result({"undone": undone}, lambda value: (f"undone   {printable(path)}" for path in value["undone"]))
    return 0


def _ask(what: str) -> None:
    """Ask for a typed yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"--yes is needed to {what} because stdin is not a terminal")
    sys.stderr.write(f"type yes to {what}: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != "yes":
        raise UsageError("nothing was changed: the answer was not yes")


def _salvaged(done: Salvaged) -> Iterable[Any]:
    yield f"log      {done.records} records, {size(done.log_bytes)}"
    ranges = f"{done.lost_ranges} damaged range{'' if done.lost_ranges == 1 else 's'}"
    yield f"lost     {ranges}, {size(done.lost_bytes)}"
    if done.dropped:
        yield f"dropped  {done.dropped} records that cannot be rewritten"
    yield f"queues   {done.queues} with {done.units} units"
    yield f"index    {done.index_files} files with {done.keys} keys"
    yield f"offsets  {done.offsets} committed offsets were translated"
    yield from note_lines(done.notes)
    yield f"result   {printable(done.into)}; old and new offsets: {printable(done.report)}"


def _mended(mended: Mended, done: bool) -> Iterable[str]:
    for path in mended.finished:
        yield f"finished {printable(path)}, which a killed run had begun"
    for line in mended.ranges[:SHOWN]:
        yield f"cover    {printable(line['file'])}, position {line['position']}: {line['bytes']} bytes; {line['why']}"
    for line in mended.changes[:SHOWN]:
        yield f"{_what(line):8} {_where(line)}"
    more = max(len(mended.ranges) - SHOWN, 0) + max(len(mended.changes) - SHOWN, 0)
    if more:
        yield f"         and {more} more; --json lists all"
    for code, count in sorted(mended.left.items()):
        yield f"left     {code} ({count}x), which has to be mended by hand: {PAGES}/verify.md"
    lost = sum(line["bytes"] for line in mended.ranges)
    if not mended.ranges and not mended.changes:
        yield f"result   there is nothing {'else ' if mended.left else ''}to do for a defect that verify knows"
    else:
        yield f"result   {_result(len(mended.ranges), lost, len(mended.changes), done)}"
    if mended.journal:
        yield f"kept     {printable(mended.journal)} holds the old bytes; --undo restores them"


def _result(ranges: int, lost: int, changes: int, done: bool) -> str:
    """Summarize the ranges covered, their bytes, and other changes, made or planned."""
    covered, made = ("covered", "made") if done else ("would cover", "would make")
    parts = []
    if ranges:
        parts.append(f"{covered} {ranges} range{'' if ranges == 1 else 's'} ({size(lost)})")
    if changes:
        parts.append(f"{made} {changes} {'other ' if ranges else ''}change{'' if changes == 1 else 's'}")
    return ", ".join(parts)


def _what(line: dict[str, Any]) -> str:
    return str(line.get("what", "offset"))


def _where(line: dict[str, Any]) -> str:
    if "what" in line:
        return f"{printable(line['file'])}: {line['why']}"
    return f"{printable(line['of'])}, {printable(line['topic'])}/{line['queue_id']}: {line['old']} -> {line['new']}"
