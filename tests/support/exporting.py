"""The two ways of exporting, for tests of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream

Export = Callable[..., Exported]


def once(root: Any, out: Path, **choices: Any) -> Exported:
    """Export as a stream does, up to the present end."""
    return export_stream(root, str(out), once=True, **choices)


def whole(root: Any, out: Path, **choices: Any) -> Exported:
    """Export in one pass."""
    return export(root, str(out), **choices)
