"""`flintmq spark export`: messages to Parquet, Delta or Iceberg, once or as a stream."""

from __future__ import annotations

from typing import Annotated

from flintmq.cli import signals
from flintmq.cli.declare import Option
from flintmq.cli.lake.export_options import (
    INTERVAL_S,
    PARTITION_DEFAULT,
    BodyHeadOption,
    BodyMessageOption,
    BodyOption,
    BodySchemaOption,
    CatalogOption,
    CheckpointOption,
    CompressionOption,
    DeadLettersOption,
    ExplodeOption,
    FileSizeOption,
    PartitionOption,
    PropertiesOption,
    RegistryOption,
    TableOption,
    ToOption,
    batch_line,
    choices_of,
    max_offsets_option,
    outside_stores,
    render,
)
from flintmq.cli.lake.spark_job import spark_job
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    MasterOption,
    SetOption,
    SkipDamageOption,
    StoresArgument,
    TopicsOption,
    examples,
    interval_option,
)
from flintmq.cli.output import output
from flintmq.cli.values import store_config, stores_given
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq spark export /var/rocketmq/store --out /tmp/lake --to delta --follow --interval 30",
)


def command(
    stores: StoresArgument,
    into: TableOption,
    to: ToOption = "parquet",
    topic: TopicsOption = None,
    compression: CompressionOption = "snappy",
    decompress: DecompressOption = False,
    explode: ExplodeOption = False,
    skip_damage: SkipDamageOption = False,
    stream: Annotated[
        bool, Option("--follow", "Continue with new messages until SIGINT or SIGTERM; see --once.", old=("--stream",))
    ] = False,
    once: Annotated[bool, Option("--once", "With --follow: end at the present end of the log.")] = False,
    interval: Annotated[float | None, interval_option("With --follow: seconds between micro-batches (10).")] = None,
    max_offsets: Annotated[int | None, max_offsets_option("Most messages of a micro-batch.")] = None,
    properties: PropertiesOption = None,
    body: BodyOption = "bytes",
    body_schema: BodySchemaOption = None,
    body_message: BodyMessageOption = None,
    body_head: BodyHeadOption = False,
    schema_registry: RegistryOption = None,
    dead_letters: DeadLettersOption = None,
    target_file_size: FileSizeOption = None,
    partition_by: PartitionOption = PARTITION_DEFAULT,
    checkpoint: CheckpointOption = None,
    catalog: CatalogOption = None,
    master: MasterOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Export messages to Parquet, Delta or Iceberg.

    Writes files by topic and date; a second run adds only new messages. All files of a run, or of a micro-batch with
    --follow, appear at once or none. The columns are those of the schema.
    """
    out, config, root = output(as_json), store_config(settings), stores_given(stores)
    into = outside_stores(into, (checkpoint, dead_letters), root, config)  # before Spark starts
    if not stream and (once or interval is not None or max_offsets is not None):
        raise UsageError(
            "--once, --interval and --max-offsets are for --follow; an export without it ends at the end of the log"
        )
    choices = choices_of(
        topic=topic,
        decompress=decompress,
        explode=explode,
        skip_damage=skip_damage,
        to=to,
        compression=compression,
        target_file_size=target_file_size,
        properties=properties,
        body=body,
        body_schema=body_schema,
        body_message=body_message,
        body_head=body_head,
        schema_registry=schema_registry,
        dead_letters=dead_letters,
        partition_by=partition_by,
        checkpoint=checkpoint,
        catalog=catalog,
    )
    with spark_job("export", master, out) as (spark, progress):
        if stream:
            from flintmq.spark.jobs.export.stream import export_stream

            done = export_stream(
                spark,
                root,
                into,
                config,
                max_offsets=max_offsets,
                interval_s=INTERVAL_S if interval is None else interval,
                once=once,
                stop=signals.stop_event(),
                on_batch=lambda done: out.note(batch_line(done)),
                **choices,
            )
        else:
            from flintmq.spark.jobs.export.job import export

            done = export(spark, root, into, config, progress=progress, **choices)
    out.result(done, lambda value: render(value, into))
    return done.exit_code
