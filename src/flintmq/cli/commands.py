"""What all commands have in common beside options: numbers that are clamped, needed packages, plain usage lines."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from typer.core import TyperCommand

from flintmq.errors import MissingExtraError

INT64 = 1 << 63


class Command(TyperCommand):
    """A command of `flintmq`.

    Attributes:
        needs: a package, and the extra that brings it and all else that the command uses.
    """

    needs: tuple[str, str] | None = None

    def invoke(self, ctx: Any) -> Any:
        """Run it, with numbers that a machine can count.

        Raises:
            MissingExtraError: what it needs is not installed.
        """
        if self.needs is not None:
            need(*self.needs)
        ctx.params = {name: clamped(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without braces: STORE."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """The help, without names of Python's types behind arguments."""
        return re.sub(
            r"(?m)^(  [A-Z]+)( <[a-z]+>)", lambda found: found[1] + " " * len(found[2]), super().get_help(ctx)
        )


class SqlCommand(Command):
    """A command that asks DuckDB."""

    needs = ("duckdb", "duckdb")


class SparkCommand(Command):
    """A command that runs on Spark."""

    needs = ("pyspark", "spark")


def need(package: str, extra: str) -> None:
    """Look whether an optional package is there.

    Raises:
        MissingExtraError: it is not.
    """
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{package} is not installed, which this command needs; run: pip install 'flintmq[{extra}]'"
        )


def clamped(value: Any) -> Any:
    """Numbers that no 64 bits hold become the largest or the least that they do: no store has more of anything."""
    if isinstance(value, list):
        return [clamped(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-INT64, min(value, INT64 - 1))
    return value
