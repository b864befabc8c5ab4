"""Bodies that are flagged as compressed and are not: kept as they are in every form and door, and counted."""

import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import flintmq
from flintmq import Message
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.history.diff_table import compare_table
from tests.support.engine import put_messages

WHY = "flagged as compressed, and is not"
COMPRESSED, LZ4 = 1, 1 | 1 << 8
SENT = [
    (b'{"a": 1}', 0),
    (b'{"a": 2}', COMPRESSED),
    (zlib.compress(b'{"a": 3}'), COMPRESSED),
    (zlib.compress(b'{"a": 4}')[:-5], COMPRESSED),
    (b"", COMPRESSED),
    (b"\xff", 0),
    (b'{"a": 5}', 1 | 7 << 8),
]
"""Bodies with their flags: the last has a kind of compression that nobody knows."""
TEXTS = ['{"a": 1}', None, '{"a": 3}', None, None, "�", None]
RAW = [None, SENT[1][0], None, SENT[3][0], b"", b"\xff", SENT[6][0]]
FORMS: dict[str, Any] = {"text": {"body": "text"}, "json": {"body": "json", "body_schema": "a long"}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    put_messages(tmp_path / "s", (Message("T", body, sys_flag=flag) for body, flag in SENT), dev=True)
    return tmp_path / "s"


def rows_of(out: Path) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(path).read() for path in out.glob("export=*/**/*.parquet")]
    return sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["physical_offset"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lenient", [False, True])
def test_an_export_keeps_and_counts_them(store: Path, tmp_path: Path, form: str, lenient: bool) -> None:
    dead = str(tmp_path / "dead")
    done = export(store, str(tmp_path / "out"), dead_letters=dead, fail_on_data_loss=not lenient, **FORMS[form])
    rows = rows_of(tmp_path / "out")
    texts: list[Any] = TEXTS if form == "text" else [1, None, 3, None, None, None, None]
    assert [row["body"] if form == "text" else row["body"] and row["body"]["a"] for row in rows] == texts
    assert [row["body_raw"] for row in rows] == RAW
    assert done.bad_bodies == 5 and done.bad_reasons == {WHY: 4, "not UTF-8": 1}
    assert done.damages == 0 and done.lost_bytes == 0
    assert [row["reason"] for row in rows_of(tmp_path / "dead")].count(WHY) == 4


def test_other_doors_agree(store: Path, tmp_path: Path) -> None:
    """History reads the rest of the log in the table's form; diff compares with it."""
    export(store, str(tmp_path / "out"), **FORMS["text"])
    put_messages(store, [Message("T", b"no ZLIB", sys_flag=COMPRESSED)], dev=True)
    rows = flintmq.scan_arrow(store, ["body", "body_raw"], history=tmp_path / "out").read_all().to_pylist()
    assert [row["body"] for row in rows] == [*TEXTS, None]
    assert [row["body_raw"] for row in rows] == [*RAW, b"no ZLIB"]
    assert compare_table(store, str(tmp_path / "out")).equal
    followed = export_stream(str(store), str(tmp_path / "stream"), once=True, **FORMS["json"])
    assert followed.rows == 8 and followed.bad_reasons == {WHY: 5, "not UTF-8": 1}
    assert [row["body_raw"] for row in rows_of(tmp_path / "stream")] == [*RAW, b"no ZLIB"]
