"""`flintmq spark export`: messages to Parquet or Delta, once or as a stream."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from flintmq.cli import signals
from flintmq.cli.declare import Option
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    MasterOption,
    SetOption,
    SkipDamageOption,
    StoreArgument,
    TopicsOption,
    examples,
    interval_option,
    once_option,
)
from flintmq.cli.output import output
from flintmq.cli.spark_job import spark_job
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import parse_partitions, parse_size, store_config
from flintmq.errors import UsageError

if TYPE_CHECKING:
    from flintmq.lake.export import ExportChoices, Exported

EPILOG = examples(
    "flintmq spark export /var/rocketmq/store --to parquet --out /tmp/lake",
    "flintmq spark export /var/rocketmq/store --out /tmp/lake --to delta --stream --interval 30",
)


class TargetFormat(enum.StrEnum):
    """The format of an export."""

    parquet = "parquet"
    delta = "delta"


class Codec(enum.StrEnum):
    """Parquet's compression."""

    snappy = "snappy"
    zstd = "zstd"
    lz4 = "lz4"
    gzip = "gzip"
    none = "none"


class Body(enum.StrEnum):
    """The form of exported bodies."""

    bytes = "bytes"
    text = "text"
    json = "json"


def command(
    store: StoreArgument,
    into: Annotated[
        str, Option("--out", metavar="DIR", show_default=False, help="Directory of files; created if missing.")
    ],
    to: Annotated[TargetFormat, Option("--to", metavar="FORMAT", help="parquet or delta.")] = TargetFormat.parquet,
    topic: TopicsOption = None,
    compression: Annotated[
        Codec, Option("--compression", metavar="CODEC", help="snappy, zstd, lz4, gzip or none.")
    ] = Codec.snappy,
    decompress: DecompressOption = False,
    explode: Annotated[bool, Option("--explode", help="Each message of an inner batch as a row of its own.")] = False,
    skip_damage: SkipDamageOption = False,
    stream: Annotated[
        bool, Option("--stream", help="Continue with new messages until SIGINT or SIGTERM; see --once.")
    ] = False,
    once: Annotated[bool, once_option("With --stream: end at the present end of the log.")] = False,
    interval: Annotated[float, interval_option("With --stream: seconds between micro-batches.")] = 10.0,
    max_offsets: Annotated[
        int | None,
        Option("--max-offsets", metavar="N", min=1, show_default=False, help="Most messages of a micro-batch."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        Option(
            "--property",
            metavar="NAME[:COLUMN]",
            show_default=False,
            help="This property as a column of text, instead of the map of all. May be repeated.",
        ),
    ] = None,
    body: Annotated[Body, Option("--body", metavar="FORM", help="Bodies as bytes, text or json.")] = Body.bytes,
    body_schema: Annotated[
        str | None,
        Option("--body-schema", metavar="DDL|FILE", show_default=False, help="The schema of --body json."),
    ] = None,
    target_file_size: Annotated[
        str | None,
        Option(
            "--target-file-size", metavar="SIZE", show_default=False, help="Approximate size of files, such as 128MiB."
        ),
    ] = None,
    partition_by: Annotated[
        str, Option("--partition-by", metavar="COLUMNS", help="topic_name,date or one of them, or none.")
    ] = "topic_name,date",
    checkpoint: Annotated[
        str | None,
        Option("--checkpoint", metavar="DIR", show_default=False, help="Keep a copy of the export's progress there."),
    ] = None,
    master: MasterOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Export messages to Parquet or Delta.

    Writes files by topic and date; a second run adds only new messages. All files of a run, or of a micro-batch with
    --stream, appear at once or none. The columns are those of the schema.
    """
    from flintmq.storage.store_url import outside_store

    out, config = output(as_json), store_config(settings)
    into = outside_store(into, store, config)  # before Spark starts
    if checkpoint is not None:
        outside_store(checkpoint, store, config)
    if not stream and (once or max_offsets is not None):
        raise UsageError("--once and --max-offsets are for --stream; an export without it ends at the end of the log")
    choices: ExportChoices = {
        "topics": topic or None,
        "decompress": decompress,
        "explode": explode,
        "fail_on_data_loss": not skip_damage,
        "to": to.value,
        "compression": compression.value,
        "target_file_size": None if target_file_size is None else parse_size("--target-file-size", target_file_size),
        "properties": properties or None,
        "body": body.value,
        "body_schema": body_schema,
        "partition_by": parse_partitions(partition_by),
        "checkpoint": checkpoint,
    }
    with spark_job("export", master, out) as (spark, progress):
        if stream:
            from flintmq.spark.jobs.export.stream import export_stream

            done = export_stream(
                spark,
                store,
                into,
                config,
                max_offsets=max_offsets,
                interval_s=interval,
                once=once,
                stop=signals.stop_event(),
                on_batch=lambda done: out.note(f"export={done.number}: {done.rows} rows up to log offset {done.end}"),
                **choices,
            )
        else:
            from flintmq.spark.jobs.export.job import export

            done = export(spark, store, into, config, progress=progress, **choices)
    out.result(done, lambda value: _render(value, into))
    return 1 if done.damages else 0


def _render(done: Exported, into: str) -> Iterable[Any]:
    if not done.number:
        yield f"nothing new up to log offset {done.end}"
    else:
        yield f"exported {done.rows} rows in {done.files} files, {size(done.bytes)}"
        yield f"log      offsets {done.begin} to {done.end}"
    if done.damages:
        yield f"skipped {done.damages} damaged places, {done.lost_bytes} bytes"
    if done.bad_bodies:
        yield f"bodies   {done.bad_bodies} could not be converted; their bytes are in the column body_raw"
    yield from note_lines(done.notes)
    yield f"result   {printable(into)}"
