"""`flintmq spark export`: messages to Parquet, Delta or Iceberg, once or as a stream."""

from __future__ import annotations

from flintmq.cli.lake.export_options import ExportWords, render
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import JsonOption, MasterOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq spark export /var/rocketmq/store --out /tmp/lake --to delta --follow --interval 30",
)


def command(
    words: ExportWords, master: MasterOption = None, settings: SetOption = None, as_json: JsonOption = False
) -> int:
    """Export messages to Parquet, Delta or Iceberg.

    Writes files by topic and date; a second run adds only new messages. All files of a run, or of a micro-batch with
    --follow, appear at once or none. The columns are those of the schema.
    """
    out, config = output(as_json), store_config(settings)
    words = words.checked(config)
    with spark_job("export", master, out) as (spark, progress):
        from flintmq.spark.jobs.tasks import SparkWorkers

        done = words.run(config, SparkWorkers(spark), out, progress)
    out.result(done, lambda value: render(value, words.into, words.upsert_key))
    return done.exit_code
