"""The group `flintmq spark`: verify here, other jobs in their own modules."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.cli.commands.verify import print_verification
from flintmq.cli.lake.spark import diff, dispatch, export, rebuild, replay, sink, stats
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    JsonOption,
    MasterOption,
    SetOption,
    StoreArgument,
    examples,
)
from flintmq.cli.output import output
from flintmq.cli.values import store_config

HELP = "Jobs on Spark, for large stores: export, rebuild and more."
EPILOG = examples(
    "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq spark rebuild /var/rocketmq/store --into /tmp/rebuilt --master 'local[4]'",
)


def verify_command(
    store: StoreArgument, master: MasterOption = None, settings: SetOption = None, as_json: JsonOption = False
) -> int:
    """Verify a store with many workers.

    Finds the same as flintmq verify; each worker checks a range of the log.
    """
    from flintmq.spark.jobs.verify import verify

    out, config = output(as_json), store_config(settings)
    with spark_job("verify", master, out) as (spark, progress):
        found = verify(spark, store, config, progress)
    return print_verification(out, found)


COMMANDS: dict[str, tuple[Callable[..., int], str]] = {
    "diff": (diff.command, diff.EPILOG),
    "dispatch": (dispatch.command, dispatch.EPILOG),
    "export": (export.command, export.EPILOG),
    "verify": (
        verify_command,
        examples("flintmq spark verify /var/rocketmq/store", "flintmq spark verify /var/rocketmq/store --json"),
    ),
    "rebuild": (rebuild.command, rebuild.EPILOG),
    "replay": (replay.command, replay.EPILOG),
    "sink": (sink.command, sink.EPILOG),
    "stats": (stats.command, stats.EPILOG),
}
"""Name of each job's command -> its function and its examples."""
