"""Reads stores as a stream of Arrow batches: scan_arrow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from flintmq.arrow.options import BATCH_BYTES, ScanOptions
from flintmq.arrow.scan import Queue, predicate_of, read_members
from flintmq.arrow.schema import SCHEMA, VIEW_SCHEMA, narrow, of_many
from flintmq.cluster.members import Stores, find_members
from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.frames.asked import refuse_unknown_topics
from flintmq.frames.bodies import bodies_of, narrow_fields, read_rows
from flintmq.frames.history import open_history
from flintmq.store import arguments
from flintmq.store.commitlog.report import Report


def scan_arrow(
    path: Stores,
    columns: Sequence[str] | None = None,
    topics: str | Iterable[str] | None = None,
    queues: Iterable[Queue] | None = None,
    since: int | datetime | None = None,
    until: int | datetime | None = None,
    tags: str | Iterable[str] | None = None,
    *,
    decompress: bool = False,
    access: str = "pread",
    config: StoreConfig | str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    begin: int | None = None,
    end: int | None = None,
    strict: bool = True,
    report: Report | None = None,
    batch_bytes: int = BATCH_BYTES,
    threads: int = 1,
    views: bool = False,
    history: str | os.PathLike[str] | None = None,
    catalog: str | None = None,
    body: str = "bytes",
    body_schema: str | os.PathLike[str] | None = None,
    body_message: str | None = None,
    body_head: bool = False,
    schema_registry: str | None = None,
) -> pa.RecordBatchReader:
    """Read a store's log as a stream of Arrow record batches, in physical order.

    Only the wanted columns of the wanted records are decoded and copied, one batch at a time, so a log of any size
    takes the memory of a few batches. Zeros or a torn or stale tail at the end of the log end the stream; see `strict`
    for damage before it.

    Args:
        path: the store's directory, with `commitlog/` in it; or a URL: `s3://bucket/store`, `file:///store`. Or
            several stores: a list of these, a pattern (`/data/{broker}/store`, `/data/*/store`), or a manifest
            (`cluster.toml`). Their rows come store by store, in the order of the brokers' names.
        columns: names of columns, in the order wanted; None for all (flintmq.COLUMNS; of several stores also broker and
            store). Of a decoded body also its fields: "body.id", "body.lines.sku".
        topics: only messages of this topic or these; one that is unknown is refused. (Of a commit log alone nobody
            knows the topics before it is read.)
        queues: only messages of these: queue ids, (topic, queue id), or (topic, queue id, least queue offset, queue
            offset to stop before or None).
        since: least store time: ms since 1970, or a datetime with a time zone.
        until: store time to stop before.
        tags: only messages whose property TAGS is this or one of these.
        decompress: bodies as the producer gave them (up to 64 MiB each) instead of as stored.
        access: "pread", or "map": about twice as fast, but a file that another process shrinks kills this one.
        config: a StoreConfig or the path of a broker.conf, for settings that the files do not show.
        set: single RocketMQ keys, which override it.
        begin: log offset to begin at, that of a record.
        end: log offset to stop before; the log must reach it. Both are of one store.
        strict: fail at damage, at a body that cannot be decompressed, at an unknown topic, and where one of several
            named stores is not there; otherwise go on and report it.
        report: receives damage and notes.
        batch_bytes: approximate size of the columns of a batch; views hold up to twice as much of the log.
        threads: how many threads read. More than one takes more processor time in total, and some 30 MiB each; it can
            pay off if cores are idle. Bodies to decompress are read by one thread.
        views: bodies, tags, keys, msg_id and properties as views of the bytes read, topic, hosts and magic as
            dictionaries (the types of VIEW_SCHEMA), instead of copies. A batch, and each slice of one, then holds the
            part of the log that its rows came from; with access="map" that part stays mapped as long.
        history: directory of a table that exports made from these stores (`flintmq export`): its rows come first, then
            those of the logs that no export has yet. Columns, topics and the form of bodies are those of the table;
            see docs/guide/history.md.
        catalog: of an Iceberg table, NAME:NAMESPACE.TABLE; None: its own.
        body: "bytes"; or "text", "json", "avro", "protobuf": the column body is decoded, from what the producer gave,
            and followed by the columns body_raw and body_error, which are null unless a body does not decode (or does
            not decompress, which is no error then). Where neither is read, `report.note_counts["undecoded-body"]`
            counts these.
        body_schema: of "json" DDL ("id long, total double"), or a file or text of Spark's JSON form; without it any
            JSON, as text. Of "avro" a file .avsc, or its text; of "protobuf" a file with a descriptor set.
        body_message: of "protobuf": full name of the message; None if the file has only one.
        body_head: bodies begin with the 5 bytes of a schema registry ("avro", "protobuf").
        schema_registry: registry of the schemas that heads of "avro" name: its URL, or a directory with files ID.avsc.

    Returns:
        A pyarrow.RecordBatchReader; it can be read once. Its schema is flintmq.arrow.schema.narrow(columns), with views
        that of VIEW_SCHEMA.

    Raises:
        TypeError: a switch that is neither True nor False.
        UsageError: an unknown column, an impossible time, access, batch size or number of threads; an argument of
            another type; (strict) a topic that neither a store nor the history has; this pyarrow makes no views; one
            name for two brokers, a manifest that is not understood, log offsets of several stores; (history) no such
            table, one of other stores, or an argument that does not apply to it; (body) no form, no schema, or views;
            (while reading) `begin` is not the offset of a record.
        ConfigError: an unknown RocketMQ key, or an impossible value.
        NotAStoreError, UnsupportedFormatError: the path is not a store that FlintMQ reads.
        StoreAccessError: a file may not be read (also while reading).
        CorruptStoreError: (while reading, strict) damage, with file and position.
        StoreError: (history, while reading) messages expired that no export has.
        MissingExtraError: (while reading) a body needs a decompressor that is not installed; (history, body) the
            package of the table's format, or of the bodies', is missing.

    Thread: a reader belongs to one thread at a time.
    """
    arguments.flags(decompress=decompress, strict=strict, views=views)
    checked, report = StoreConfig.of(config, set), report if report is not None else Report()
    bodies = bodies_of(body, body_schema, body_message, body_head, schema_registry, views)
    whole = VIEW_SCHEMA if views else SCHEMA
    predicate = predicate_of(topics, queues, since, until, tags)
    options = ScanOptions(
        decompress=decompress or bodies is not None,
        strict=strict,
        batch_bytes=batch_bytes,
        begin=0 if begin is None else begin,
        end=end,
        access=access,
        threads=threads,
    )
    if history is not None:
        switches = {"views": views or None, "decompress": decompress or None, "body": bodies}
        left_out = {"begin": begin, "end": end, **switches}
        with_history = open_history(path, history, predicate, options, checked, catalog, left_out)
        with_history.refuse_unknown_topics(predicate, report)
        return with_history.read(narrow(columns, with_history.schema), predicate, report)
    members = find_members(path, checked, strict=strict, report=report)
    many = bool(members[0].words)
    if many and (begin is not None or end is not None):
        raise UsageError("begin and end are log offsets of one store; read several by since and until")
    refuse_unknown_topics([member.path for member in members], predicate, checked, strict, report)
    whole = of_many(whole, many)
    wanted = narrow(columns, whole) if bodies is None else narrow_fields(columns, bodies.schema(whole))

    def read(inner: pa.Schema, own: Report) -> pa.RecordBatchReader:
        return read_members(members, inner, predicate, options, checked, own)

    return read_rows(bodies, wanted, whole, read, report)
