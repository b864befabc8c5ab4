"""Stores on Spark: the source `flintmq`, a session that has it, and the jobs export, verify and rebuild.

Importing this needs neither PySpark nor Java; using it does (`pip install flintmq[spark]`).

source      is the source and sink `flintmq`
session     makes a session that has the source
java        finds a Java that Spark can run on
schema      is the schema as Spark has it
pushdown    takes the filters that Spark offers
queue_view  offers the queues of a store as a table
failing     brings errors to Spark's user in one line
worker      prepares a worker process

stream      reads a store as a stream
sink        puts DataFrames into a store, each batch once
jobs        goes over ranges of a log: rebuild, verify, export, replay, dispatch, stats
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
