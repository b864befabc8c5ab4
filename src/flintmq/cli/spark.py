"""The group `flintmq spark`: verify and rebuild here, other jobs in their own modules."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.cli import rebuild, spark_dispatch, spark_replay, spark_sink, spark_stats
from flintmq.cli.options import (
    Access,
    AccessOption,
    IntoOption,
    JsonOption,
    MasterOption,
    Peer,
    PeerOption,
    SetOption,
    StoreArgument,
    examples,
)
from flintmq.cli.output import output
from flintmq.cli.spark_export import EPILOG as EXPORT_EPILOG
from flintmq.cli.spark_export import export_command
from flintmq.cli.spark_job import spark_job
from flintmq.cli.values import store_config
from flintmq.cli.verify import print_verification

HELP = "Jobs on Spark, for large stores: export, rebuild and more."
EPILOG = examples(
    "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq spark rebuild /var/rocketmq/store --into /tmp/rebuilt --master 'local[4]'",
)


def rebuild_command(
    store: StoreArgument,
    into: IntoOption,
    peer: PeerOption = Peer.v533,
    master: MasterOption = None,
    access: AccessOption = Access.pread,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rebuild queues and index with many workers.

    The same as flintmq rebuild --engine spark; the bytes equal those of the local engine.
    """
    return rebuild.command(store, into, rebuild.Engine.spark, peer, master, access, settings, as_json)


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
    "dispatch": (spark_dispatch.command, spark_dispatch.EPILOG),
    "export": (export_command, EXPORT_EPILOG),
    "verify": (
        verify_command,
        examples("flintmq spark verify /var/rocketmq/store", "flintmq spark verify /var/rocketmq/store --json"),
    ),
    "rebuild": (
        rebuild_command,
        examples(
            "flintmq spark rebuild /var/rocketmq/store --into /tmp/rebuilt",
            "flintmq spark rebuild /var/rocketmq/store --into /tmp/rebuilt --master 'local[4]' --json",
        ),
    ),
    "replay": (spark_replay.command, spark_replay.EPILOG),
    "sink": (spark_sink.command, spark_sink.EPILOG),
    "stats": (spark_stats.command, spark_stats.EPILOG),
}
"""Name of each job's command -> its function and its examples."""
