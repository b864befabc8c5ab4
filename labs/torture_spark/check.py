"""What a table must hold: each message of the log that has a queue unit, once. Read by the slow codecs and pyarrow."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.table import Table

from flintmq.format import record
from flintmq.lake.table.iceberg_catalog import TableName
from labs.torture_spark.writer import KEYS, PREPARED, ROLLBACK
from tests.support.engine import log_bytes

COLUMNS = ["topic", "queue_id", "queue_offset", "physical_offset", "body"]
UNIT = 20
NO_QUEUE = (PREPARED, ROLLBACK)
Row = tuple[str, int, int, int, bytes]


@dataclass
class Verdict:
    """What a check found. Everything from `missing` on must be 0.

    Attributes:
        acknowledged: puts that were answered PUT_OK.
        stored: records of the log; queued: those of them that have a queue unit; exported: rows of the table.
        missing: queued messages that are not in the table.
        doubled: rows that are there more than once.
        foreign: rows that are no such message, body included.
        lost: acknowledged puts that are not in the log.
        unqueued: records that belong into a queue and have no unit, and units that lead to no record of theirs.
    """

    acknowledged: int = 0
    stored: int = 0
    queued: int = 0
    exported: int = 0
    missing: int = 0
    doubled: int = 0
    foreign: int = 0
    lost: int = 0
    unqueued: int = 0

    @property
    def wrong(self) -> dict[str, int]:
        """The violations, by name."""
        names = ("missing", "doubled", "foreign", "lost", "unqueued")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def check_table(store: Path, table: Path, acknowledged: Iterable[int], broker: str | None = None) -> Verdict:
    """Compare a closed store, what its writer was told, and the table, or the broker's part of it."""
    log = {r.physical_offset: r for r in records(store)}
    wanted = Counter(queued(store, log))
    there = Counter(rows(table, broker))
    told = set(acknowledged)
    plain = sum(r.transaction not in NO_QUEUE for r in log.values())
    found = Verdict(len(told), len(log), wanted.total(), there.total())
    found.missing = (wanted - there).total()
    found.doubled = sum(count - 1 for count in there.values())
    found.foreign = len(there.keys() - wanted.keys())
    found.lost = len(told - log.keys())
    found.unqueued = abs(plain - wanted.total()) + sum(count - 1 for count in wanted.values())
    return found


def records(store: Path, begin: int = 0) -> Iterator[record.Record]:
    """The records of the log from a log offset on, or from its first, each fully checked."""
    size = KEYS["mappedFileSizeCommitLog"]
    data, base = log_bytes(store)
    at = max(0, begin - base)
    while at < len(data):
        file_end = at - at % size + size
        try:
            found = record.check(data, at, base + at, file_end=file_end)
        except record.RecordError as error:
            if error.kind != "BLANK":
                return
            at = file_end
            continue
        yield found
        at += found.size


def queued(store: Path, log: dict[int, record.Record]) -> Iterator[Row]:
    """The messages that the queues' units lead to."""
    for folder in sorted((store / "consumequeue").glob("*/*/")):
        data = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
        for number in range(len(data) // UNIT):
            place = int.from_bytes(data[UNIT * number : UNIT * number + 8], "big")
            if not any(data[UNIT * number : UNIT * number + UNIT]):
                break
            found = log.get(place)
            if found is not None and (found.queue_offset, str(found.queue_id)) == (number, folder.name):
                yield row(found.topic.decode(), found.queue_id, number, place, found.body)


def row(topic: str, queue: int, offset: int, place: int, body: bytes) -> Row:
    """What identifies a message and its content."""
    return topic, queue, offset, place, hashlib.sha1(body).digest()


def rows(table: Path, broker: str | None = None) -> Iterator[Row]:
    """The rows that readers find, or those of a broker."""
    columns = [*COLUMNS, *(["broker"] if broker is not None else [])]
    for found in tables(table, columns):
        if broker is not None:
            found = found.filter(pc.equal(found["broker"].cast(pa.string()), broker))
        yield from map(row, *(found[name].to_pylist() for name in COLUMNS))


def tables(table: Path, columns: list[str]) -> Iterator[pa.Table]:
    """Their columns."""
    if (table / "_delta_log").exists():
        yield DeltaTable(str(table)).to_pyarrow_table(columns=columns)
        return
    if (table / "metadata").exists():
        yield iceberg(table).scan(selected_fields=tuple(columns)).to_arrow()
        return
    for file in data_files(table):
        yield pq.ParquetFile(file).read(columns=columns)


def data_files(table: Path) -> Iterator[Path]:
    """The files of a Parquet table of ours, or those that Spark's file sink has committed."""
    log = table / "_spark_metadata"
    if not log.exists():
        yield from table.glob("export=*/**/*.parquet")
        return
    batches = [path for path in log.iterdir() if not path.name.startswith(".")]  # the last compact one has those before
    compact = max((int(path.stem) for path in batches if path.suffix), default=-1)
    for path in batches:
        if int(path.stem) > compact or (int(path.stem) == compact and path.suffix):
            for line in path.read_text().splitlines()[1:]:
                yield Path(unquote(urlsplit(json.loads(line)["path"]).path))


def iceberg(table: Path) -> Table:
    """The newest version of an Iceberg table in a catalog of its own."""
    name = TableName()
    return name.open(table).load_table(name.identifier)


def count(table: Path) -> int:
    """How many rows there are; 0 where there is no table yet."""
    if (table / "_delta_log").exists():
        return DeltaTable(str(table)).to_pyarrow_dataset().count_rows() if DeltaTable.is_deltatable(str(table)) else 0
    if (table / "metadata").exists():
        return iceberg(table).scan().count()
    return sum(pq.read_metadata(file).num_rows for file in data_files(table))
