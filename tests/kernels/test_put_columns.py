"""kernels/put_columns: buffers that do not hold what they should are refused. What is written: tests/store."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.format import record
from flintmq.kernels import put_columns as kernel
from flintmq.kernels.appender import Appender, Place, Target

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
    file = Target()
    file.size, file.start, file.wrote, file.reserved = 4096, 8192, 0, 150
    appender = Appender("ok", HOSTS, 1 << 20, False, 8192, 0)
    one, places = columns(), {0: Place(7)}
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
    assert one.behind == size
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
    records = written(one, {1: Place(0)})
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

    records = written(one, {0: Place(0)}, changed)
    assert one.changed == what
    assert len(records) == (2 if what == kernel.GOOD else 1)
    assert records[0].properties == b"first\1first\2KEYS\1first\2TAGS\1first\2" and records[0].body == b"first"
    if what == kernel.GOOD:
        assert text in records[1].body + records[1].properties


def test_what_was_let_go_is_put_no_more_and_still_makes_units():
    data = bytearray(b"tag")
    tags = kernel.Texts(memoryview(data), array("i", [0, 3]).tobytes(), b"", False, 0, 1)
    one = columns(bodies=texts(b"1"), tags=tags)
    assert len(written(one, {0: Place(0)})) == 1
    one.let_go()
    data.clear()  # it is exported no more
    with pytest.raises(ValueError, match="unchecked"):
        written(one, {0: Place(0)}, check=False)
    units = array("i", [0]), array("q", [0]), array("q", [0]), bytearray(20)
    assert one.units(0, 1, 0, 5, array("i", [3]), array("q", [7]), *units) == 0
    assert units[:3] == (array("i", [3]), array("q", [7]), array("q", [5]))
    size, code = 91 + 1 + 1 + 9, ((ord("t") * 31) + ord("a")) * 31 + ord("g")
    assert units[3] == (0).to_bytes(8, "big") + size.to_bytes(4, "big") + code.to_bytes(8, "big")


def written(
    one: kernel.Columns, places: dict[int, Place], before: Callable[[], None] = lambda: None, check: bool = True
) -> list[record.Record]:
    """What `put` writes of columns that are checked before, each record fully checked; `before` is called between."""
    buffer, file = bytearray(4096), Target()
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
