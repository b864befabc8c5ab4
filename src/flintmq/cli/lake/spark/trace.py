"""`flintmq spark trace`: what became of every message, as a table, found with many workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any

from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    JsonOption,
    MasterOption,
    SetOption,
    SkipDamageOption,
    StoresArgument,
    broker_conf_option,
    examples,
    out_option,
    topics_option,
)
from flintmq.cli.output import output
from flintmq.cli.text import printable
from flintmq.cli.values import paths_of, store_config, stores_given
from flintmq.errors import UsageError
from flintmq.storage.files.store_url import outside_store

EPILOG = examples(
    "flintmq spark trace /var/rocketmq/store --topic Orders --out /tmp/became",
    "flintmq spark trace '/data/{broker}/store' --out /tmp/became --json",
)


def command(
    stores: StoresArgument,
    out: Annotated[str, out_option("A new directory, for the table.", old=())],
    topic: Annotated[list[str] | None, topics_option("All messages of this topic. May be repeated.")] = None,
    config: Annotated[str | None, broker_conf_option("The broker's broker.conf: it says when logs expire.")] = None,
    skip_damage: SkipDamageOption = False,
    master: MasterOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tell what became of every message, as a table.

    Writes Parquet into a new directory, one row a message: the columns of flintmq trace --json, with times as
    timestamps. Prints how many messages are in which state. All topics that messages are sent to, unless --topic says
    which. The exit code is 1 where damage that was skipped may hide rows.
    """
    from flintmq.spark.jobs.tasks import telling
    from flintmq.spark.jobs.trace import trace

    root, keys, printed = stores_given(stores), store_config(settings, config), output(as_json)
    for path in paths_of(root, keys):
        outside_store(out, path, keys)
    if os.path.exists(out):
        raise UsageError(f"{out} exists; remove it or give another --out")
    with spark_job("trace", master, printed) as (spark, _), telling():
        damage = spark.sparkContext.accumulator(0)
        frame = trace(spark, root, keys, topics=topic, fail_on_data_loss=not skip_damage, damage=damage)
        frame.write.parquet(out)
        found = spark.read.parquet(out).selectExpr("state", "size(retries) > 0 AS retried", "size(dead) > 0 AS dead")
        rows = found.groupBy("state", "retried", "dead").count().collect()
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + row["count"]
    counts = {name: sum(row["count"] for row in rows if row[name]) for name in ("retried", "dead")}
    printed.result({"messages": sum(states.values()), "states": states, **counts, "out": out}, _render)
    if damage.value:
        printed.note("damaged places of the log were skipped, which may hide rows; `flintmq verify` lists them")
    return 1 if damage.value else 0


def _render(found: dict[str, Any]) -> Iterator[str]:
    states = ", ".join(f"{state}: {number}" for state, number in sorted(found["states"].items()))
    yield f"messages  {found['messages']}{f' ({states})' if states else ''}"
    yield f"of them   retried: {found['retried']}, dead letters: {found['dead']}"
    yield f"result    {printable(found['out'])}"
