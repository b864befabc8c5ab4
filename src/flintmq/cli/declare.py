"""Declares arguments and options of commands.

Parser, help, completion and manual are made from these declarations alone. A command is a function that declares its
parameters, as in `limit: Annotated[int | None, Option("--limit -n N", "At most the N newest.", min=1)] = None`. Their
types are those of the function; a parameter without a default must be given, and a list may be given several times. A
dataclass in place of a parameter is its fields, which are declared in the same way, or as `limit: int | None =
option("--limit -n N", "At most the N newest.")`; it holds the words of a command that takes many, or of several.
"""

from __future__ import annotations

import inspect
import math
import os
import types
import typing
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass
from typing import Any, NamedTuple, TypeGuard

from flintmq.cli.text import shorten_text
from flintmq.errors import UsageError

INT64 = 1 << 63
REQUIRED: Any = object()
"""The default of a parameter that has none."""


class Argument:
    """Declares a word of the command line that is known by its place.

    Args:
        text: whether it is a text of messages, such as a topic: UTF-8 in any locale.
        topics: whether it names a topic of the store on the command line.
    """

    def __init__(
        self,
        word: str,
        help: str,
        *,
        min: float | None = None,
        max: float | None = None,
        text: bool = False,
        may_be_empty: bool = False,
        topics: bool = False,
        old: tuple[str, ...] = (),
    ) -> None:
        self.names = tuple(part for part in word.split() if part.startswith("-"))
        self.metavar = "".join(part for part in word.split() if not part.startswith("-"))
        self.help, self.min, self.max, self.old = help, min, max, old
        self.text, self.may_be_empty, self.topics = text, may_be_empty, topics

    @property
    def name(self) -> str:
        return self.names[0] if self.names else self.metavar


class Option(Argument):
    """Declares a word that is known by its name: `--limit -n N`, or `--json` for a flag."""


def option(word: str, help: str, default: Any = None, **limits: Any) -> Any:
    """Declare a field of a dataclass: an Option, and the value of one that is not given."""
    return field(default=default, metadata={"declared": Option(word, help, **limits)})


def flag(word: str, help: str, *, old: tuple[str, ...] = ()) -> Any:
    return option(word, help, False, old=old)


class Parameter(NamedTuple):
    name: str
    kind: type  # the type of one value: bool (a flag), int, float or str
    choices: tuple[str, ...]  # the words that it may be; none where any may be right
    several: bool  # whether it is a list of such values
    default: Any  # its value if it is not given; REQUIRED where it must be
    declared: Argument

    @property
    def usual(self) -> str:
        """Its default as a word; empty if that is nothing."""
        return "" if any(self.default is one for one in (REQUIRED, None, False)) else str(self.default)


def parameters(command: Callable[..., Any]) -> list[Parameter]:
    hints = typing.get_type_hints(command, include_extras=True)
    own = {one.name: one.metadata for one in fields(command)} if _has_fields(command) else {}
    found: list[Parameter] = []
    for name, one in inspect.signature(command).parameters.items():
        hint, default = hints[name], REQUIRED if one.default is one.empty else one.default
        if _has_fields(hint):
            found += parameters(hint)
            continue
        kind, declared = (hint, own[name]["declared"]) if own.get(name) else typing.get_args(hint)
        if isinstance(kind, types.UnionType):  # of a type and None
            kind = typing.get_args(kind)[0]
        if several := typing.get_origin(kind) is list:
            kind = typing.get_args(kind)[0]
        choices = typing.get_args(kind)  # of a Literal
        found.append(Parameter(name, str if choices else kind, choices, several, default, declared))
    return found


def _has_fields(hint: Any) -> TypeGuard[type[Any]]:
    return isinstance(hint, type) and is_dataclass(hint)


def call(command: Callable[..., int], values: dict[str, Any]) -> int:
    for name, hint in typing.get_type_hints(command).items():
        if _has_fields(hint):
            own = {one.name: values.pop(one.name) for one in fields(hint) if one.name in values}
            values = {name: hint(**own), **values}
    return command(**values)


def value_of(parameter: Parameter, word: str) -> Any:
    """Return the value that a word of the command line means.

    Numbers are clamped to 64 bits: nothing has more.
    """
    kind, declared, name = parameter.kind, parameter.declared, parameter.declared.name
    if not word and not declared.may_be_empty:
        raise UsageError(f"{name} is empty, as a variable that is not set; give a value")
    short = f"{name}: '{shorten_text(word, 60)}'"
    if parameter.choices and word not in parameter.choices:
        raise UsageError(f"{short} is none of {', '.join(parameter.choices)}")
    if kind is str:
        return _text(name, word) if declared.text and not word.isascii() else word
    try:
        if "_" in word or not word.isascii() or word != word.strip():  # which Python would read
            raise ValueError
        number = kind(word)
        if kind is float and not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise UsageError(f"{short} is not a {'whole number' if kind is int else 'number'}") from None
    if declared.min is not None and number < declared.min:
        raise UsageError(f"{short} is less than {declared.min:g}")
    if declared.max is not None and number > declared.max:
        raise UsageError(f"{short} is more than {declared.max:.0f}")
    if not declared.names and not -INT64 <= number < INT64:
        raise UsageError(f"{name}: {shorten_text(word, 60)} does not fit 64 bits; no store has such a place")
    return max(-INT64, min(number, INT64 - 1)) if kind is int else number


def _text(name: str, word: str) -> str:
    try:
        return os.fsencode(word).decode()  # the word's own bytes, which Python decoded as the locale says
    except UnicodeError:
        raise UsageError(f"{name}: '{word[:60]}' is not UTF-8, as names, tags, keys and SQL are") from None
