"""kernels/write/append_columns: buffers that do not hold what they should are refused. What is written: tests/store."""

import struct
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.format import record
from flintmq.kernels.write import append_columns as kernel
from flintmq.kernels.write.fast_append import Appender, AppendTarget, QueueCounter

if not kernel.COMPILED:
    pytest.skip("this kernel runs compiled only", allow_module_level=True)

HOSTS = bytes([127, 0, 0, 1, 0, 0, 42, 159]) * 2


def texts(*values: bytes, wide: bool = False, **changes: Any) -> kernel.Texts:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    fields = {
        "data": b"".join(values), "offsets": array("q" if wide else "i", ends).tobytes(), "valid": b"", "wide": wide,
        "first": 0, "rows": len(values),
    } | changes  # fmt: skip
    return kernel.Texts(**fields)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 3}, {"first": 1}, {"rows": -1}, {"first": -1}, {"first": 1 << 62}, {"rows": 1 << 62},
        {"data": b"ab"}, {"offsets": array("i", [0, 2, 1, 3]).tobytes() * 2}, {"valid": b"\xff", "first": 1 << 39},
        {"offsets": array("q", [-1, 2, 3]).tobytes(), "wide": True},
    ],
    ids=str,
)  # fmt: skip
def test_offsets_that_lead_astray_are_refused(wide: bool, changes: dict[str, Any]):
    texts(b"abc", b"de", wide=wide)
    with pytest.raises(ValueError):
        texts(b"abc", b"de", **({"wide": wide} | changes))


def columns(**changes: Any) -> kernel.Columns:
    fields = {
        "topic": b"T", "bodies": texts(b"1", b"2"), "tags": None, "keys": None, "maps": None, "names": None,
        "values": None, "queue_ids": array("i"), "born_times": array("q"),
    } | changes  # fmt: skip
    return kernel.Columns(**fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"tags": texts(b"1")}, {"keys": texts(b"1", b"2", b"3")}, {"queue_ids": array("i", [1])},
        {"born_times": array("q", [1, 2, 3])},
        {"maps": texts(b"1", b"2"), "names": texts(b"a"), "values": texts(b"b")},
        {"maps": texts(b"1", b"2"), "names": texts(b"a", b"b"), "values": texts(b"b")},
    ],
    ids=lambda changes: ",".join(changes),
)  # fmt: skip
def test_columns_of_different_lengths_are_refused(changes: dict[str, Any]):
    with pytest.raises(ValueError):
        columns(**changes)


def test_what_is_found_wrong_is_told_with_its_row():
    seen = bytearray(kernel.QUEUES)
    good = columns(queue_ids=array("i", [3, 5]))
    assert good.check(10, 4096, False, seen) == (2, kernel.GOOD)
    assert [n for n, there in enumerate(seen) if there] == [3, 5]
    assert columns(bodies=texts(b"1", bytes(11))).check(10, 4096, False, seen) == (1, kernel.ILLEGAL)
    assert columns(keys=texts(b"", b"k" * 33_000)).check(10, 1 << 20, False, seen) == (1, kernel.LONG)
    reserved = columns(maps=texts(b"", b"x"), names=texts(b"TIMER_X"), values=texts(b"1"))
    assert reserved.check(10, 4096, False, seen) == (1, kernel.RESERVED)
    with pytest.raises(ValueError):
        good.check(10, 4096, False, bytearray(10))


def test_it_writes_only_into_the_window_and_moves_nothing_else():
    buffer = bytearray(b"\xee" * 4096)
    file = AppendTarget()
    file.size, file.start, file.wrote, file.reserved = 4096, 8192, 0, 150
    appender = Appender("ok", HOSTS, 1 << 20, False, 8192, 0)
    one, places = columns(), {0: QueueCounter(7)}
    with pytest.raises(ValueError, match="unchecked"):
        one.put(appender, file, 0, 5, 1 << 20, places, array("q", [0]))
    one.check(10, 4096, False, bytearray(kernel.QUEUES))
    with pytest.raises(ValueError, match="file"):
        one.put(appender, file, 0, 5, 1 << 20, places, array("q", [0]))
    file.attach(memoryview(buffer))
    with pytest.raises(ValueError):
        one.put(appender, file, 0, 5, 1 << 20, places, array("q"))
    assert one.put(appender, file, 0, 5, 1 << 20, places, array("q", [0])) == 1, "the second does not fit"
    size = 91 + 1 + 1
    assert one.written_end == size
    assert (file.wrote, appender.end, appender.last_time, places[0].next) == (size, 8192 + size, 5, 8)
    assert set(buffer[size:]) == {0xEE}
    file.detach()


@pytest.mark.parametrize("wide", [False, True])
def test_offsets_and_numbers_are_copied(wide: bool):
    offsets, queue_ids, times = array("q" if wide else "i", [0, 1, 2]), array("i", [1, 1]), array("q", [5, 6])
    valid = bytearray(b"\3")
    bodies = kernel.Texts(b"12", memoryview(offsets).cast("B"), b"", wide, 0, 2)
    tags = kernel.Texts(b"ab", memoryview(offsets).cast("B"), memoryview(valid), wide, 0, 2)
    one = columns(bodies=bodies, tags=tags, queue_ids=queue_ids, born_times=times)
    offsets[0] = offsets[1] = offsets[2] = 2**31 - 1
    queue_ids[0] = queue_ids[1] = times[0] = times[1] = -7
    valid[0] = 0
    records = written(one, {1: QueueCounter(0)})
    assert [(r.body, r.queue_id, r.queue_offset, r.born_timestamp, r.properties) for r in records] == [
        (b"1", 1, 0, 5, b"TAGS\1a\2"), (b"2", 1, 1, 6, b"TAGS\1b\2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "text", "what"),
    [
        ("tags", b"\2b", kernel.ILLEGAL), ("keys", b"\0b", kernel.ILLEGAL), ("values", b"\1b", kernel.ILLEGAL),
        ("names", b"\1b", kernel.ILLEGAL), ("names", b"DELAY", kernel.RESERVED), ("bodies", b"\0\1\2", kernel.GOOD),
        ("tags", b"other", kernel.GOOD), ("names", b"other", kernel.GOOD),
    ],
    ids=str,
)  # fmt: skip
def test_a_text_that_changes_behind_the_check_spoils_its_row_alone(column: str, text: bytes, what: int):
    data = {name: bytearray(b"firstlater") for name in ("bodies", "tags", "keys", "names", "values")}
    made = {
        name: kernel.Texts(memoryview(one), array("i", [0, 5, 10]).tobytes(), b"", False, 0, 2)
        for name, one in data.items()
    }
    maps = kernel.Texts(b"12", array("i", [0, 1, 2]).tobytes(), b"", False, 0, 2)
    one = columns(**made, maps=maps)

    def changed() -> None:
        data[column][5 : 5 + len(text)] = text

    records = written(one, {0: QueueCounter(0)}, changed)
    assert one.changed == what
    assert len(records) == (2 if what == kernel.GOOD else 1)
    assert records[0].properties == b"first\1first\2KEYS\1first\2TAGS\1first\2" and records[0].body == b"first"
    if what == kernel.GOOD:
        assert text in records[1].body + records[1].properties


PREFIX = b"0A1B2C3D4E5F60718293"
KEY = b"UNIQ_KEY\1" + PREFIX + b"%012X\2"


def maps_of(*rows: dict[bytes, bytes]) -> dict[str, kernel.Texts]:
    pairs = [pair for row in rows for pair in row.items()]
    names, values = texts(*[name for name, _ in pairs]), texts(*[value for _, value in pairs])
    return {"maps": texts(*[b"-" * len(row) for row in rows]), "names": names, "values": values}


def test_rows_without_a_unique_key_get_one_each_by_its_place():
    rows = {b"a": b"b"}, {b"UNIQ_KEY": b"", b"c": b"d"}, {}, {b"UNIQ_KEY2": b"", b"uniq_key": b"", b"UNIQ_KE": b""}
    one = columns(
        bodies=texts(*b"1 2 3 4".split()), **maps_of(*rows), keys=texts(b"", b"k", b"", b""),
        unique_prefix=PREFIX, unique_first=0xABCDEF,
    )  # fmt: skip
    assert [r.properties for r in written(one, {0: QueueCounter(0)})] == [
        b"a\1b\2" + KEY % 0xABCDEF, b"UNIQ_KEY\1\2c\1d\2KEYS\1k\2", KEY % 0xABCDF1,
        b"UNIQ_KEY2\1\2uniq_key\1\2UNIQ_KE\1\2" + KEY % 0xABCDF2,
    ]  # fmt: skip
    with pytest.raises(ValueError):
        columns(unique_prefix=PREFIX[1:])


@pytest.mark.parametrize("crc_property", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("column", ["values", "keys", "tags"])
def test_a_unique_key_counts_where_a_row_is_measured(column: str, own: bool, crc_property: bool):
    """The largest row that is taken is 42 bytes smaller where it gets a key."""
    seen, key = bytearray(kernel.QUEUES), 0 if own else 42
    room = 32767 - (20 if crc_property else 0) - 42
    fixed = 10 if own else 0  # the name of its own, with an empty value

    def found(size: int, file_size: int) -> tuple[int, int]:
        pairs = {b"UNIQ_KEY": b""} if own else {}
        given = {column: texts(b"x" * (size - 6))} if column != "values" else {}
        maps = maps_of(pairs | ({b"name": b"x" * (size - 6)} if column == "values" else {}))
        one = columns(bodies=texts(b"1"), **maps, **given, unique_prefix=PREFIX)
        return one.check(10, file_size, crc_property, seen)

    most = room + 42 - key - fixed
    assert found(most, 1 << 20) == (1, kernel.GOOD)
    assert found(most + 1, 1 << 20)[0] == 0
    record = 91 + 24 + 1 + 1 + key + fixed + (20 if crc_property else 0)  # hosts of 20 bytes
    assert found(1000 - 8 - record, 1000) == (1, kernel.GOOD)
    assert found(1000 - 8 - record + 1, 1000) == (0, kernel.ILLEGAL)


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "found"])
@pytest.mark.parametrize("room", ["", "properties", "file"])
def test_a_unique_key_that_comes_or_goes_behind_the_check(lost: bool, room: str):
    """What a row's key was when it was checked says nothing: what is written is measured again."""
    before, after = (b"UNIQ_KEY", b"OTHERKEY") if lost else (b"OTHERKEY", b"UNIQ_KEY")
    names = bytearray(before)
    body = bytes(100) if room != "file" else bytes(4096 - 8 - 91 - 24 - 1 - 10 - (0 if lost else 42))
    big = b"v" * (32767 - 10 - (0 if lost else 42)) if room == "properties" else b""
    one = columns(
        bodies=texts(body), maps=texts(b"1"), values=texts(big),
        names=kernel.Texts(memoryview(names), array("i", [0, 8]).tobytes(), b"", False, 0, 1), unique_prefix=PREFIX,
    )  # fmt: skip
    size = 4096 if room != "properties" else 40_000
    buffer, file = bytearray(size), AppendTarget()
    file.size = file.reserved = size
    file.start = file.wrote = 0
    file.attach(memoryview(buffer))
    assert one.check(4096, size, False, bytearray(kernel.QUEUES)) == (1, kernel.GOOD)
    names[:] = after
    put = one.put(Appender("ok", HOSTS, 4096, False, 0, 0), file, 0, 5, 1 << 20, {0: QueueCounter(0)}, array("q", [0]))
    file.detach()
    if lost and room == "properties":
        assert (put, one.changed, file.wrote) == (0, kernel.LONG, 0)
    elif lost and room == "file":  # 24 bytes are left that hosts of 20 bytes would take
        assert (put, one.changed, file.wrote) == (0, kernel.ILLEGAL, 0)
    else:
        (found,) = [record.check(buffer, 0, 0, file_end=size, max_size=size)]
        assert put == 1 and found.properties == after + b"\1" + big + b"\2" + (KEY % 0 if lost else b"")


def test_units_of_rows_that_got_a_key_are_not_had_where_the_key_is_wanted():
    one = columns(tags=texts(b"t", b""), unique_prefix=PREFIX)
    first, second = written(one, {0: QueueCounter(0)})
    units = array("i", [0, 0]), array("q", [0, 0]), array("q", [0, 0]), bytearray(40)
    assert one.units(0, 2, 0, 5, array("i", [3]), array("q", [7]), *units) == -1
    assert one.units(0, 2, 0, 5, array("i", [3]), array("q", [7]), *units, False) == first.size
    wanted = [(0, first.size, ord("t")), (first.size, second.size, 0)]
    assert units[3] == b"".join(struct.pack(">qiq", *unit) for unit in wanted)


def test_what_was_let_go_is_put_no_more_and_still_makes_units():
    data = bytearray(b"tag")
    tags = kernel.Texts(memoryview(data), array("i", [0, 3]).tobytes(), b"", False, 0, 1)
    one = columns(bodies=texts(b"1"), tags=tags)
    assert len(written(one, {0: QueueCounter(0)})) == 1
    one.let_go()
    data.clear()  # it is exported no more
    with pytest.raises(ValueError, match="unchecked"):
        written(one, {0: QueueCounter(0)}, check=False)
    units = array("i", [0]), array("q", [0]), array("q", [0]), bytearray(20)
    assert one.units(0, 1, 0, 5, array("i", [3]), array("q", [7]), *units) == 0
    assert units[:3] == (array("i", [3]), array("q", [7]), array("q", [5]))
    size, code = 91 + 1 + 1 + 9, ((ord("t") * 31) + ord("a")) * 31 + ord("g")
    assert units[3] == (0).to_bytes(8, "big") + size.to_bytes(4, "big") + code.to_bytes(8, "big")


def written(
    one: kernel.Columns, places: dict[int, QueueCounter], before: Callable[[], None] = lambda: None, check: bool = True
) -> list[record.Record]:
    """What `put` writes of columns that are checked before, each record fully checked; `before` is called between."""
    buffer, file = bytearray(4096), AppendTarget()
    file.size = file.reserved = 4096
    file.start = file.wrote = 0
    file.attach(memoryview(buffer))
    if check:
        assert one.check(100, 4096, False, bytearray(kernel.QUEUES)) == (one.rows, kernel.GOOD)
    before()
    one.put(Appender("ok", HOSTS, 100, False, 0, 0), file, 0, 5, 4096, places, array("q", bytes(8 * 9)))
    file.detach()
    found, at = [], 0
    while at < file.wrote:
        found.append(record.check(buffer, at, at, file_end=4096, max_size=4096))
        at += found[-1].size
    return found
