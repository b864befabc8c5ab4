"""Refuses arguments of a wrong type by name, with TypeError, before anything else is done.

Otherwise a queue id that is a text would name a queue that does not exist, and the answer would be empty.
"""

from __future__ import annotations

import operator
from typing import cast


def texts(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is of type {type(value).__name__}; give a str")


def flags(**values: object) -> None:
    """Refuse what is neither True nor False: the text "no" would count as yes.

    numpy's bool, which is called bool too, is refused with its module: what is kept is written as JSON.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            kind = type(value)
            home = "numpy." if kind.__module__ == "numpy" else ""
            raise TypeError(f"{name} is of type {home}{kind.__name__}; give True or False")


def number(name: str, value: object) -> int:
    """Return a number as a plain int: an int or what converts to one (numpy's), but no bool.

    Sums of numpy's small integers overflow, and what is kept is written as JSON, which has none of them.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is of type {type(value).__name__}; give an int")
    return operator.index(cast(int, value))


def numbers(**values: object) -> tuple[int, ...]:
    return tuple(number(name, value) for name, value in values.items())


def function(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a function")


def given_text(name: str, value: object) -> None:
    if value is not None:
        texts(**{name: value})


def given_number(name: str, value: object) -> int | None:
    return None if value is None else number(name, value)
