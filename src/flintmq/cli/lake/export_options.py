"""Options of `flintmq export` and `flintmq spark export`, and what both print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from flintmq.cli.declare import Option
from flintmq.cli.options import catalog_option, out_option
from flintmq.cli.text import note_lines, printable, size
from flintmq.cli.values import parse_partitions, parse_size, paths_of

if TYPE_CHECKING:
    from flintmq.cluster.members import Stores
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.export.export import ExportChoices, Exported

TargetFormat = Literal["parquet", "delta", "iceberg"]
"""The format of an export."""
Codec = Literal["snappy", "zstd", "lz4", "gzip", "none"]
"""Parquet's compression."""
Body = Literal["bytes", "text", "json", "avro", "protobuf"]
"""The form of exported bodies."""
TableOption = Annotated[str, out_option("The table: a directory, made if missing, or a URL.", "TABLE", old=())]
ToOption = Annotated[TargetFormat, Option("--to FORMAT", "parquet, delta or iceberg.")]
CompressionOption = Annotated[Codec, Option("--compression CODEC", "snappy, zstd, lz4, gzip or none.")]
ExplodeOption = Annotated[bool, Option("--explode", "Each message of an inner batch as a row of its own.")]
PropertiesOption = Annotated[
    list[str] | None,
    Option(
        "--property NAME[:COLUMN]",
        "This property as a column of text, instead of the map of all. May be repeated.",
        text=True,
    ),
]
BodyOption = Annotated[Body, Option("--body FORM", "Bodies as bytes, text, json, avro or protobuf.", old=("--bodies",))]
BodySchemaOption = Annotated[str | None, Option("--body-schema DDL|FILE", "Schema of --body json, avro or protobuf.")]
BodyMessageOption = Annotated[str | None, Option("--body-message NAME", "Full name of the message of --body protobuf.")]
BodyHeadOption = Annotated[
    bool, Option("--body-head", "Bodies begin with the 5 bytes of a schema registry (avro, protobuf).")
]
RegistryOption = Annotated[
    str | None,
    Option(
        "--schema-registry URL|DIR",
        "Registry of the schemas that heads of --body avro name, or a directory with ID.avsc.",
    ),
]
DeadLettersOption = Annotated[
    str | None, Option("--dead-letters DIR", "Messages whose bodies do not decode go there too, with the reason.")
]
FileSizeOption = Annotated[str | None, Option("--target-file-size SIZE", "Approximate size of files, such as 128MiB.")]
PartitionOption = Annotated[str, Option("--partition-by COLUMNS", "topic_name,date or one of them, or none.")]
CheckpointOption = Annotated[str | None, Option("--checkpoint DIR", "Keep a copy of the export's progress there.")]
CatalogOption = Annotated[str | None, catalog_option("With --to iceberg")]
BROKERS_SHOWN = 30
INTERVAL_S = 10.0
"""Seconds between micro-batches where none are given."""
PARTITION_DEFAULT = "topic_name,date"


def max_offsets_option(help: str) -> Any:
    return Option("--max-offsets N", help, min=1)


def choices_of(
    *,
    topic: list[str] | None,
    decompress: bool,
    explode: bool,
    skip_damage: bool,
    to: TargetFormat,
    compression: Codec,
    target_file_size: str | None,
    properties: list[str] | None,
    body: Body,
    body_schema: str | None,
    body_message: str | None,
    body_head: bool,
    schema_registry: str | None,
    dead_letters: str | None,
    partition_by: str,
    checkpoint: str | None,
    catalog: str | None,
) -> ExportChoices:
    """Return the keywords of an export that the options mean."""
    return {
        "topics": topic or None,
        "decompress": decompress,
        "explode": explode,
        "fail_on_data_loss": not skip_damage,
        "to": to,
        "compression": compression,
        "target_file_size": None if target_file_size is None else parse_size("--target-file-size", target_file_size),
        "properties": properties or None,
        "body": body,
        "body_schema": body_schema,
        "body_message": body_message,
        "body_head": body_head,
        "schema_registry": schema_registry,
        "dead_letters": dead_letters,
        "partition_by": parse_partitions(partition_by),
        "checkpoint": checkpoint,
        "catalog": catalog,
    }


def outside_stores(into: str, others: Iterable[str | None], stores: Stores, config: StoreConfig) -> str:
    """Refuse places inside a store that is read; return `into` as a path."""
    from flintmq.storage.store_url import outside_store, store_path

    for path in paths_of(stores, config):
        outside_store(into, path, config, urls=True)
        for place in others:
            if place is not None:
                outside_store(place, path, config)
    return store_path(into)


def offset_lines(done: Exported) -> Iterable[str]:
    """Yield the log offsets of an export, a line for each of several stores."""
    if not done.brokers:
        yield f"log      offsets {done.begin} to {done.end}"
    for broker, (begin, end) in list(done.brokers.items())[:BROKERS_SHOWN]:
        yield f"log      offsets {begin} to {end} of {printable(broker)}"
    if len(done.brokers) > BROKERS_SHOWN:
        yield f"         and of {len(done.brokers) - BROKERS_SHOWN} other brokers"


def batch_line(done: Exported) -> str:
    where = f"of {len(done.brokers)} brokers" if done.brokers else f"up to log offset {done.end}"
    return f"export={done.number}: {done.rows} rows {where}"


def render(done: Exported, into: str) -> Iterable[Any]:
    if not done.number:
        yield f"nothing new up to log offset {done.end}" if done.end else "nothing new"
    else:
        made = "" if done.rows else "; a table without rows, as there is nothing to export yet"
        yield f"exported {done.rows} rows in {done.files} files, {size(done.bytes)}{made}"
        yield from offset_lines(done)
    if done.damages:
        yield f"skipped {done.damages} damaged places, {done.lost_bytes} bytes"
    if done.bad_bodies:
        yield f"bodies   {done.bad_bodies} could not be converted; their bytes are in the column body_raw"
        for reason, count in sorted(done.bad_reasons.items()):
            yield f"         {count} {reason}"
    yield from note_lines(done.notes, done.note_texts)
    yield f"result   {printable(into)}"
