"""Options of the commands that change offsets, and what these print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli.declare import Option, flag
from flintmq.cli.options import JsonOption, SetOption
from flintmq.cli.output import output
from flintmq.cli.terminal import TextTable
from flintmq.cli.text import printable, shorten_text
from flintmq.cli.values import store_config

if TYPE_CHECKING:
    from flintmq.forensics.offset_changes import Move, OffsetChange, StoppedOffsets

NAME_CHARS = 60
ClampOption = Annotated[bool, Option("--clamp", "Move what is outside of its queue to the queue's nearest end.")]
GroupOption = Annotated[str, Option("--group G", "The consumer group.", text=True)]


@dataclass(frozen=True)
class ChangeWords:
    create: bool = flag("--create", "Make a group that is not there.")
    dry_run: bool = flag("--dry-run", "Show what would change, and write nothing.")
    settings: SetOption = None
    as_json: JsonOption = False


def change(
    store: str, words: ChangeWords, moves_of: Callable[[StoppedOffsets], Iterable[Move]], *, clamp: bool = False
) -> int:
    """Change offsets, and print each place before and after."""
    from flintmq.forensics.offset_changes import changed

    out, config = output(words.as_json), store_config(words.settings)
    changes, left = changed(store, config, moves_of, create=words.create, clamp=clamp, dry_run=words.dry_run)
    moved = sum(one.before != one.after for one in changes)
    written = 0 if words.dry_run else moved
    out.result({"written": written, "changes": changes, "left": left}, lambda found: _render(changes))
    for text in left:
        out.note(text)
    if not moved:
        out.note("nothing to change: the group is there already")
    elif words.dry_run:
        out.note(f"dry run: {moved} of {len(changes)} offsets would change; nothing was written")
    else:
        out.note(f"{moved} of {len(changes)} offsets changed")
    return 0


def _render(changes: Iterable[OffsetChange]) -> Iterator[Any]:
    table = TextTable("group", "topic", "queue>", "before>", "after>", "first>", "end>", "")
    for one in changes:
        names = (shorten_text(printable(name), NAME_CHARS) for name in (one.group, one.topic))
        before = "none" if one.before is None else str(one.before)
        numbers = (one.queue_id, before, one.after, one.min_offset, one.max_offset)
        table.add_row(*names, *map(str, numbers), _cost(one))
    yield table


def _cost(one: OffsetChange) -> str:
    """Return how many messages come again, or not at all."""
    if one.before is None or one.before < 0:
        return "begins here"
    was = min(max(one.before, one.min_offset), one.max_offset)
    return f"{was - one.after} again" if one.after < was else f"{one.after - was} skipped" if one.after > was else ""
