"""Gives one module another clock.

To change `sleep` of a module's `time` would change it for every thread of the process: Py4J's, which waits by it in a
loop, spun then, and filled 19 GB with what a test noted of its sleeps. `tests/test_tidy.py` looks for such changes.
"""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def own_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., Any]) -> None:
    """Replace functions of `time` for one module, which says `import time`; all others stay."""
    there = getattr(module, "time")  # noqa: B009  (of a module whose type does not have it)
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(there), **functions}))
