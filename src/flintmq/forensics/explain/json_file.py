"""Explains configuration files: each key's path, bytes and value, up to a syntax error."""

from __future__ import annotations

import os
from collections.abc import Iterator

from flintmq.forensics.explain.lines import SHOWN_BYTES, Line, text_of
from flintmq.forensics.explain.source import FileLook
from flintmq.format import config_json, config_names
from flintmq.format.config_json import JsonMember
from flintmq.format.text import iso


class _Chosen:
    """Keeps the members that get a line of their own, and counts the others."""

    def __init__(self, look: FileLook) -> None:
        self.at, self.limit = look.at, max(look.limit, 1)
        self.kept: list[JsonMember] = []
        self.before = self.total = 0  # before: members before the first one kept
        self.end: int | None = None  # position of the first member after the kept ones; None if there is none

    def take(self, member: JsonMember) -> None:
        self.total += 1
        if self.at is not None and member.begin <= self.at:
            self.before += len(self.kept[:-1])
            self.kept = [*self.kept[-1:], member]  # the last member that begins before `at`, and its neighbour
        elif self.end is None and len(self.kept) < self.limit + (2 if self.at is not None else 0):
            self.kept.append(member)
        elif self.end is None:
            self.end = member.begin


def lines(look: FileLook) -> Iterator[Line]:
    """Yield lines for every byte. A member extends to the beginning of the next one."""
    source = look.source
    name = os.path.basename(source.path).removesuffix(".bak")
    if name in config_names.FILES:
        look.found.append(("meaning", config_names.FILES[name]))
    if source.size > config_json.MAX_BYTES:
        problem = f"{source.size} bytes, more than the {config_json.MAX_BYTES} that are read"
        yield from look.bytes(0, source.size, "bytes", "not looked at", problem, counted=False)
        return
    if not source.size:
        return
    data = source.read(source.size, 0)
    chosen = _Chosen(look)
    error = config_json.members(data, chosen.take)
    look.found.append(("holds", f"{chosen.total} keys and elements"))
    stop = source.size if error is None else min(max(error.position, 0), source.size)
    yield from _lines(look, data, chosen, stop)
    if error is not None:
        yield from look.bytes(stop, source.size, "unreadable", "no JSON of a broker", error.reason, counted=False)
        look.found.append(("broken", f"position {stop}: {error.reason}; brokers take {name}.bak instead"))


def _lines(look: FileLook, data: bytes, chosen: _Chosen, stop: int) -> Iterator[Line]:
    begins = [min(member.begin, stop) for member in chosen.kept] or [stop]
    if begins[0]:
        count = f"{chosen.before} keys and elements" if chosen.before else "the object begins"
        yield look.range(0, begins[0], "before" if chosen.before else "begin", chosen.before, count, "")
    kept_end = min(stop if chosen.end is None else chosen.end, stop)
    for member, end in zip(chosen.kept, [*begins[1:], kept_end], strict=False):
        if member.begin < end:
            yield _line(data, member, end)
    if chosen.kept and kept_end < stop:
        after = chosen.total - chosen.before - len(chosen.kept)
        yield look.range(kept_end, stop, "rest", after, f"{after} keys and elements", "not shown")


def _line(data: bytes, member: JsonMember, end: int) -> Line:
    steps = [f"[{step}]" if isinstance(step, int) else step for step in member.path]
    name, meaning, value = ".".join(steps).replace(".[", "["), config_names.meaning(member.path), member.value
    if isinstance(value, str):
        value = text_of(value.encode("utf-8", "replace"))
    text = str(value) if member.known else "not read to its end"
    if member.known and isinstance(value, bool | None):
        text = {True: "true", False: "false", None: "null"}[value]
    if meaning.startswith("ms,") and isinstance(value, int) and value:
        text = f"{value} ({iso(value)})"
    raw = data[member.begin : min(end, member.begin + SHOWN_BYTES)]
    return Line(member.begin, end - member.begin, "", name, value, text, meaning, None, raw)


def problem_of_end(look: FileLook) -> str | None:
    """Return why the file is broken although every byte was read; None if it is not."""
    return next((text for name, text in look.found if name == "broken"), None)
