"""`flintmq spark diff`: a store and its table compared with many workers."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.commands import diff
from flintmq.cli.declare import Argument
from flintmq.cli.export_options import CatalogOption
from flintmq.cli.options import JsonOption, MasterOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.spark_job import spark_job
from flintmq.cli.values import store_config
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq spark diff /var/rocketmq/store /tmp/lake",
    "flintmq spark diff /var/rocketmq/store /tmp/lake --master 'local[4]' --json",
)


def command(
    store: Annotated[str, Argument(metavar="STORE", show_default=False, help="A store's directory, or a pattern.")],
    table: Annotated[str, Argument(metavar="TABLE", show_default=False, help="The table of its exports.")],
    catalog: CatalogOption = None,
    master: MasterOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare a store with the table of its exports.

    The same as flintmq diff; each worker compares ranges of the log. The exit code is 1 if something differs.
    """
    from flintmq.lake.diff_table import compare_table
    from flintmq.lake.table_format import format_of
    from flintmq.spark.jobs.tasks import SparkWorkers

    out, config = output(as_json), store_config(settings)
    if catalog is None and format_of(table) is None:
        raise UsageError(f"{table} holds no table that an export made; flintmq diff compares two stores")
    with spark_job("diff", master, out) as (spark, progress):
        found = compare_table(store, table, config, catalog=catalog, workers=SparkWorkers(spark), progress=progress)
    diff.print_table(out, found)
    return found.exit_code
