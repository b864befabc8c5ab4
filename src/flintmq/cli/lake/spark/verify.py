"""`flintmq spark verify`: verify a store with many workers."""

from __future__ import annotations

from flintmq.cli.commands.verify import print_verification
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import JsonOption, MasterOption, SetOption, StoreArgument, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config

EPILOG = examples("flintmq spark verify /var/rocketmq/store", "flintmq spark verify /var/rocketmq/store --json")


def command(
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
