"""What kernels that run uncompiled use of the module `cython`: types that convert, and marks that do nothing.

The compiler knows that module by itself, and compiled kernels load none. So an installation needs no Cython: it is
asked for at build time only. `_select` gives this module to kernels under the name `cython` while they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False
NULL = None


class CType:
    """A C type: called it converts as Python does, with brackets or within another type it is itself."""

    def __init__(self, convert: Callable[..., Any]) -> None:
        self.convert = convert

    def __call__(self, *args: Any) -> Any:
        """The value as this type has it."""
        return self.convert(*args)

    def __getitem__(self, item: object) -> CType:
        """An array or a view of it."""
        return self


class NoEffect:
    """A decorator, also with arguments, and a block: all without effect."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What is decorated, or the decorator."""
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __enter__(self) -> NoEffect:
        """Begin the block."""
        return self

    def __exit__(self, *args: object) -> None:
        """End the block."""


def _same(*args: Any) -> Any:
    return args[0] if args else None


int = longlong = ulonglong = uint = uchar = Py_ssize_t = size_t = CType(int)
bint = CType(bool)
double = CType(float)
p_uchar = p_char = const = CType(_same)
nogil = cfunc = inline = final = cclass = no_gc = freelist = exceptval = boundscheck = NoEffect()


def pointer(to: object) -> CType:
    """The type of a pointer."""
    return p_uchar


def address(of: T) -> T:
    """What is pointed to: without a compiler an index stands beside it."""
    return of


def cast(to: Callable[..., Any], value: Any) -> Any:
    """A value as another type."""
    return value if isinstance(to, type) and isinstance(value, to) else to(value)


def declare(kind: Callable[..., Any], *value: Any, visibility: str = "") -> Any:
    """A variable's first value."""
    return kind(*value)


def sizeof(kind: object) -> CType:
    """Only compiled code asks for it.

    Raises:
        TypeError: always.
    """
    raise TypeError("sizeof has a meaning in compiled kernels only")
