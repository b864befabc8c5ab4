"""Declares arguments and options of commands, for Typer and for plain command lines alike.

Typer costs four times as much to load as Python itself, so a command's parameters are declared with these two small
classes: `Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most the N newest.")]`. `for_typer` makes
Typer's own declarations of them, and `plain` reads them without Typer; neither has a list of its own.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any


class Argument:
    """Declares a word of the command line that is known by its place.

    Args:
        metavar: its name in the help.
        help: one sentence.
        min: the least number; None for any.
        max: the greatest number; None for any.
        show_default: whether the help shows the default.
    """

    def __init__(
        self,
        *,
        metavar: str | None = None,
        help: str,
        min: float | None = None,
        max: float | None = None,
        show_default: bool = True,
    ) -> None:
        self.min, self.max = min, max
        limits: dict[str, Any] = {"min": min, "max": max}
        self.settings = {"metavar": metavar, "help": help, "show_default": show_default, **limits}


class Option(Argument):
    """Declares a word of the command line that is known by its name.

    Args:
        names: the names, such as `--limit` and `-n`.
        settings: as those of `Argument`.
    """

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.names = names


def parameters(command: Callable[..., int]) -> dict[str, tuple[Any, Argument]]:
    """Return the type and the declaration of each parameter of a command, in their order."""
    hints = typing.get_type_hints(command, include_extras=True)
    del hints["return"]
    return {name: typing.get_args(hint) for name, hint in hints.items()}


def for_typer(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command's function as Typer declares one."""
    import inspect

    import typer

    @functools.wraps(command)
    def run(**values: Any) -> int:
        return command(**values)

    hints: dict[str, Any] = {}
    for name, (kind, declared) in parameters(command).items():
        if isinstance(declared, Option):
            info = typer.Option(*declared.names, **declared.settings)
        else:
            info = typer.Argument(**declared.settings)
        hints[name] = typing.Annotated[kind, info]
    signature = inspect.signature(command)
    own = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    run.__signature__ = signature.replace(parameters=own, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "return": int}
    return run
