"""Formats tracebacks without the directory of this machine's checkout."""

from __future__ import annotations

import os
import traceback
from typing import Final

import flintmq

_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(flintmq.__file__))), "")
_TESTS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")


def portable_traceback() -> str:
    """Return the traceback of the exception that is handled, with paths from the package or from tests/ on."""
    return traceback.format_exc().replace(_PACKAGE, "").replace(_TESTS, "")
