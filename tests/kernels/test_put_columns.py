"""kernels/put_columns: buffers that do not hold what they should are refused. What is written: tests/store."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

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
