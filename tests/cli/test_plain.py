"""Plain command lines mean what Typer says they mean; all others are left to it."""

from __future__ import annotations

import enum
import functools
import subprocess
import sys
import typing
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import typer

from flintmq.cli import plain
from flintmq.cli.command import Command
from flintmq.cli.commands import NAMES, module_of
from flintmq.cli.declare import Argument, Option, for_typer, parameters
from tests.compat.stores import Golden

WORDS = {str: ["a", "a b", "é", "-2d"], int: ["5", "007"], float: ["1.5"]}


def by_typer(name: str, words: list[str]) -> dict[str, Any]:
    """What Typer gives to the command's function."""
    command, seen = import_module(module_of(name)).command, {}

    @functools.wraps(command)
    def spy(**values: Any) -> int:
        seen.update(values)
        return 0

    alone = typer.Typer()
    alone.command(name, cls=Command)(for_typer(spy))
    typer.main.get_command(alone).main(args=list(words), standalone_mode=False)
    return seen


def by_plain(name: str, words: list[str]) -> dict[str, Any] | None:
    """What a plain command line gives to it, defaults included; None if it is not plain."""
    command = import_module(module_of(name)).command
    try:
        given = plain.parse(command, words)
    except plain.NotPlain:
        return None
    names, defaults = list(parameters(command)), command.__defaults__ or ()
    return {**dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)), **given}


def places(name: str) -> list[str]:
    """A right word for each argument that must be given."""
    command = import_module(module_of(name)).command
    rows = list(parameters(command).values())
    needed = rows[: len(rows) - len(command.__defaults__ or ())]
    words = []
    for kind, declared in needed:
        words += [*(declared.names[:1] if isinstance(declared, Option) else ()), "3" if kind is int else "x"]
    return words


def options() -> list[tuple[str, str, Any, Argument]]:
    """Each name of each option of each command."""
    return [
        (name, option, kind, declared)
        for name in NAMES
        for kind, declared in parameters(import_module(module_of(name)).command).values()
        if isinstance(declared, Option)
        for option in declared.names
    ]


@pytest.mark.parametrize("name", NAMES)
def test_arguments_alone_are_plain_and_mean_the_same(name: str) -> None:
    words = places(name)
    assert by_plain(name, words) == by_typer(name, words)


@pytest.mark.parametrize(("name", "option", "kind", "declared"), options())
def test_each_option_means_the_same(name: str, option: str, kind: Any, declared: Argument) -> None:
    leaf = kind
    while typing.get_args(leaf):
        leaf = typing.get_args(leaf)[0]
    if leaf is bool:
        extra = [[option]]
    else:
        words = [one.value for one in leaf] if issubclass(leaf, enum.Enum) else WORDS[leaf]
        extra = [[option, word] for word in words] + [[f"{option}={word}"] for word in words if option[:2] == "--"]
        if typing.get_origin(typing.get_args(kind)[0] if typing.get_args(kind) else kind) is list:
            extra.append([option, words[0], option, words[-1]])
    required = places(name)
    if option in required:
        at = required.index(option)
        del required[at : at + 2]
    for words in extra:
        for line in ([*required, *words], [*words, *required]):
            found = by_plain(name, line)
            assert found == by_typer(name, line) if leaf is not float else found is None, line


@pytest.mark.parametrize(
    "words",
    [
        "get", "get s t 0", "get s t 0 1 2", "get s t x 1", "get s t 0 -1", "get s t 0 1 --help", "get -h",
        "get -- s t 0 1", "get s t 0 1 --raw=1", "get s t 0 1 --set", "get s t 0 1 --js",
        "get s t 0 1111111111111111111",
        "get s t 0 1_0", "get s t 0 ٣", "query s t k --limit 0", "query s t k -n5", "query s t k -n 5 -n 6",
        "query s t k --limit 5x", "query s t k --since=", "put s t --queue 2147483648", "verify s --access mmap",
        "sql s select", "nothing s", "--json get s t 0 1", "",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_typer(words: str) -> None:
    assert plain.plain_call(words.split(" ")) is None


def test_bytes_that_are_no_text_are_left_to_typer() -> None:
    assert plain.plain_call(["get", "s\udcff", "t", "0", "1"]) is None


@pytest.mark.parametrize("words", ["get STORE Orders 0 0", "get STORE Orders 0 0 --json", "query STORE Orders k99"])
def test_a_plain_command_line_loads_no_library_that_it_does_not_need(
    words: str, golden: Callable[[str], Golden]
) -> None:
    code = "import sys; from flintmq.cli import app; app.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    line = [sys.executable, "-c", code, *(str(golden("basic").path) if w == "STORE" else w for w in words.split())]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "flintmq" in loaded and not loaded & {"typer", "click", "rich", "pyarrow", "numpy", "asyncio", "pydantic"}
