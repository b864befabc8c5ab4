"""Replaces the module `cython` in kernels that run uncompiled: its types only convert.

The compiler knows that module itself, and compiled kernels import none. So an installation needs no Cython, only a
build does. `_select` gives this module to kernels under the name `cython` while they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, SupportsIndex, TypeVar

T = TypeVar("T")

compiled = False
NULL = None


class CType:
    """A C type. A call converts as Python does; with a slice, or nested, it is itself."""

    def __init__(self, convert: Callable[..., Any]) -> None:
        self.convert = convert

    def __call__(self, *args: Any) -> Any:
        """Convert a value to this type."""
        return self.convert(*args)

    def __getitem__(self, item: object) -> CType:
        """Return the type of an array, which begins as zeros, or of a view."""
        return CType(lambda: [0] * index(item)) if isinstance(item, SupportsIndex) else self


class NoEffect:
    """A decorator, also with arguments, and a block, all without effect."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the decorated function, or the decorator."""
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
nogil = cfunc = inline = final = cclass = no_gc = no_gc_clear = freelist = exceptval = boundscheck = NoEffect()
critical_section = NoEffect()  # only where Python has no GIL does a compiled one take a lock


def pointer(to: object) -> CType:
    """Return the type of a pointer."""
    return p_uchar


def address(of: T) -> T:
    """Return the object itself: code that runs uncompiled passes the index beside it."""
    return of


def cast(to: Callable[..., Any], value: Any) -> Any:
    """Convert a value to another type."""
    return value if isinstance(to, type) and isinstance(value, to) else to(value)


def declare(kind: Callable[..., Any], *value: Any, visibility: str = "") -> Any:
    """Return a variable's initial value."""
    return kind(*value)


def sizeof(kind: object) -> CType:
    """Raise TypeError: only compiled code may ask for a size.

    Raises:
        TypeError: always.
    """
    raise TypeError("sizeof has a meaning in compiled kernels only")
