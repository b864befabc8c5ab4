"""`flintmq spark rebuild`, and the engine `spark` of `flintmq rebuild`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.cli.commands import rebuild
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    AccessOption,
    JsonOption,
    MasterOption,
    OutOption,
    PeerOption,
    SetOption,
    StoreArgument,
    examples,
)

if TYPE_CHECKING:
    from flintmq.cli.output import Output
    from flintmq.config.keys import StoreConfig
    from flintmq.forensics.rebuild import Rebuilt

EPILOG = examples(
    "flintmq spark rebuild /var/rocketmq/store --out /tmp/rebuilt",
    "flintmq spark rebuild /var/rocketmq/store --out /tmp/rebuilt --master 'local[4]' --json",
)


def command(
    store: StoreArgument,
    into: OutOption,
    peer: PeerOption = "5.3.3",
    master: MasterOption = None,
    access: AccessOption = "pread",
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Rebuild queues and index with many workers.

    The same as flintmq rebuild --engine spark; the bytes equal those of the local engine.
    """
    return rebuild.command(store, into, "spark", peer, master, access, settings, as_json)


def rebuild_on_spark(
    out: Output, master: str | None, store: str, into: str, config: StoreConfig, peer: str, access: str
) -> Rebuilt:
    """Rebuild a store in a Spark session of its own."""
    from flintmq.spark.jobs import rebuild as job

    with spark_job("rebuild", master, out) as (spark, progress):
        return job.rebuild(spark, store, into, config, peer, progress, access)
