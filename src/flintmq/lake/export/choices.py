"""Declares the keywords of an export, and names their options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypedDict, get_args, get_type_hints

from flintmq.config.keys import StoreConfig
from flintmq.storage.files.store_url import outside_store
from flintmq.store import arguments


class ExportChoices(TypedDict, total=False):
    """Declares the keywords of an export, in one pass or streaming.

    Attributes:
        topics: only these.
        decompress: bodies as the producer gave them; always so unless `body` is "bytes".
        explode: each message of an inner batch becomes a row.
        fail_on_data_loss: damage in the log is an error (the default); otherwise it is skipped and counted.
        to: "parquet"; "delta" or "iceberg": such a table.
        compression: a Parquet codec; "snappy" by default.
        target_file_size: approximate bytes of files of one topic and date; None: no target.
        properties: NAME or NAME:COLUMN, each a column of text instead of the map `properties`.
        body, body_schema, body_message, body_head, schema_registry: the form of bodies: name, schema, message, head and
            registry of `BodyForm.parse`; "bytes" by default.
        upsert_key: columns of bodies; the table has the last row of each key, and no messages, see
            `lake/shape/changes.py`. None: a table of messages.
        delete_when: "debezium" or "canal", whose changes the bodies are; COLUMN=VALUE of rows that delete.
        dead_letters: a directory for the messages whose bodies do not decode, see `lake/shape/dead_letters.py`.
        partition_by: columns in which all rows of a directory agree: "topic_name", "date", both (the default) or
            neither. Without "topic_name" many topics share a file.
        checkpoint: a directory for a copy of the export's progress, see `lake/export/checkpoint.py`.
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE in a catalog that PyIceberg is configured for; None: a
            catalog of its own in the table's directory.
        access: "pread" or "map".
    """

    topics: Annotated[Sequence[str] | None, None]
    decompress: Annotated[bool, False]
    explode: Annotated[bool, False]
    fail_on_data_loss: Annotated[bool, True]
    to: Annotated[str, "parquet"]
    compression: Annotated[str, "snappy"]
    target_file_size: Annotated[int | None, None]
    properties: Annotated[Sequence[str] | None, None]
    body: Annotated[str, "bytes"]
    body_schema: Annotated[str | None, None]
    body_message: Annotated[str | None, None]
    body_head: Annotated[bool, False]
    schema_registry: Annotated[str | None, None]
    upsert_key: Annotated[Sequence[str] | None, None]
    delete_when: Annotated[str | None, None]
    dead_letters: Annotated[str | None, None]
    partition_by: Annotated[Sequence[str], ("topic_name", "date")]
    checkpoint: Annotated[str | None, None]
    catalog: Annotated[str | None, None]
    access: Annotated[str, "pread"]


def complete(choices: ExportChoices) -> ExportChoices:
    """Return the keywords with the defaults of those that are not given.

    Raises TypeError: an unknown keyword, or a switch that is neither True nor False.
    """
    usual: Any = {name: get_args(hint)[1] for name, hint in get_type_hints(ExportChoices, include_extras=True).items()}
    unknown = choices.keys() - usual.keys()
    if unknown:
        raise TypeError(f"an export has no keyword {min(unknown)!r}")
    found: ExportChoices = usual | choices
    arguments.flags(**{name: given for name, given in found.items() if isinstance(usual[name], bool)})
    return found


def refuse_inside(stores: Iterable[str], out: str, beside: Iterable[str | None], config: StoreConfig | None) -> None:
    """Refuse a table, and other directories of an export, that are in one of the stores."""
    for path in stores:
        outside_store(out, path, config, urls=True)
        for place in filter(None, beside):
            outside_store(place, path, config)


def option_of(keyword: str) -> str:
    one_value = {"topics": "topic", "properties": "property"}.get(keyword, keyword)
    return f"--{one_value.replace('_', '-')}"
