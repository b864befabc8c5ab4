"""Shortens the traceback of errors that Spark shows to its user.

Spark prints the traceback before the sentence that says what the user can do. The frames of this library do not help
the user, so a method that Spark calls raises FlintMQ's errors anew from one frame. Other errors are bugs of ours and
keep their frames.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeVar

from flintmq.errors import FlintError

Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Item = TypeVar("Item")


def from_one_frame(method: Callable[Args, Answer]) -> Callable[Args, Answer]:
    """Make a method that Spark calls raise FlintMQ's errors from one frame."""

    @wraps(method)
    def called(*args: Args.args, **named: Args.kwargs) -> Answer:
        try:
            return method(*args, **named)
        except FlintError as error:
            raise error.with_traceback(None) from None

    return called


def rows_from_one_frame(
    method: Callable[Args, Generator[Item, None, None]],
) -> Callable[Args, Generator[Item, None, None]]:
    """Make a generator that Spark reads raise FlintMQ's errors from one frame."""

    @wraps(method)
    def called(*args: Args.args, **named: Args.kwargs) -> Generator[Item, None, None]:
        try:
            yield from method(*args, **named)
        except FlintError as error:
            raise error.with_traceback(None) from None

    return called
