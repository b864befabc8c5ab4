"""Rows put as columns, whose units dispatch makes without reading records: the same units, in every order of things."""

from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.kernels.write import append_columns as kernel
from flintmq.message import Message
from flintmq.store.dispatch.handover import MOST, HandedOver, HandedRows
from tests.store.services.test_dispatch_service import Setup
from tests.support.engine import check_derived

if not kernel.COMPILED:
    pytest.skip("columns are put one by one where kernels are not compiled", allow_module_level=True)

TYPES = {"tags": pa.string(), "keys": pa.string(), "queue_id": pa.int32(), "body": pa.binary()}
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=60),
        "tags": st.none() | st.sampled_from(["", "A", "TagB", "zzzzzzzz", "é", "𝄞"]),
        "keys": st.none() | st.sampled_from(["", "k", "k l"]),
        "queue_id": st.sampled_from([0, 1, 1, 1, 7, 300]),
    }
)


class Handing(Setup):
    """A log and a dispatcher that is handed what is put as columns; counts what it took so."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.log.handed_over = self.dispatch.handed_over = HandedOver()
        self.taken: list[int] = []
        handed_over = self.dispatch.dispatcher.handed_over

        def counted(rows: HandedRows) -> Any:
            block = handed_over(rows)
            if block is not None:
                self.taken.append(rows.last - rows.first)
            return block

        self.dispatch.dispatcher.handed_over = counted  # type: ignore[method-assign]

    def columns(self, rows: list[dict[str, Any]], *names: str) -> None:
        from flintmq.store.append.columns import put_columns

        arrays = {name: pa.array([row[name] for row in rows], TYPES[name]) for name in ("body", *names)}
        result = put_columns(self.log, "T", pa.record_batch(arrays))
        assert result.count == len(rows)

    def check(self) -> None:
        while self.dispatch.dispatch_once():
            pass
        assert self.dispatch.position == self.log.end
        self.index.flush()
        check_derived(self.root)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(ROW, min_size=1, max_size=30),
            st.sets(st.sampled_from(["tags", "keys", "queue_id"])),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_units_are_those_of_the_records(tmp_path_factory, steps):
    s = Handing(tmp_path_factory.mktemp("store"))
    try:
        for rows, names, single, dispatch in steps:
            s.columns(rows, *names)
            if single:
                s.log.append(Message("T", b"single", "X"))
            if dispatch:
                s.dispatch.dispatch_once()
        s.check()
    finally:
        s.close()


def test_plain_rows_are_taken_without_their_records_over_several_files(tmp_path: Path):
    s = Handing(tmp_path)
    rows = [{"body": bytes(50), "tags": "A", "queue_id": n % 3} for n in range(200)]
    s.columns(rows, "tags", "queue_id")
    assert len(s.files.files) > 3
    s.check()
    assert sum(s.taken) == 200 and len(s.taken) >= 4
    s.columns(rows, "tags")
    s.check()
    assert sum(s.taken) == 400
    s.close()


@pytest.mark.parametrize("column, value", [("keys", "k"), ("tags", "é")])
def test_rows_that_need_more_are_read(tmp_path: Path, column: str, value: str):
    s = Handing(tmp_path)
    s.columns([{"body": b"x", column: value}], column)
    s.check()
    assert s.taken == []
    s.close()


def test_what_is_confirmed_in_part_is_read_up_to_there(tmp_path: Path):
    s = Handing(tmp_path)
    s.columns([{"body": b"x" * 9}] * 4)
    size = s.log.end // 4
    s.confirmed = 2 * size
    assert s.dispatch.dispatch_once() and s.dispatch.position == 2 * size
    s.confirmed = None
    s.check()
    assert s.taken == []
    s.close()


def rows_at(begin: int, end: int) -> HandedRows:
    column = kernel.Texts(b"x", array("i", [0, 1]).tobytes(), b"", False, 0, 1)
    columns = kernel.Columns(b"T", column, None, None, None, None, None, array("i"), array("q"))
    return HandedRows(begin, end, b"T", columns, 0, 1, 0, [0], array("q", [0]))


def test_notes_come_in_order_fit_or_are_dropped_and_are_few():
    handed = HandedOver()
    assert handed.take(0, 100) is None and handed.before(100) == 100
    for begin in (10, 20, 30, 40):
        handed.add(rows_at(begin, begin + 10))
    assert handed.take(0, 100) is None and handed.before(100) == 10 and handed.before(5) == 5
    first = handed.take(10, 100)
    assert first is not None and (first.begin, first.end) == (10, 20)
    assert handed.take(20, 25) is None  # confirmed in part: dropped
    assert handed.before(100) == 30
    assert handed.take(35, 100) is None and handed.before(100) == 40  # dispatch is behind its begin: dropped
    for n in range(MOST + 5):
        handed.add(rows_at(50 + n, 51 + n))
    assert handed.take(40, 50) is not None
    assert sum(handed.take(50 + n, 1000) is not None for n in range(MOST + 5)) == MOST - 1


def test_rows_that_were_not_written_make_no_units():
    columns = rows_at(0, 1).columns
    out = array("i", [0]), array("q", [0]), array("q", [0]), bytearray(20)
    with pytest.raises(ValueError):
        columns.units(0, 1, 0, 0, array("i", [0]), array("q", [0]), *out)
