"""Stores on Spark: the source `flintmq`, a session that has it, and the jobs export, verify and rebuild.

Importing this needs neither PySpark nor Java; using it does (`pip install flintmq[spark]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flintmq.spark.session import register, session

if TYPE_CHECKING:
    from flintmq.spark.source import FlintMQSource

__all__ = ["FlintMQSource", "register", "session"]


def __getattr__(name: str) -> Any:
    """`FlintMQSource` is loaded when it is asked for: it needs PySpark."""
    if name == "FlintMQSource":
        from flintmq.spark.source import FlintMQSource

        return FlintMQSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
