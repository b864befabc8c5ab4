"""Parses plain command lines without Typer, which is slow to load.

A command line is plain if it is a known command with known arguments and options, all of them right. Everything else
(help, completion, a mistake, a rare way of writing) is None here, and is left to Typer, which also makes all texts. So
this parser may always decline, and must never understand a line in another way than Typer does. It knows no option
itself: it reads the declarations that Typer gets too (`declare.parameters`).
"""

from __future__ import annotations

import enum
import os
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from flintmq.cli.commands import NAMES, module_of
from flintmq.cli.declare import Argument, Option, parameters

COMPLETE = "_FLINTMQ_COMPLETE"
"""Set by shells to ask for completions, or for the script that enables them; see docs/operations/cli.md."""
MOST_DIGITS = 18
"""A number of so many digits fits into 64 bits."""


class NotPlain(Exception):
    """A command line is left to Typer."""


def plain_call(words: Sequence[str]) -> Callable[[], int] | None:
    """Return the call that the words mean; None if the line is not plain.

    Args:
        words: the command's name and what follows it.
    """
    if COMPLETE in os.environ or not words or words[0] not in NAMES or words[0] == "sql":  # sql asks for DuckDB first
        return None
    command: Callable[..., int] = import_module(module_of(words[0])).command
    try:
        values = parse(command, words[1:])
    except NotPlain:
        return None
    return lambda: command(**values)


def parse(command: Callable[..., int], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of the parameters that the words give; all others have their defaults.

    Raises:
        NotPlain: the words are no plain command line.
    """
    declared = parameters(command)
    named = {option: name for name, (_, one) in declared.items() if isinstance(one, Option) for option in one.names}
    places = [name for name, (_, one) in declared.items() if not isinstance(one, Option)]
    values: dict[str, Any] = {}
    placed: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            placed.append(word)
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in named:
            raise NotPlain
        name = named[option]
        if declared[name][0] is not bool:
            _take(values, name, value if equals else next(rest, ""), declared)
        elif equals:
            raise NotPlain
        else:
            values[name] = True
    for name, word in _placed(places, placed, declared):
        _take(values, name, word, declared)
    required = list(declared)[: len(declared) - len(command.__defaults__ or ())]
    if not values.keys() >= set(required):
        raise NotPlain
    return values


def _placed(
    places: list[str], words: list[str], declared: dict[str, tuple[Any, Argument]]
) -> Iterator[tuple[str, str]]:
    """Yield the parameter of each word beside options; a list takes what others leave.

    Raises:
        NotPlain: there are too many words, or too few beside a list.
    """
    several = next((at for at, name in enumerate(places) if typing.get_origin(declared[name][0]) is list), None)
    more = len(words) - len(places)
    if (more > 0 and several is None) or (more < 0 and several is not None):
        raise NotPlain
    if several is not None:
        places = [*places[:several], *[places[several]] * (more + 1), *places[several + 1 :]]
    yield from zip(places, words, strict=False)


def _take(values: dict[str, Any], name: str, word: str, declared: dict[str, tuple[Any, Argument]]) -> None:
    """Add the value of a parameter.

    Raises:
        NotPlain: it is given twice, or the word is no plain value of its type.
    """
    kind, one = declared[name]
    if isinstance(kind, types.UnionType):  # of a type and None
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is list:
        values.setdefault(name, []).append(_value(typing.get_args(kind)[0], one, word))
    elif name in values:
        raise NotPlain
    else:
        values[name] = _value(kind, one, word)


def _value(kind: Any, declared: Argument, word: str) -> Any:
    if not word or not word.isprintable():  # also a byte that is not UTF-8
        raise NotPlain
    if kind is str:
        return word
    if kind is int and word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS:
        number = int(word)
        if (declared.min is None or number >= declared.min) and (declared.max is None or number <= declared.max):
            return number
    elif issubclass(kind, enum.Enum) and word in {one.value for one in kind}:
        return kind(word)
    raise NotPlain
