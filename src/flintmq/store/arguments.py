"""What callers give that is of the wrong type is said at once, by name: TypeError, before anything is looked at.

A queue id that is a text would else be a queue that nobody has, and its answer an empty one.
"""

from __future__ import annotations


def texts(**values: object) -> None:
    """Each must be a str.

    Raises:
        TypeError: it names the argument, what it got and what to give.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is of type {type(value).__name__}; give a str")


def numbers(**values: object) -> None:
    """Each must be an int, or what is one to Python (numpy's), and no bool.

    Raises:
        TypeError: it names the argument, what it got and what to give.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} is of type {type(value).__name__}; give an int")


def given_text(name: str, value: object) -> None:
    """It must be a str, or None.

    Raises:
        TypeError: as `texts`.
    """
    if value is not None:
        texts(**{name: value})


def given_number(name: str, value: object) -> None:
    """It must be an int, or None.

    Raises:
        TypeError: as `numbers`.
    """
    if value is not None:
        numbers(**{name: value})
