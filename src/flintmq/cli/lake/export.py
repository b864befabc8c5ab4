"""`flintmq export`: messages to a table without Spark, once or as they come."""

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
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    SetOption,
    SkipDamageOption,
    StoresArgument,
    TopicsOption,
    examples,
    interval_option,
)
from flintmq.cli.output import output
from flintmq.cli.parser import need
from flintmq.cli.values import store_config, stores_given
from flintmq.errors import UsageError

EPILOG = examples(
    "flintmq export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq export /var/rocketmq/store --out /tmp/lake --to delta --follow --interval 30",
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
    follow: Annotated[
        bool, Option("--follow", "Continue with new messages until SIGINT or SIGTERM; see --once.")
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

    out, config, root = output(as_json), store_config(settings), stores_given(stores)
    into = outside_stores(into, (checkpoint, dead_letters), root, config)
    if not follow and (once or interval is not None or max_offsets is not None):
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
    if follow:
        from flintmq.lake.export.export_stream import export_stream

        done = export_stream(
            root,
            into,
            config,
            workers=Threads(threads),
            max_offsets=max_offsets,
            interval_s=INTERVAL_S if interval is None else interval,
            once=once,
            stop=signals.stop_event(),
            on_batch=lambda done: out.note(batch_line(done)),
            **choices,
        )
    else:
        from flintmq.lake.export.export_once import export

        with out.progress("exporting") as progress:
            done = export(root, into, config, workers=Threads(threads), progress=progress, **choices)
    out.result(done, lambda value: render(value, into))
    return done.exit_code
