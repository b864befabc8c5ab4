"""Explains a file: opens it, finds its kind, makes its lines. Reads bounded parts only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError, UsageError
from flintmq.forensics.explain import file_kinds, index, json_file, log, queues, small, timer
from flintmq.forensics.explain.file_kinds import FilePlace
from flintmq.forensics.explain.lines import Line
from flintmq.forensics.explain.source import FileLook, FileSource
from flintmq.forensics.explain.store_context import Around
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.store_url import absolute, effects_for
from flintmq.store.layout.given_sizes import refuse_other_sizes

UNITS_SHOWN: Final = 10  # units that get a line of their own in an overview
NEIGHBOURS: Final = 2  # units shown after the one asked for
SMALL_FILE: Final = 200  # lines of a file of names or texts

_LINES: Final[dict[str, Callable[[FileLook], Iterator[Line]]]] = {
    file_kinds.LOG: log.lines,
    file_kinds.COMPACTION_LOG: log.lines,
    file_kinds.QUEUE: queues.lines,
    file_kinds.BATCH: queues.lines,
    file_kinds.COMPACTION_QUEUE: queues.lines,
    file_kinds.EXT: queues.ext_lines,
    file_kinds.INDEX: index.lines,
    file_kinds.CHECKPOINT: small.page,
    file_kinds.MARK: small.mark,
    file_kinds.TIMER_CHECK: small.page,
    file_kinds.TIMER_LOG: timer.log,
    file_kinds.TIMER_WHEEL: timer.wheel,
    file_kinds.JSON: json_file.lines,
    file_kinds.TEXT: small.text,
    file_kinds.OTHER: small.other,
}


@dataclass
class Explained:
    path: str
    place: FilePlace
    size: int
    lines: Iterator[Line]  # every byte once, in order. Iterate once; the attributes below are complete afterwards.
    found: list[tuple[str, str]]  # (name, text): content of the file, or context of the place asked for
    steps: list[str]
    problems: int = 0
    first: tuple[int, str] | None = field(default=None)


@contextmanager
def explain(
    path: str | os.PathLike[str],
    at: int | None = None,
    *,
    kind: str | None = None,
    limit: int | None = None,
    config: StoreConfig | None = None,
    effects: Effects | None = None,
) -> Iterator[Explained]:
    """Explain a file, for as long as a `with` block lasts.

    Args:
        at: position whose unit is explained field by field; None for an overview.
        kind: one of file_kinds.KINDS; None to find it.
        limit: number of units (in texts lines, in JSON keys) with a line of their own; with `at` of those after it.
            None: few.
        effects: the disk; None chooses it by the path.
    """
    config = config or StoreConfig()
    effects = effects or effects_for(path, config.s3)
    full, named = absolute(path), os.fspath(path)
    if effects.is_dir(full):
        raise UsageError(f"{named}: is a directory; name one file in it, `flintmq inspect` shows a whole store")
    try:
        fd = effects.open_read(full)
    except FileNotFoundError:
        raise StoreAccessError(f"{named}: there is no such file; check the path") from None
    try:
        source = FileSource(full, fd, effects)
        place = _place(named, full, source, kind)
        if place.root is not None:
            refuse_other_sizes(place.root, config, effects)
        if at is not None:
            _check(named, at, source.size, place)
        look = FileLook(source, place, at, _limit(limit, at, place.kind), Around(place, config, effects), config)
        explained = Explained(named, place, source.size, iter(()), look.found, look.steps)
        explained.lines = _watched(explained, look)
        yield explained
    finally:
        effects.close(fd)


def _limit(limit: int | None, at: int | None, kind: str) -> int:
    if limit is not None:
        return limit
    return NEIGHBOURS if at is not None else SMALL_FILE if kind in (file_kinds.JSON, file_kinds.TEXT) else UNITS_SHOWN


def _place(named: str, full: str, source: FileSource, kind: str | None) -> FilePlace:
    if kind is not None and kind not in file_kinds.KINDS:
        raise UsageError(f"--as: {kind!r} is not a kind of file; there are {file_kinds.words()}")
    place = file_kinds.by_path(full)
    if kind is None and place is not None:
        return place
    head = source.read(4096, 0)
    seen = file_kinds.by_content(head, source.size)
    if kind is not None:
        if place is None or place.kind != kind:
            start = seen.start if seen is not None and seen.kind == kind == file_kinds.LOG else None
            place = FilePlace(kind, "", start=start)
        return replace(place, how="as you say")
    if seen is None:
        what = "is empty" if not source.size else "has no known path or content"
        raise UsageError(f"{named}: {what}; say what it is with --as KIND ({file_kinds.words()})")
    return seen


def _check(named: str, at: int, size: int, place: FilePlace) -> None:
    if 0 <= at < size:
        return
    hint = f"its positions are 0 to {size - 1}" if size else "it is empty"
    if place.start and 0 <= at - place.start < size:
        hint += f"; offset {at} is position {at - place.start}"
    raise UsageError(f"{named}: --at {at} is outside the file; {hint}")


def _watched(explained: Explained, look: FileLook) -> Iterator[Line]:
    for line in _LINES[look.place.kind](look):
        if line.problem is not None:
            explained.problems += 1
            explained.first = explained.first or (line.offset, line.problem)
        yield line
    if look.place.kind == file_kinds.JSON and not explained.problems:
        broken = json_file.problem_of_end(look)
        if broken is not None:
            explained.problems, explained.first = 1, (max(look.source.size - 1, 0), broken)
