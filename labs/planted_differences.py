"""Plants differences of every kind in stores and tables, and checks that `diff` names each of them and nothing else.

    python -m labs.planted_differences [--count 1000] [--seed 1]

Five pairs, each with `count` differences of each kind:

    by message    two stores whose log offsets differ, as after a replay
    by offset     two stores of one log, compared by bytes
    parquet       a store and its exported table
    delta         the same in Delta
    iceberg       the same in Iceberg

Logs are written by the slow reference codec, record by record. What is expected comes from the plan of what was
planted; differences that must not be named (other store times by message, another order of rows) are planted as well.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from flintmq.forensics.diff.differences import Differences
from flintmq.forensics.diff.run import compare
from flintmq.format import record
from flintmq.format.record import BLANK_SIZE, Record

FILE_SIZE = 1 << 20
TOPICS = ("Orders", "Payments", "库存")
QUEUES = 4
START_MS = 1_700_000_000_000

Name = tuple[str, str | None, int | None, int | None]
"""What is named: kind, topic, queue, queue offset; of bytes without a record kind, None, None, log offset."""
Planted = Counter[Name]


def message(number: int, topic: str, queue_id: int, queue_offset: int, chance: random.Random) -> Record:
    """A record that no other one is equal to; its place in the log is not known yet."""
    body = b"%08d" % number + chance.randbytes(chance.randrange(20, 300))
    properties = f"UNIQ_KEY\1{number:032X}\2KEYS\1k{number}\2TAGS\1t{number % 5}\2n\1{number:08d}\2"
    return Record(
        body_crc=record.crc(body),
        queue_id=queue_id,
        flag=number % 7,
        queue_offset=queue_offset,
        born_timestamp=START_MS + 3 * number,
        born_host=bytes([10, 0, 0, number % 250, 0, 0, 4, 1]),
        store_timestamp=START_MS + 3 * number + 1,
        store_host=bytes([10, 0, 1, 1, 0, 0, 42, 159]),
        reconsume_times=number % 3,
        body=body,
        topic=topic.encode(),
        properties=properties.encode(),
    )


def messages(count: int, chance: random.Random) -> list[Record]:
    """Records of all queues, in the order of their log."""
    ends: Counter[tuple[str, int]] = Counter()
    made = []
    for number in range(count):
        place = chance.choice(TOPICS), chance.randrange(QUEUES)
        made.append(message(number, *place, ends[place], chance))
        ends[place] += 1
    return made


def placed(records: Iterable[Record], at: int = 0) -> list[Record]:
    """The records with their places in a log that begins at an offset."""
    made = []
    for one in records:
        size = len(record.encode(one))
        if at % FILE_SIZE + size + BLANK_SIZE > FILE_SIZE:
            at += FILE_SIZE - at % FILE_SIZE
        made.append(one._replace(physical_offset=at))
        at += size
    return made


def write(root: Path, records: Iterable[Record]) -> Path:
    """Write the log of a store that has nothing else. Records know their places."""
    files: dict[int, bytearray] = defaultdict(lambda: bytearray(FILE_SIZE))
    ends: dict[int, int] = {}
    for one in records:
        number, at = divmod(one.physical_offset, FILE_SIZE)
        data = record.encode(one)
        files[number][at : at + len(data)] = data
        ends[number] = at + len(data)
    for number in sorted(files)[:-1]:
        room = FILE_SIZE - ends[number]
        if room:
            files[number][ends[number] : ends[number] + BLANK_SIZE] = record.encode_blank(room)
    (root / "commitlog").mkdir(parents=True)
    for number, data in files.items():
        (root / "commitlog" / f"{number * FILE_SIZE:020d}").write_bytes(data)
    return root


def name(kind: str, one: Record) -> Name:
    return kind, one.topic.decode(), one.queue_id, one.queue_offset


def with_body(one: Record) -> Record:
    body = one.body[:-1] + bytes([one.body[-1] ^ 1])
    return one._replace(body=body, body_crc=record.crc(body))


def with_tags(one: Record) -> Record:
    at = one.properties.index(b"TAGS\1t") + 6
    return one._replace(properties=one.properties[:at] + b"x" + one.properties[at + 1 :])


ALTERED: list[tuple[str, Callable[[Record], Record]]] = [
    ("body", with_body),
    ("properties", with_tags),
    ("flag", lambda one: one._replace(flag=one.flag + 100)),
    ("born_timestamp", lambda one: one._replace(born_timestamp=one.born_timestamp + 1)),
    ("born_host", lambda one: one._replace(born_host=bytes([9, *one.born_host[1:]]))),
    ("reconsume_times", lambda one: one._replace(reconsume_times=one.reconsume_times + 10)),
]
IN_PLACE = [
    *ALTERED,
    ("store_timestamp", lambda one: one._replace(store_timestamp=one.store_timestamp + 1)),
    ("store_host", lambda one: one._replace(store_host=bytes([9, *one.store_host[1:]]))),
    ("queue_offset", lambda one: one._replace(queue_offset=one.queue_offset + 1_000_000)),
]


def named(found: Differences, fields: dict[Name, str], follow: Collection[str] = ("body_crc", "size")) -> Planted:
    """What was named, message by message; the columns of altered ones are checked on the way.

    A run names its first and its last message and how many there are. Columns in `follow` differ where another does.
    """
    assert len(found.runs) == found.run_count, "runs beyond those that are kept"
    seen: Planted = Counter()
    for run in found.runs:
        kind, first = str(run.first.kind), run.first
        if first.queue_offset is None:
            side = kind[-1]
            seen[kind, None, None, first.a_offset if side == "a" else first.b_offset] += run.count
            continue
        assert run.last.queue_offset == first.queue_offset + run.count - 1
        names = [(kind, first.topic, first.queue_id, first.queue_offset + n) for n in range(run.count)]
        seen.update(names)
        if kind == "altered":
            told = {column for column in run.fields if column not in follow}
            wrong = told ^ {fields.get(one, "not planted") for one in names}
            assert not wrong - {"not planted"}, (names, run.fields)
    return seen


def report(title: str, wanted: Planted, seen: Planted) -> bool:
    """Print what was named and what not; return whether all was named and nothing else."""
    missed, invented = wanted - seen, seen - wanted
    kinds = Counter[str]()
    for one, times in wanted.items():
        kinds[one[0]] += times
    told = ", ".join(f"{kind} {times}" for kind, times in sorted(kinds.items()))
    print(f"{title:10}  planted {wanted.total()} ({told}): missed {missed.total()}, invented {invented.total()}")
    for label, some in (("missed", missed), ("invented", invented)):
        for one in list(some)[:5]:
            print(f"            {label} {one}")
    return not missed and not invented


def by_message(folder: Path, count: int, chance: random.Random) -> bool:
    """Two stores of other offsets and store times. The second one's first log files have expired."""
    left = messages(12 * count, chance)
    retained = count
    order = list(range(retained, len(left)))
    chance.shuffle(order)
    some = iter(order)
    right: dict[int, list[Record]] = {number: [one] for number, one in enumerate(left)}
    wanted: Planted = Counter()
    fields: dict[Name, str] = {}
    for number in range(retained):
        right[number] = []
        wanted[name("only-in-a", left[number])] += 1
    for n in range(count):
        at = next(some)
        column, change = ALTERED[n % len(ALTERED)]
        right[at] = [change(left[at])]
        fields[name("altered", left[at])] = column
    wanted.update(fields.keys())
    for at in (next(some) for _ in range(count)):
        right[at] = []
        wanted[name("only-in-a", left[at])] += 1
    for at in (next(some) for _ in range(count)):  # stored twice
        right[at].append(left[at])
        wanted[name("only-in-b", left[at])] += 1
    for at, other in _pairs(left, some, count):
        right[at] = [left[other]._replace(queue_offset=left[at].queue_offset)]
        right[other] = [left[at]._replace(queue_offset=left[other].queue_offset)]
        wanted.update([name("moved", left[at]), name("moved", left[other])])
    ends = Counter((one.topic.decode(), one.queue_id) for one in left)
    added = []
    for n in range(count):
        place = chance.choice([*TOPICS, "Other"]), chance.randrange(QUEUES)
        added.append(message(len(left) + n, *place, ends[place], chance))
        ends[place] += 1
        wanted[name("only-in-b", added[-1])] += 1
    after = [one for number in range(len(left)) for one in right[number]]
    for one in added:
        after.insert(chance.randrange(len(after)), one)
    hour = [one._replace(store_timestamp=one.store_timestamp + 3_600_000, store_host=bytes(8)) for one in after]
    a, b = write(folder / "a", placed(left)), write(folder / "b", placed(hour, 3 * FILE_SIZE))
    return report("by message", wanted, named(compare(str(a), str(b), by="message").differences, fields))


def _pairs(left: list[Record], some: Iterator[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of messages of one queue."""
    waiting: dict[tuple[bytes, int], int] = {}
    while count:
        at = next(some)
        other = waiting.pop((left[at].topic, left[at].queue_id), None)
        if other is None:
            waiting[left[at].topic, left[at].queue_id] = at
        else:
            yield at, other
            count -= 2


def by_offset(folder: Path, count: int, chance: random.Random) -> bool:
    """Two stores of one log: its bytes differ in places; each lacks files that the other one has."""
    left = placed(messages(14 * count + 2 * FILE_SIZE // 200, chance))
    right: list[Record | None] = list(left)
    mine: list[Record | None] = list(left)
    wanted: Planted = Counter()
    fields: dict[Name, str] = {}
    begin, end = FILE_SIZE, left[-1].physical_offset // FILE_SIZE * FILE_SIZE
    inside = [n for n, one in enumerate(left) if begin <= one.physical_offset < end]
    places = inside[4:-4:3]  # no two differences touch
    chance.shuffle(places)
    some = iter(places)
    for n in range(count):
        at = next(some)
        column, change = IN_PLACE[n % len(IN_PLACE)]
        right[at] = change(left[at])
        fields[name("altered", left[at])] = column
    wanted.update(fields.keys())
    for side, kind, damage in ((right, "only-in-a", "damaged-in-b"), (mine, "only-in-b", "damaged-in-a")):
        for at in (next(some) for _ in range(count)):
            side[at] = None
            wanted[name(kind, left[at])] += 1
            wanted[damage, None, None, left[at].physical_offset] += 1
    for at in _neighbours(left, some, count):
        one, other = left[at], left[at + 1]
        right[at] = other._replace(physical_offset=one.physical_offset)
        right[at + 1] = one._replace(physical_offset=one.physical_offset + other.size)
        wanted.update([name("moved", one), name("moved", other)])
    a, b = write(folder / "a", left), write(folder / "b", left)
    for root, side in ((a, mine), (b, right)):
        for before, one in zip(left, side, strict=True):
            if one is not before:
                _patch(root, before if one is None else one, bytes(before.size) if one is None else None)
    (b / "commitlog" / f"{0:020d}").unlink()
    for path in (a / "commitlog").iterdir():
        if int(path.name) >= end:
            path.unlink()
    found = compare(str(a), str(b))
    assert found.way == "offset"
    parts = {(part.side, part.where): part.messages for part in found.one_sided}
    first, last = (sum(one.physical_offset < begin for one in left), sum(one.physical_offset >= end for one in left))
    assert parts == {("a", "begin"): first, ("b", "end"): last}, (parts, first, last)
    print(f"{'':10}  of one side alone: {first} messages before, {last} after")
    return report("by offset", wanted, named(found.differences, fields))


def _neighbours(left: list[Record], some: Iterator[int], count: int) -> Iterator[int]:
    """Yield places of records that follow each other in one file."""
    while count:
        at = next(some)
        if left[at].physical_offset + left[at].size == left[at + 1].physical_offset:
            yield at
            count -= 2


def _patch(root: Path, one: Record, data: bytes | None) -> None:
    number, at = divmod(one.physical_offset, FILE_SIZE)
    with open(root / "commitlog" / f"{number * FILE_SIZE:020d}", "r+b") as file:
        file.seek(at)
        file.write(record.encode(one) if data is None else data)


def _later(time: datetime.datetime) -> datetime.datetime:
    return time + datetime.timedelta(seconds=1)


ROWS: list[tuple[str, Callable[[Any], Any]]] = [
    ("body", lambda value: value + b"!"),
    ("tags", lambda value: "other"),
    ("keys", lambda value: None),
    ("properties", lambda value: [*value, ("added", "x")]),
    ("msg_id", lambda value: value[::-1] + "0"),
    ("offset_msg_id", lambda value: ""),
    ("born_timestamp", _later),
    ("born_host", lambda value: "1.2.3.4:5"),
    ("store_timestamp", _later),
    ("store_host", lambda value: None),
    ("size", lambda value: value + 1),
    ("magic", lambda value: "v3"),
    ("flag", lambda value: value + 100),
    ("sys_flag", lambda value: value | 1024),
    ("reconsume_times", lambda value: value + 1),
    ("prepared_transaction_offset", lambda value: 5),
    ("body_crc", lambda value: value + 1),
]
CONTENT = ("body", "keys", "properties", "msg_id", "born_timestamp")


def table(to: str, folder: Path, count: int, chance: random.Random) -> bool:
    """A store and its table, in which rows were changed. The store's first log file has expired since."""
    from flintmq.lake.export.export_once import export
    from flintmq.lake.history.diff_table import compare_table

    left = placed(messages(10 * count + FILE_SIZE // 250, chance))
    store, out = write(folder / "store", left), folder / "out"
    export(str(store), str(out), to=to)
    wanted: Planted = Counter()
    fields: dict[Name, str] = {}
    expired = [n for n, one in enumerate(left) if one.physical_offset < FILE_SIZE]
    order = list(range(len(expired), len(left)))
    chance.shuffle(order)
    some = iter(order)
    edits: dict[int, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {}
    for n in range(count):
        at = next(some)
        column, change = ROWS[n % len(ROWS)]
        edits[left[at].physical_offset] = lambda row, c=column, f=change: [row | {c: f(row[c])}]
        fields[name("altered", left[at])] = column
    wanted.update(fields.keys())
    for at in expired[::3]:  # nobody can compare these any more
        edits[left[at].physical_offset] = lambda row: [row | {"body": b"other"}]
    for at in (next(some) for _ in range(count)):
        edits[left[at].physical_offset] = lambda row: []
        wanted[name("only-in-a", left[at])] += 1
    for at in (next(some) for _ in range(count)):
        edits[left[at].physical_offset] = lambda row: [row, dict(row)]
        wanted[name("twice-in-b", left[at])] += 1
    for at in (next(some) for _ in range(count)):
        edits[left[at].physical_offset] = lambda row: [row, row | {"queue_offset": row["queue_offset"] + 1_000_000}]
        wanted[name("only-in-b", left[at]._replace(queue_offset=left[at].queue_offset + 1_000_000))] += 1
    for at in (next(some) for _ in range(count)):  # a place in the log where no record begins
        edits[left[at].physical_offset] = lambda row: [row | {"physical_offset": row["physical_offset"] + 1}]
        wanted.update([name("only-in-a", left[at]), name("only-in-b", left[at])])
    swapped = {}
    for at, other in _pairs(left, some, count):
        swapped |= {left[at].physical_offset: left[other], left[other].physical_offset: left[at]}
        wanted.update([name("altered", left[at]), name("altered", left[other])])
    change_rows(to, out, edits, swapped, chance)
    (store / "commitlog" / f"{0:020d}").unlink()
    found = compare_table(str(store), str(out))
    assert found.expired == len(expired) and found.strangers == 0, (found.expired, len(expired), found.strangers)
    assert found.messages == len(left) - len(expired)
    for run in found.differences.runs:  # of reordered messages several columns differ
        names = [("altered", run.first.topic, run.first.queue_id, n) for n in _span(run)]
        if str(run.first.kind) == "altered" and any(one not in fields for one in names):
            assert {"body", "keys", "properties"} <= run.fields, run
            run.fields = {fields[one] for one in names if one in fields} or {"not planted"}
    return report(to, wanted, named(found.differences, fields, ()))


def _span(run: Any) -> range:
    return range(run.first.queue_offset, run.last.queue_offset + 1)


def change_rows(
    to: str,
    out: Path,
    edits: dict[int, Callable[[dict[str, Any]], list[dict[str, Any]]]],
    swapped: dict[int, Record],
    chance: random.Random,
) -> None:
    """Change the rows of a table, by other programs than ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def changed(rows: Any) -> Any:
        by_place = {row["physical_offset"]: row for row in everything}
        made = []
        for row in rows.to_pylist():
            at = row["physical_offset"]
            if at in swapped:
                other = by_place[swapped[at].physical_offset]
                row = row | {column: other[column] for column in CONTENT}
            made += edits[at](row) if at in edits else [row]
        chance.shuffle(made)
        return pa.Table.from_pylist(made, schema=rows.schema)

    if to == "delta":
        from deltalake import DeltaTable, write_deltalake

        rows = DeltaTable(str(out)).to_pyarrow_table()
        everything = rows.to_pylist()
        new = changed(rows)
        DeltaTable(str(out)).delete()
        write_deltalake(str(out), new, mode="append")
        return
    if to == "iceberg":
        from flintmq.lake.table.iceberg_catalog import TableName

        kept = TableName.parse(None)
        opened = kept.open(out).load_table(kept.identifier)
        rows = opened.scan().to_arrow()
        everything = rows.to_pylist()
        opened.overwrite(changed(rows))
        return
    files = [path for path in sorted(out.glob("export=1/**/*.parquet")) if pq.ParquetFile(path).metadata.num_rows]
    tables = {path: pq.ParquetFile(path).read() for path in files}
    everything = [row for rows in tables.values() for row in rows.to_pylist()]
    for path, rows in tables.items():
        pq.write_table(changed(rows), path)


PAIRS: dict[str, Callable[[Path, int, random.Random], bool]] = {
    "message": by_message,
    "offset": by_offset,
    "parquet": lambda *args: table("parquet", *args),
    "delta": lambda *args: table("delta", *args),
    "iceberg": lambda *args: table("iceberg", *args),
}


def run(pair: str, folder: Path, count: int, seed: int) -> bool:
    """Plant differences in one pair and compare it; return whether each was named and nothing else."""
    return PAIRS[pair](folder, count, random.Random(f"{seed} {pair}"))


def main() -> int:
    """Run all pairs."""
    words = argparse.ArgumentParser(description="Plants differences of every kind, and compares.")
    words.add_argument("--count", type=int, default=1000, help="differences of each kind in each pair")
    words.add_argument("--seed", type=int, default=1)
    asked = words.parse_args()
    good = True
    for pair in PAIRS:
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="planted-"))
        try:
            good &= run(pair, folder, asked.count, asked.seed)
        finally:
            shutil.rmtree(folder)
        print(f"{'':10}  {time.monotonic() - began:.0f} s", flush=True)
    print("result      " + ("each was named, and nothing else" if good else "DIFFERENCES WERE MISSED OR INVENTED"))
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("FLINTMQ_ZONE_MAPS", "off")
    sys.exit(main())
