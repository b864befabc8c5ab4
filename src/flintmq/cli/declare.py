"""Declares arguments and options of commands, for Typer and for plain command lines alike.

Typer costs four times as much to load as Python itself, so a command's parameters are declared with these two small
classes: `Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most the N newest.")]`. `for_typer` makes
Typer's own declarations of them, and `plain` reads them without Typer; neither has a list of its own. `given` checks
the words that Typer takes; a word that it would refuse or change is not plain.
"""

from __future__ import annotations

import functools
import os
import typing
from collections.abc import Callable
from typing import Any

from flintmq.errors import UsageError


class Argument:
    """Declares a word of the command line that is known by its place.

    Args:
        metavar: its name in the help.
        help: one sentence.
        min: the least number; None for any.
        max: the greatest number; None for any.
        show_default: whether the help shows the default.
        text: whether it is a text of messages, such as a topic: UTF-8 in any locale.
        may_be_empty: whether an empty word is a value.
    """

    def __init__(
        self,
        *,
        metavar: str | None = None,
        help: str,
        min: float | None = None,
        max: float | None = None,
        show_default: bool = True,
        text: bool = False,
        may_be_empty: bool = False,
    ) -> None:
        self.min, self.max, self.text, self.may_be_empty = min, max, text, may_be_empty
        limits: dict[str, Any] = {"min": min, "max": max}
        self.settings = {"metavar": metavar, "help": help, "show_default": show_default, **limits}

    @property
    def name(self) -> str:
        """The name that errors give it."""
        return str(self.settings["metavar"])


class Option(Argument):
    """Declares a word of the command line that is known by its name.

    Args:
        names: the names, such as `--limit` and `-n`.
        settings: as those of `Argument`.
    """

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.names = names

    @property
    def name(self) -> str:
        """The name that errors give it."""
        return self.names[0]


def parameters(command: Callable[..., int]) -> dict[str, tuple[Any, Argument]]:
    """Return the type and the declaration of each parameter of a command, in their order."""
    hints = typing.get_type_hints(command, include_extras=True)
    del hints["return"]
    return {name: typing.get_args(hint) for name, hint in hints.items()}


def given(declared: Argument, value: Any) -> Any:
    """Return the value of a parameter that a command line gives, or each of several.

    Raises:
        UsageError: it is empty; or a text of messages, and no UTF-8.
    """
    if isinstance(value, list):
        return [given(declared, one) for one in value]
    if not isinstance(value, str):
        return value
    if not value and not declared.may_be_empty:
        raise UsageError(f"{declared.name} is empty, as a variable that is not set; give a value")
    if not declared.text or value.isascii():
        return value
    try:
        return os.fsencode(value).decode()  # the word's own bytes, which Python decoded as the locale says
    except UnicodeError:
        raise UsageError(f"{declared.name}: '{value[:60]}' is not UTF-8, as names, tags, keys and SQL are") from None


def for_typer(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command's function as Typer declares one."""
    import inspect

    import typer

    declarations = parameters(command)
    signature = inspect.signature(command)

    @functools.wraps(command)
    def run(**values: Any) -> int:
        for name, value in values.items():
            if value != signature.parameters[name].default:
                values[name] = given(declarations[name][1], value)
        return command(**values)

    hints: dict[str, Any] = {}
    for name, (kind, declared) in declarations.items():
        if isinstance(declared, Option):
            info = typer.Option(*declared.names, **declared.settings)
        else:
            info = typer.Argument(**declared.settings)
        hints[name] = typing.Annotated[kind, info]
    own = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    run.__signature__ = signature.replace(parameters=own, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "return": int}
    return run
