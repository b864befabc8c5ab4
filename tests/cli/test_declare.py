"""Words that a command line gives to parameters: none is empty, lost, or another text."""

from __future__ import annotations

import enum
import os
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flintmq.cli.commands import NAMES, module_of, retention
from flintmq.cli.declare import Argument, Option, given, parameters
from flintmq.cli.lake.spark import group
from flintmq.errors import UsageError
from tests.cli.conftest import Run


def commands() -> Iterator[tuple[str, Callable[..., int]]]:
    """Every command and its function."""
    from importlib import import_module

    for name in NAMES:
        yield name, import_module(module_of(name)).command
    for above, below in (("spark", group.COMMANDS), ("retention", retention.COMMANDS)):
        for name, (command, _) in below.items():
            yield f"{above} {name}", command


def kind_of(hint: Any) -> Any:
    """Return the type of one value of a parameter."""
    kinds = [kind for kind in (typing.get_args(hint) or (hint,)) if kind is not type(None)]
    return kind_of(kinds[0]) if typing.get_origin(kinds[0]) is list else kinds[0]


def right(command: Callable[..., int]) -> dict[str, str]:
    """Return a word for each parameter that a command needs."""
    rows = parameters(command)
    needed = list(rows)[: len(rows) - len(command.__defaults__ or ())]
    return {name: "3" if kind_of(rows[name][0]) is int else "x" for name in needed}


def line(command: Callable[..., int], values: dict[str, str]) -> list[str]:
    """Return the words that give these values."""
    rows = parameters(command)
    options = {name: one for name, (_, one) in rows.items() if isinstance(one, Option)}
    named = [f"{options[name].names[0]}={value}" for name, value in values.items() if name in options]
    return [*named, "--", *(values[name] for name in rows if name in values and name not in options)]


def named(command: Callable[..., int], parameter: str) -> tuple[str, ...]:
    """Return the names of a parameter; none of an argument."""
    declared = parameters(command)[parameter][1]
    return declared.names if isinstance(declared, Option) else ()


TEXTS = [
    (name, command, parameter)
    for name, command in commands()
    for parameter, (hint, _) in parameters(command).items()
    if kind_of(hint) is str
]
SINGLE = [
    (name, command, option.names)
    for name, command in commands()
    for hint, option in parameters(command).values()
    if isinstance(option, Option) and hint is not bool and "list" not in str(hint)
]


@pytest.mark.parametrize(("name", "command", "parameter"), TEXTS, ids=[f"{n} {p}" for n, _, p in TEXTS])
def test_an_empty_word_is_refused(name: str, command: Callable[..., int], parameter: str, run: Run) -> None:
    declared = parameters(command)[parameter][1]
    if declared.may_be_empty:
        assert (name, declared.name) == ("put", "BODY")
        return
    result = run(*name.split(), *line(command, {**right(command), parameter: ""}))
    assert (result.code, result.out) == (2, "") and len(result.err.splitlines()) == 1
    if (name, declared.name) not in (("follow", "HOST:PORT"), ("follow", "--store")):  # as if they were not given
        assert result.err == f"flintmq: {declared.name} is empty, as a variable that is not set; give a value\n"


@pytest.mark.parametrize(("name", "command", "names"), SINGLE, ids=[f"{n} {o[0]}" for n, _, o in SINGLE])
def test_a_second_value_is_not_lost(name: str, command: Callable[..., int], names: tuple[str, ...], run: Run) -> None:
    twice = (f"{names[0]}=3", names[-1], "4")
    needed = {
        parameter: word for parameter, word in right(command).items() if names[0] not in named(command, parameter)
    }
    result = run(*name.split(), *twice, *line(command, needed))
    assert (result.code, result.out) == (2, "")
    assert result.err == f"flintmq: {names[0]} is given 2 times, and has one value; give it once\n"


NUMBERS = [
    (name, command, parameter)
    for name, command in commands()
    for parameter, (hint, _) in parameters(command).items()
    if kind_of(hint) in (int, float)
]


@pytest.mark.parametrize(("name", "command", "parameter"), NUMBERS, ids=[f"{n} {p}" for n, _, p in NUMBERS])
def test_a_number_is_written_in_digits(name: str, command: Callable[..., int], parameter: str, run: Run) -> None:
    """Python also reads 1_0, as 10, and digits of other scripts."""
    said = parameters(command)[parameter][1].name
    for word in ("1_0", " 1", "1_0.5", "１"):
        result = run(*name.split(), *line(command, {**right(command), parameter: word}))
        assert (result.code, result.out) == (2, "") and said in result.err and len(result.err.splitlines()) == 1
        if word in ("1_0", " 1"):
            assert result.err == f"flintmq: {said}: '{word}' is not a number; write digits alone\n"


@pytest.mark.parametrize("place", [("0", "9" * 23), ("9" * 23, "0"), ("0", "9223372036854775808")])
def test_a_place_beyond_64_bits_is_named_as_it_was_given(run: Run, place: tuple[str, str]) -> None:
    result = run("get", "store", "T", *place)
    name, word = ("QUEUE", place[0]) if place[0] != "0" else ("OFFSET", place[1])
    assert (result.code, result.out) == (2, "")
    assert result.err == f"flintmq: {name}: {word} does not fit 64 bits; no store has such a place\n"


def test_a_flag_may_be_repeated(run: Run) -> None:
    assert run("doctor", "--json", "--json").code in (0, 1)


class Choice(enum.StrEnum):
    """Stands for the values of an option."""

    a = "a"


TEXT = Option("--topic", metavar="T", help="A topic.", text=True)
PATH = Argument(metavar="STORE", help="A store.")


def test_texts_are_utf8() -> None:
    assert given(TEXT, ["库", "a\ufffd"]) == ["库", "a\ufffd"]
    assert given(TEXT, "\udce5\udcba\udc93") == "库"
    with pytest.raises(UsageError) as caught:
        given(TEXT, "a\udcff")
    assert str(caught.value) == "--topic: 'a\udcff' is not UTF-8, as names, tags, keys and SQL are"


def test_other_words_stay_as_they_are() -> None:
    raw = os.fsdecode(b"\xff\xe5")
    assert given(PATH, [raw]) == [raw]
    for value in (None, 5, True, 1.5, Choice.a):
        assert given(TEXT, value) is value
