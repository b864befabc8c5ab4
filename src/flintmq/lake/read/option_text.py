"""Parses options that Spark passes as text: names, flags, numbers, durations.

The source, its streams and the sink parse theirs here. Spark passes names in lower case, so names are compared without
regard to case. An error begins with the option's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flintmq.config.text import UNIT_MS, closest, short
from flintmq.errors import UsageError
from flintmq.format.text import typed_ms


class OptionNames:
    """The names of the options that the source or the sink knows.

    `own`: name -> meaning, the options that an error lists.
    """

    def __init__(self, owner: str, own: Mapping[str, str], keys: Iterable[str]) -> None:
        self.owner, self.own = owner, own
        self._by_lower = {name.lower(): name for name in (*keys, *own)}

    def spell(self, options: Mapping[str, str]) -> dict[str, str]:
        return {self._spelled(name): value.strip() for name, value in options.items()}

    def _spelled(self, name: str) -> str:
        known = self._by_lower.get(name.lower())
        if known is None:
            close = closest(name, self._by_lower)
            hint = f"did you mean {close}?" if close else f"options are {', '.join(self.own)}"
            raise UsageError(f"{short(name)} is not an option of the {self.owner} flintmq; {hint}")
        return known


def choice(given: Mapping[str, str], option: str, values: tuple[str, ...], default: str | None = None) -> str:
    """Return the value of an option that has one of some values, the first one by default."""
    value = given.get(option, default or values[0]).lower()
    if value not in values:
        raise UsageError(f"option {option}: {short(given[option])} is not one of {', '.join(values)}")
    return value


def flag(given: Mapping[str, str], option: str, default: bool) -> bool:
    return choice(given, option, ("true", "false"), str(default).lower()) == "true"


def number(given: Mapping[str, str], option: str, low: int, high: int = 2**63 - 1) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
        raise UsageError(f"option {option}: {short(text)} is not a whole number from {low} to {high}")
    return int(text)


def time_ms(given: Mapping[str, str], option: str) -> int | None:
    ms = number(given, option, 0)
    return None if ms is None else typed_ms(f"option {option}", ms)


def duration_ms(given: Mapping[str, str], option: str, default: str) -> int:
    text = given.get(option, default)
    match = re.fullmatch(r"([0-9]{1,9}) ?(ms|s|m|h|d)", text)
    if match is None:
        raise UsageError(f"option {option}: {short(text)} is not a duration such as 500ms, 30s, 15m or 1h")
    return int(match[1]) * UNIT_MS[match[2]]


def names(given: Mapping[str, str], option: str) -> tuple[str, ...] | None:
    """Return the names that an option lists, separated by commas; None if it is not given."""
    if option not in given:
        return None
    found = tuple(part.strip() for part in given[option].split(","))
    if not all(found) or len(set(found)) < len(found):
        raise UsageError(f"option {option}: {short(given[option])} has an empty name, or one twice")
    return found
