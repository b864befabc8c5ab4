"""`flintmq spark stats`: a store's traffic as figures and as a page, counted on Spark."""

from __future__ import annotations

from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.lake.stats_options import StatsWords, show
from flintmq.cli.options import JsonOption, MasterOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq spark stats /var/rocketmq/store --out report.html",
    "flintmq spark stats /var/rocketmq/store --since -1d --topic Orders --json",
)


def command(
    words: StatsWords, master: MasterOption = None, settings: SetOption = None, as_json: JsonOption = False
) -> int:
    """Make a page of HTML: rates, sizes, latency, queues, lag.

    The figures and the page are those of `flintmq stats`, counted by many workers. One pass over the log counts
    everything, at rest or while it is written.
    """
    from flintmq.spark.jobs.stats.job import stats

    out, asked = output(as_json), words.asked(store_config(settings))
    with spark_job("stats", master, out) as (spark, progress):
        found = stats(spark, progress=progress, **asked)
    return show(found, out, words.out)
