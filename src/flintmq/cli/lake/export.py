"""`flintmq export`: messages to a table without Spark, once or as they come."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli.declare import Option
from flintmq.cli.lake.export_options import ExportWords, render
from flintmq.cli.options import JsonOption, SetOption, examples
from flintmq.cli.output import output
from flintmq.cli.parser import need
from flintmq.cli.values import store_config

EPILOG = examples(
    "flintmq export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq export /var/rocketmq/store --out /tmp/lake --to delta --follow --interval 30",
)


def command(
    words: ExportWords,
    threads: Annotated[
        int, Option("--threads N", "Threads, each with some 150 MiB; 0: one a core.", min=0, max=64)
    ] = 0,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Export messages to Parquet, Delta or Iceberg, without Spark.

    Writes files by topic and date; a second run adds only new messages, also to what `flintmq spark export` began. All
    files of a run, or of a micro-batch with --follow, appear at once or none, so Ctrl-C loses nothing.
    """
    need("pyarrow", "arrow")
    from flintmq.lake.export.workers import Threads

    out, config = output(as_json), store_config(settings)
    words = words.checked(config)
    with out.progress("exporting") as progress:
        done = words.run(config, Threads(threads), out, progress)
    out.result(done, lambda value: render(value, words.into, words.upsert_key))
    return done.exit_code
