"""The base of all commands: clamped numbers, needed packages, plain usage lines."""

from __future__ import annotations

import re
from collections import Counter
from importlib.util import find_spec
from typing import Any

from typer.core import TyperCommand

from flintmq.cli.text import shorten_text
from flintmq.errors import MissingExtraError, UsageError

INT64 = 1 << 63


class Command(TyperCommand):
    """A command of `flintmq`.

    Attributes:
        needs: a package, and the extra that installs it and all else that the command uses.
    """

    needs: tuple[str, str] | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, of which none may be lost or be another number than it seems.

        Raises:
            UsageError: an option that has one value is given twice; a number is not written in digits alone; or a place
                does not fit 64 bits.
        """
        if ctx.resilient_parsing:  # of an unfinished line, for a completion
            return super().parse_args(ctx, args)
        given, _, params = self.make_parser(ctx).parse_args(args=list(args))
        counts: Counter[Any] = Counter(params)
        for param, count in counts.items():
            if count > 1 and not (param.multiple or param.is_flag):
                raise UsageError(f"{param.opts[0]} is given {count} times, and has one value; give it once")
        rest = super().parse_args(ctx, args)
        for param in counts:
            word: Any = given.get(param.name)
            value: Any = ctx.params.get(param.name)
            option = param.param_type_name == "option"
            several = isinstance(value, list)
            for text, number in zip(word, value, strict=True) if several else ((word, value),):
                if isinstance(number, (int, float)) and isinstance(text, str):
                    _check_number(param.opts[0] if option else param.metavar, text, number, place=not option)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with numbers clamped to 64 bits.

        Raises:
            MissingExtraError: a needed package is not installed.
        """
        if self.needs is not None:
            need(*self.needs)
        ctx.params = {name: clamped(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, without braces: STORE."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """Return the help, without names of Python's types after arguments."""
        return re.sub(
            r"(?m)^(  [A-Z:]+)( <[][a-z]+>)", lambda found: found[1] + " " * len(found[2]), super().get_help(ctx)
        )


class SqlCommand(Command):
    """A command that runs SQL in DuckDB."""

    needs = ("duckdb", "duckdb")


class SparkCommand(Command):
    """A command that runs on Spark."""

    needs = ("pyspark", "spark")


def need(package: str, extra: str) -> None:
    """Check that an optional package is installed.

    Raises:
        MissingExtraError: it is not.
    """
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{package} is not installed, which this command needs; run: pip install 'flintmq[{extra}]'"
        )


def _check_number(name: str, text: str, number: float, place: bool) -> None:
    """Refuse a number in a form that only Python reads, such as 1_0, and a place beyond 64 bits."""
    if "_" in text or not text.isascii() or text != text.strip():
        raise UsageError(f"{name}: {shorten_text(text, 60)!r} is not a number; write digits alone")
    if place and not -INT64 <= number < INT64:
        raise UsageError(f"{name}: {shorten_text(text, 60)} does not fit 64 bits; no store has such a place")


def clamped(value: Any) -> Any:
    """Clamp numbers to 64 bits; no store has more of anything."""
    if isinstance(value, list):
        return [clamped(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-INT64, min(value, INT64 - 1))
    return value
