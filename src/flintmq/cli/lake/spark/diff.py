"""`flintmq spark diff`: two stores, or a store and its table, compared with many workers."""

from __future__ import annotations

from flintmq.cli.commands import diff
from flintmq.cli.commands.diff import AArgument, BArgument, ByOption, CatalogOption
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.lake.table_diff import is_table, print_table
from flintmq.cli.options import JsonOption, MasterOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq spark diff /var/rocketmq/store /tmp/copied",
    "flintmq spark diff /var/rocketmq/store /tmp/lake --master 'local[4]' --json",
)


def command(
    a: AArgument,
    b: BArgument,
    by: ByOption = "auto",
    catalog: CatalogOption = None,
    master: MasterOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two stores, or a store and its table.

    The same as flintmq diff; each worker reads ranges of the logs. The exit code is 1 if something differs. Workers
    must see the stores under the same paths.
    """
    out, config = output(as_json), store_config(settings)
    if is_table(a, b, catalog, by, config):
        from flintmq.lake.history.diff_table import compare_table
        from flintmq.spark.jobs.tasks import SparkWorkers

        with spark_job("diff", master, out) as (spark, progress):
            rows = compare_table(a, b, config, catalog=catalog, workers=SparkWorkers(spark), progress=progress)
        print_table(out, rows)
        return rows.exit_code
    from flintmq.forensics.diff.run import open_both
    from flintmq.spark.jobs.diff import compare

    open_both(a, b, config)  # what is wrong with them is said before Spark starts
    with spark_job("diff", master, out) as (spark, progress):
        found = compare(spark, a, b, config, by, progress)
    diff.print_stores(out, found)
    return found.exit_code
