"""Connects stores to Spark: the source `flintmq`, a session that has it, and the jobs.

Importing this needs neither PySpark nor Java; using it does (`pip install 'flintmq[spark]'`).

source      implements the source and sink `flintmq`
session     makes a session that has the source
packing     packs the package for workers that have none
java        finds a Java that Spark can run on
versions    refuses a Spark that it was not tried with
tables      makes a store a table of Spark's own catalog
door        a source in the JVM, and the catalog: what they ask in Python
schema      converts the schema to Spark's types, and checks it
pushdown    converts the filters that Spark offers
history     reads a table of exports and its stores as one
views       offers queues, consumer groups, the index and what waits in a store as tables
failing     shows errors to Spark's user in one line
part        holds the parts of a plan, one a task, and reads their rows
worker      prepares a worker process

stream      reads a store as a stream
sink        puts DataFrames into a store, each batch once
jobs        processes ranges of a log: rebuild, verify, export, replay, dispatch, stats, trace
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flintmq.spark.packing import pack
from flintmq.spark.session import register, session
from flintmq.spark.worker import expect_hanging_up

if TYPE_CHECKING:
    from flintmq.spark.jobs.dispatch.job import dispatch
    from flintmq.spark.jobs.export.job import export, export_stream
    from flintmq.spark.jobs.rebuild import rebuild
    from flintmq.spark.jobs.replay.job import replay
    from flintmq.spark.jobs.stats.job import stats
    from flintmq.spark.jobs.trace import trace
    from flintmq.spark.jobs.verify import verify
    from flintmq.spark.source import FlintMQSource
    from flintmq.spark.tables import table

__all__ = [
    "FlintMQSource", "dispatch", "export", "export_stream", "pack", "rebuild", "register", "replay", "session",
    "stats", "table", "trace", "verify",
]  # fmt: skip
_LAZY = {
    "FlintMQSource": "source",
    "export_stream": "jobs.export.job",
    "rebuild": "jobs.rebuild",
    "table": "tables",
    "trace": "jobs.trace",
    "verify": "jobs.verify",
    **{name: f"jobs.{name}.job" for name in ("dispatch", "export", "replay", "stats")},
}

expect_hanging_up()  # every worker that has anything of ours comes by here


def __getattr__(name: str) -> Any:
    """Load the source and the jobs when they are first used, because they need PySpark."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
