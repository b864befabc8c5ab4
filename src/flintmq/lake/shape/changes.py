"""Reads bodies as changes of a database's table, and finds the last change of each key.

A body is an event of Debezium, a flat message of Canal, or a row. A message may have several changes: a key that
changed is a deletion of the old one and a row of the new one, and Canal puts the rows of one statement together.

The order of changes is that of their messages: by store time, then by offset in the log, then by broker. Within a log
the store time of a message counts as no earlier than that of the one before it, so a clock that was set back does not
turn the order of a queue.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.config.text import short
from flintmq.errors import FormatError, UsageError
from flintmq.format import inner_batch, record
from flintmq.format.group_topics import DEAD
from flintmq.lake.bodies import json_body
from flintmq.lake.bodies.failure import (
    EMPTIES,
    INNER_BATCH,
    LEFT_OUT,
    NO_CHANGE,
    NO_KEY,
    NOT_COMPRESSED,
    NOT_OF_SCHEMA,
    TOO_DEEP,
    BadBody,
)
from flintmq.lake.bodies.form import BodyForm, column, reader
from flintmq.store.layout.config_reader import OF_EVERY_BROKER

OWN = "flintmq_"  # begins the columns that are not the database's
TIME, OFFSET, BROKER = "flintmq_store_timestamp", "flintmq_physical_offset", "flintmq_broker"
QUEUE_OFFSET, DELETED, SOURCE = "flintmq_queue_offset", "flintmq_deleted", "flintmq_source"
# Codes of notes: messages that change no row.
DDL, TOMBSTONES, COPIES = "ddl-skipped", "tombstones-skipped", "copies-skipped"
# Topics with messages once more, or not yet: to retry, given up, delayed, half of a transaction. A change that comes
# again there would pass for a later one than those after it.
_OF_COPIES = (*OF_EVERY_BROKER, DEAD, "TRANS_CHECK_MAX_TIME_TOPIC")
_UNAVAILABLE = b"__debezium_unavailable_value"  # in place of a large value that did not change
_LEFT_OUT = {_UNAVAILABLE.decode(), base64.b64encode(_UNAVAILABLE).decode()}  # of text, and of bytes in JSON
# Of Canal's statements that change the schema those that may take rows away as well.
_EMPTYING = re.compile(r"\b(drop|truncate|exchange|discard|reorganize|coalesce)\s+partition", re.IGNORECASE)
_EMPTYING_TYPES = ("TRUNCATE", "ERASE", "RENAME")
_KEY_KINDS = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date32, pa.types.is_timestamp)


class Change(NamedTuple):
    deleted: bool
    row: Mapping[str, Any]  # of a deleted one at least the key


Read = tuple[str, Sequence[Change]]
"""The database's table in words, empty if the body does not say it, and its changes."""


class _SkippedError(Exception):
    """A message that changes no row. `args[0]`: the code of its note."""


@dataclass(frozen=True)
class ChangeForm:
    """Makes rows of a table from bodies.

    Attributes:
        key: the columns that name a row.
        when: "debezium" or "canal", whose messages say what they do; COLUMN=VALUE of a row that deletes; None: none
            does.
        body: the form of rows.
        many: the changes are of several stores.
    """

    key: tuple[str, ...]
    when: str | None
    body: BodyForm
    many: bool = False

    @classmethod
    def parse(
        cls, key: Sequence[str] | None, when: str | None, body: BodyForm | None, many: bool = False
    ) -> ChangeForm | None:
        """Check the options of changes; None if messages are rows as they are.

        Raises UsageError: the options do not fit together, or name columns that the bodies do not have.
        """
        if key is None:
            if when is not None:
                raise UsageError("--delete-when is for --upsert-key; a table of messages loses none")
            return None
        if body is None or not isinstance(body.type, pa.StructType):
            raise UsageError(
                "--upsert-key names columns of bodies; give --body json, avro or protobuf with their schema"
            )
        types = {field.name: field.type for field in body.type}
        for name in key:
            if name not in types:
                raise UsageError(f"--upsert-key {name[:60]!r} is no column of the bodies ({', '.join(types)[:80]})")
            if not any(is_kind(types[name]) for is_kind in _KEY_KINDS):
                raise UsageError(
                    f"--upsert-key {name[:60]!r} is of type {str(types[name])[:40]}; a key is made of whole numbers, "
                    "text, booleans, dates and timestamps"
                )
        if not key or len(set(key)) < len(key):
            raise UsageError(f"--upsert-key {','.join(key)[:60]!r} names no column, or one twice")
        own = next((name for name in types if name.casefold().startswith(OWN)), None)
        if own is not None:
            raise UsageError(f"body schema: {own[:60]!r}: columns that begin with {OWN} are the export's; rename it")
        if when in ("debezium", "canal") and body.name != "json":
            raise UsageError(f"--delete-when {when} is for --body json; give the schema of the database's rows")
        if when not in (None, "debezium", "canal"):
            _check_value(when, types)
        return cls(tuple(key), when, body, many)

    def choice(self) -> dict[str, Any]:
        return {"upsert_key": list(self.key), "delete_when": self.when}

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that order the changes of a key."""
        return (TIME, OFFSET, BROKER) if self.many else (TIME, OFFSET)

    def schema(self) -> pa.Schema:
        """Return the columns of the table: those of the rows, and where the last change is."""
        return pa.schema([*_fields(self.body), *(_FIELDS[name] for name in self.order)])

    def staged(self) -> pa.Schema:
        """Return the columns of changes in the files of tasks."""
        return pa.schema([*self.schema(), *(_FIELDS[name] for name in (QUEUE_OFFSET, DELETED, SOURCE))])

    def shaped(
        self, batch: pa.RecordBatch, packed: set[int]
    ) -> tuple[pa.RecordBatch, list[tuple[int, str]], Counter[str]]:
        """Return the changes of messages, those that cannot be read, and the notes.

        `packed`: rows whose bodies do not decompress.
        """
        read = _reader(self)
        topics: list[Any] = batch.column("topic").to_pylist()
        named = {topic: f"topic {short(topic)}" for topic in set(topics)}
        bodies: list[Any] = batch.column("body").to_pylist()
        bad: dict[int, str] = dict.fromkeys(packed, NOT_COMPRESSED)
        found: list[tuple[int, str, Change]] = []
        skipped: Counter[str] = Counter()
        for number, body in enumerate(bodies):
            if topics[number].startswith(_OF_COPIES):
                skipped[COPIES] += 1
                bad.pop(number, None)
                continue
            if number in bad:
                continue
            try:
                source, changes = read(body)
            except BadBody as error:
                bad[number] = INNER_BATCH if _is_packed(batch, number, body) else error.reason
            except _SkippedError as note:
                skipped[note.args[0]] += 1
            else:
                topic = named[topics[number]]
                found += [(number, f"{source} in {topic}" if source else topic, change) for change in changes]
        misfits: list[tuple[int, str]] = []
        rows = column([change.row for _, _, change in found], self.body.type, misfits).values
        bad.update((found[place][0], reason) for place, reason in misfits)
        numbers = pa.array([number for number, _, _ in found], pa.int32())
        made: dict[str, Any] = dict(zip((field.name for field in _fields(self.body)), rows.flatten(), strict=True))
        made |= {own: batch.column(name).take(numbers) for own, name in _TAKEN.items() if own != BROKER or self.many}
        made |= {
            DELETED: pa.array([change.deleted for _, _, change in found], pa.bool_()),
            SOURCE: pa.array([source for _, source, _ in found], pa.string()),
        }
        schema = self.staged()
        arrays = [made[name].cast(schema.field(name).type) for name in schema.names]
        whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
        good = pa.array([number not in bad for number, _, _ in found], pa.bool_())
        return whole.filter(good), sorted(bad.items()), skipped

    def last_of_each(self, changes: pa.Table) -> pa.Table:
        """Return the last change of each key, in the order of changes."""
        order: Any = [(name, "ascending") for name in (*self.order, QUEUE_OFFSET)]
        # The sort is stable: changes of one message stay in its order.
        ordered = changes.sort_by(order)
        numbered = ordered.append_column("number", pa.array(range(ordered.num_rows), pa.int64()))
        last = numbered.group_by(list(self.key)).aggregate([("number", "max")])["number_max"]
        return ordered.take(last.sort())


def _is_packed(batch: pa.RecordBatch, row: int, body: bytes) -> bool:
    """Return whether a body is a whole inner batch.

    The flag alone does not say: messages that were taken out of one keep it.
    """
    if not batch.column("sys_flag")[row].as_py() & record.INNER_BATCH:
        return False
    try:
        return any(inner_batch.iterate(body))
    except FormatError:
        return False


_TAKEN = {TIME: "store_timestamp", OFFSET: "physical_offset", BROKER: "broker", QUEUE_OFFSET: "queue_offset"}
_NAMES = (TIME, OFFSET, BROKER, QUEUE_OFFSET, DELETED, SOURCE)
_TYPES = (SPARK_SCHEMA.field("store_timestamp").type, pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.string())
_FIELDS: dict[str, pa.Field[Any]] = dict(zip(_NAMES, map(pa.field, _NAMES, _TYPES), strict=True))


def _fields(body: BodyForm) -> list[pa.Field[Any]]:
    assert isinstance(body.type, pa.StructType)
    return list(body.type)


@lru_cache(maxsize=8)
def _reader(form: ChangeForm) -> Callable[[bytes], Read]:
    """Return a function that reads the changes of a body. It raises BadBody and _SkippedError."""
    make = {"debezium": _debezium, "canal": _canal}.get(form.when or "", _plain)
    return make(form)


def _plain(form: ChangeForm) -> Callable[[bytes], Read]:
    read, (name, _, value) = reader(form.body), (form.when or "").partition("=")

    def changes(body: bytes) -> Read:
        row = read(body)
        _key(form, row)
        return "", [Change(bool(name) and _text(row[name]) == value, row)]

    return changes


def _debezium(form: ChangeForm) -> Callable[[bytes], Read]:
    row_of, old_of = _row(form, _fields(form.body)), _row(form, _key_fields(form))

    def changes(body: bytes) -> Read:
        event = json_body.parsed(body) if body else None
        if type(event) is dict and "payload" in event and "op" not in event:
            event = event["payload"]
        if event is None:
            raise _SkippedError(TOMBSTONES)
        if type(event) is not dict or event.get("op") not in ("c", "u", "d", "r"):
            raise BadBody(NO_CHANGE)
        before, source = event.get("before"), event.get("source")
        place = [source.get(name) for name in ("name", "db", "schema", "table")] if type(source) is dict else []
        found = []
        if event["op"] == "d" or before is not None:
            found.append(Change(True, old_of(before)))
        if event["op"] != "d":
            row = row_of(event.get("after"))
            if _leaves_out(row):
                raise BadBody(LEFT_OUT)
            found = [change for change in found if _key(form, change.row) != _key(form, row)] + [Change(False, row)]
        return _table(place), found

    return changes


def _canal(form: ChangeForm) -> Callable[[bytes], Read]:
    row_of, old_of = _row(form, _fields(form.body)), _row(form, _key_fields(form))
    kinds = {field.name: field.type for field in _fields(form.body)}

    def typed(row: Any) -> Any:
        """Give the texts, which Canal makes of all values, their types."""
        if type(row) is not dict:
            raise BadBody(NO_CHANGE)
        return {name: _of_text(value, kinds[name]) for name, value in row.items() if name in kinds}

    def changes(body: bytes) -> Read:
        event = json_body.parsed(body)
        if type(event) is dict and event.get("isDdl") is True:
            if event.get("type") in _EMPTYING_TYPES or _EMPTYING.search(str(event.get("sql"))):
                raise BadBody(EMPTIES)
            raise _SkippedError(DDL)
        kind, rows, olds = (event.get(name) for name in ("type", "data", "old")) if type(event) is dict else (None,) * 3
        if kind not in ("INSERT", "UPDATE", "DELETE") or type(rows) is not list:
            raise BadBody(NO_CHANGE)
        new, place = [typed(row) for row in rows], _table([event.get("database"), event.get("table")])
        if kind == "DELETE":
            return place, [Change(True, old_of(row)) for row in new]
        if olds is not None and (type(olds) is not list or len(olds) != len(rows)):
            raise BadBody(NO_CHANGE)
        # `old` has the values that changed. The rows of a statement change together: keys may be swapped.
        before = [old_of(row | typed(old)) for row, old in zip(new, olds or (), strict=False) if old]
        made = [Change(False, row_of(row)) for row in new]
        kept = {_key(form, change.row) for change in made}
        gone = [Change(True, row) for row in before if _key(form, row) not in kept]
        return place, gone + made

    return changes


def _key_fields(form: ChangeForm) -> list[pa.Field[Any]]:
    return [field for field in _fields(form.body) if field.name in form.key]


def _row(form: ChangeForm, fields: list[pa.Field[Any]]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that converts a JSON object to a row with a key. It raises BadBody."""
    convert = json_body.converter(pa.struct(fields))

    def row(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = convert(value)
        _key(form, found)
        return found

    return row


def _key(form: ChangeForm, row: Mapping[str, Any]) -> tuple[Any, ...]:
    found = tuple(row[name] for name in form.key)
    if None in found:
        raise BadBody(NO_KEY)
    return found


def _table(place: Sequence[Any]) -> str:
    name = ".".join(part for part in place if type(part) is str and part)
    return f"table {short(name)}" if name else ""


def _leaves_out(value: Any) -> bool:
    """Return whether Debezium left out a value, or one within it."""
    if type(value) is dict:
        return any(map(_leaves_out, value.values()))
    return any(map(_leaves_out, value)) if type(value) in (list, tuple) else type(value) is str and value in _LEFT_OUT


def _check_value(when: str, types: Mapping[str, pa.DataType]) -> None:
    """Refuse a COLUMN=VALUE that no row could have."""
    name, given, value = when.partition("=")
    if not given or name not in types:
        raise UsageError(
            f"--delete-when {when[:60]!r} is not debezium, canal, or COLUMN=VALUE with a column of the bodies"
        )
    kind, example = types[name], ""
    if pa.types.is_boolean(kind):
        example = "" if value in ("true", "false") else "true or false"
    elif pa.types.is_integer(kind):
        example = "" if re.fullmatch(r"0|-?[1-9][0-9]*", value, re.ASCII) else "a whole number such as 1"
    elif pa.types.is_date32(kind):
        example = "" if _is_date(value) else "a date such as 2024-01-31"
    elif not pa.types.is_string(kind):
        example = "a column of whole numbers, text, booleans or dates"
    if example:
        raise UsageError(f"--delete-when {when[:60]!r}: no {str(kind)[:40]} has this text; give {example}")


def _is_date(text: str) -> bool:
    try:
        return str(datetime.date.fromisoformat(text)) == text
    except ValueError:
        return False


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _of_text(value: Any, kind: pa.DataType) -> Any:
    """Convert a text of Canal to the value that it means. Raises BadBody."""
    if type(value) is not str:
        return value
    try:
        if pa.types.is_integer(kind) and re.fullmatch(r"[+-]?\d+", value, re.ASCII):
            return int(value)
        if pa.types.is_floating(kind) and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value, re.ASCII):
            return float(value)
        if pa.types.is_boolean(kind):
            return {"1": True, "0": False, "true": True, "false": False}[value]
        if pa.types.is_nested(kind):
            return json.loads(value)
    except RecursionError as error:
        raise BadBody(TOO_DEEP) from error
    except (ValueError, KeyError) as error:
        raise BadBody(NOT_OF_SCHEMA) from error
    return value
