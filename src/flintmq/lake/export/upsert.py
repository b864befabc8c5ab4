"""Merges the changes of an export into a table that has the last row of each key.

The files of the table that have keys of the changes are written anew, without the rows that are replaced or deleted,
and with the rows that are new. One commit puts the new files in the place of the old ones (`transactional_target.py`).

A change may come late, of a broker that is read slowly, so a row keeps where its last change is, and only a later one
replaces it. A deleted row leaves nothing in the table; so the manifest has the deletions that a late change could still
be older than: those since the time up to which every broker was read.

The manifest has the names of the columns as well: one that they lack is new in the database, and the table gets it; one
that the table lacks was dropped or renamed by somebody, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.cluster.member import ONLY
from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.lake.export.compact import FileOptions, parts_of
from flintmq.lake.shape.changes import BROKER, DELETED, OFFSET, SOURCE, TIME, ChangeForm
from flintmq.lake.shape.parquet import PartitionedWriter
from flintmq.lake.table.row_files import fitted
from flintmq.lake.table.target import Manifest, StagedFile
from flintmq.lake.table.transactional_target import TransactionalTarget
from flintmq.objects.object_file import readable
from flintmq.store.commitlog.anchor import NO_TIME

FILE_BYTES = 128 << 20  # approximate size of a table's files, as each that has a key of a change is written anew


Table = TransactionalTarget[Any]
Parts = Sequence[StagedFile]


class Merged(NamedTuple):
    files: list[StagedFile]  # new files of the table
    old: frozenset[str]  # files of the table whose place they take
    state: dict[str, Any]  # `Manifest.changes`


@dataclass(frozen=True)
class _State:
    """Holds what the changes of the next export are compared with.

    Attributes:
        source: what the rows are of, in words; None: nothing was read yet.
        times: microseconds up to which each broker was read; a later message of it counts as no earlier.
        floor: microseconds up to which every broker was read: deletions before are forgotten.
        deleted: deletions since, as changes.
    """

    source: str | None
    times: dict[str, int]
    floor: int
    deleted: pa.Table

    @classmethod
    def of(cls, form: ChangeForm, last: Manifest | None) -> _State:
        kept = None if last is None else last.changes
        if kept is None:
            return cls(None, {}, 0, form.staged().empty_table())
        texts = {name: pa.array(values, pa.string()) for name, values in kept["deleted"].items()}
        rows = pa.table({name: values.cast(form.staged().field(name).type) for name, values in texts.items()})
        rows = rows.append_column(DELETED, pa.array([True] * rows.num_rows, pa.bool_()))
        return cls(kept["source"], kept["times"], kept["floor"], fitted(rows, form.staged()))

    def kept(self, form: ChangeForm) -> dict[str, Any]:
        columns = (*form.key, *form.order)
        texts = {name: self.deleted[name].cast(pa.string()).to_pylist() for name in columns}
        state = {"source": self.source, "times": self.times, "floor": self.floor, "deleted": texts}
        return {**state, "columns": form.schema().names}


def merge(target: Table, last: Manifest | None, new: Manifest, parts: Parts, files: FileOptions) -> Merged:
    """Write the new files of a table with the changes that the files of tasks have.

    `new`: the manifest of this export, as yet without changes.

    Raises UsageError: the changes are of two tables; or a broker that is new to the table begins too early.
    """
    form = files.shape.changes
    assert form is not None
    state, latest = _read(form, _State.of(form, last), new, parts, target)
    # Deletions of earlier exports have no source; what they deleted is not in the table.
    changes = latest.filter(pc.is_valid(latest[SOURCE]))
    schema, old = _columns(form, target, last), list[str]()
    with target.tasks.attempt("rows") as attempt:
        size = files.target_bytes or FILE_BYTES
        with PartitionedWriter(
            attempt.folder, schema, files.compression, size, (), durable=not attempt.remote
        ) as writer:
            changes = _write_anew(form, target, schema, writer, changes, old)
            _write(writer, fitted(changes.filter(pc.invert(changes[DELETED])), schema))
            writer.close()
        made = [part._replace(path=attempt.keep(part.path)) for part in parts_of(writer, "rows")]
    # Deltalake takes a comparison with a column that has no statistics for false, where others have some.
    made = [part._replace(stats={"numRecords": part.rows}) for part in made]
    return Merged(made, frozenset(old), state.kept(form))


def _columns(form: ChangeForm, target: Table, last: Manifest | None) -> pa.Schema:
    """Return the columns of the export, and others of the table: rows that stay keep these.

    A column of the export that the table lacks, and earlier exports had not, is new: rows that stay have null in it.
    """
    schema, there = form.schema(), target.columns()
    if there is None:
        return schema
    missing = [name for name in schema.names if name not in there.names]
    before = () if last is None or last.changes is None else last.changes.get("columns", missing)
    gone = [name for name in missing if name in before]
    if gone:
        raise UsageError(
            f"{target.where}: the table has no column {short(gone[0])}, which this export writes; somebody dropped or "
            "renamed it: name it so again, or export into an empty directory"
        )
    again = target.given_again(schema.names)
    if again:
        raise UsageError(
            f"{target.where}: somebody dropped or renamed the column {short(again[0])}, and one of that name came "
            "again: it would have the old values, as files of exports have names alone; export into an empty directory"
        )
    like = {name.casefold() for name in there.names}
    alike = [name for name in missing if name.casefold() in like]
    if alike:
        raise UsageError(
            f"{target.where}: the table has a column that differs from the new one, {short(alike[0])}, in capital "
            "letters alone, which readers do not tell apart; name it as the table does"
        )
    return pa.schema([*schema, *(field for field in there if field.name not in schema.names)])


def _write_anew(
    form: ChangeForm, target: Table, schema: pa.Schema, writer: PartitionedWriter, changes: pa.Table, old: list[str]
) -> pa.Table:
    """Write the rows that stay of each file with keys of the changes, and add its path to `old`.

    Returns the changes that are not late.
    """
    places = pa.schema([schema.field(name) for name in (*form.key, *form.order)])
    for path, read in target.data().items():
        stale, changes = _compared(form, fitted(read(places.names), places), changes)
        if stale is not None:
            old.append(path)
            _write(writer, fitted(read(schema.names), schema).filter(pc.invert(stale)))
    return changes


def _write(writer: PartitionedWriter, rows: pa.Table) -> None:
    for batch in rows.to_batches():
        writer.write(batch)


def _read(form: ChangeForm, before: _State, new: Manifest, parts: Parts, target: Table) -> tuple[_State, pa.Table]:
    """Return the state after an export, and the last change of each key.

    Deletions of earlier exports are among these.
    """
    times, latest = dict(before.times), before.deleted
    sources: set[Any] = {before.source} - {None}
    for part in sorted(parts, key=lambda part: part.name):
        with readable(part.path, target.folder.s3) as file:
            rows = fitted(pq.ParquetFile(file).read(), form.staged())
        sources |= set(pc.unique(rows[SOURCE]).to_pylist())
        if len(sources) > 1:
            one, other = sorted(sources)[:2]
            raise UsageError(
                f"{target.where}: there are changes of {one} and of {other}, whose keys would mix; export each into a "
                "table of its own, by --topic"
            )
        brokers: list[Any] = pc.unique(rows[BROKER]).to_pylist() if form.many else [ONLY]
        for broker in brokers:
            own = rows.filter(pc.equal(rows[BROKER], pa.scalar(broker))) if form.many else rows
            own = _timed(own, times.get(broker, 0))
            _refuse_late(target.where, before.floor, broker, own)
            times[broker] = pc.max(own[TIME].cast(pa.int64())).as_py()
            latest = form.last_of_each(pa.concat_tables([latest, own]))
    for name, store in new.stores.items():
        if store.anchor is not None and store.anchor.store_timestamp != NO_TIME:
            times[name] = max(times.get(name, 0), store.anchor.store_timestamp * 1000)
    deleted = latest.filter(latest[DELETED])
    floor = max(before.floor, min((times.get(broker, 0) for broker in new.stores), default=0))
    late = pc.greater_equal(deleted[TIME].cast(pa.int64()), pa.scalar(floor, pa.int64()))
    return _State(next(iter(sources), None), times, floor, deleted.filter(late)), latest


def _refuse_late(where: str, floor: int, broker: str, rows: pa.Table) -> None:
    """Refuse changes of a new broker that are older than deletions which are forgotten."""
    if pc.min(rows[TIME].cast(pa.int64())).as_py() < floor:
        raise UsageError(
            f"{where}: broker {short(broker)} is new to the table and has changes older than those of the others, "
            "which may be of rows that are deleted since; export all brokers into a new directory"
        )


def _timed(rows: pa.Table, least: int) -> pa.Table:
    """Give changes of one log, in its order, times that never fall.

    `least`: the time before them.
    """
    rows = rows.sort_by(OFFSET)
    times: Any = rows[TIME].cast(pa.int64()).fill_null(pa.scalar(least, pa.int64())).to_numpy()
    rising = pa.array(numpy.maximum.accumulate(numpy.maximum(times, least)), pa.int64())
    field = rows.schema.field(TIME)
    return rows.set_column(rows.schema.names.index(TIME), field, rising.cast(field.type))


def _compared(form: ChangeForm, there: pa.Table, changes: pa.Table) -> tuple[Any, pa.Table]:
    """Return which rows of a file are replaced or deleted, and the changes that are not late.

    The former is None if no row is.
    """
    columns = {name: f"{name}_of_change" for name in form.order}
    news = changes.select([*form.key, *form.order]).rename_columns([*form.key, *columns.values()])
    news = news.append_column("change", pa.array(range(news.num_rows), pa.int64()))
    rows = there.append_column("row", pa.array(range(there.num_rows), pa.int64()))
    pairs = rows.join(news, list(form.key), join_type="inner")
    # A row that somebody else put into the table says of no change; any is later.
    newer = pc.fill_null(_later(pairs, [(columns[name], name) for name in form.order]), True)
    late = pc.is_in(news["change"], value_set=pairs.filter(pc.invert(newer))["change"])
    stale = pairs.filter(newer)["row"]
    found = pc.is_in(rows["row"], value_set=stale) if len(stale) else None
    return found, changes.filter(pc.invert(late))


def _later(pairs: pa.Table, columns: Sequence[tuple[str, str]]) -> Any:
    """Return which rows are greater in the first column of a pair.

    Where they are equal, the next pair decides.
    """

    def step(rest: Any, names: tuple[str, str]) -> Any:
        one, other = (pairs[name] for name in names)
        return pc.or_(pc.greater(one, other), pc.and_(pc.equal(one, other), rest))

    nothing: Any = pa.array([False] * pairs.num_rows, pa.bool_())
    return reduce(step, reversed(columns), nothing)
