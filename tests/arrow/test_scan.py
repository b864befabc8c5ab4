"""scan_arrow: golden stores as Java reads them, its arguments, damage, and other libraries on it."""

import datetime
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import flintmq
from flintmq import scan_arrow
from flintmq.arrow.options import ScanOptions
from flintmq.arrow.scan import PieceMemory, batches
from flintmq.arrow.schema import SCHEMA, narrow
from flintmq.errors import ConfigError, CorruptStoreError, LostLogError, NotAStoreError, UsageError
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.report import Report
from tests.compat.stores import Golden
from tests.support.arrow_rows import java_differs, rows_of
from tests.support.makers import hurt_body
from tests.support.threads import at_once

Rows = list[dict[str, Any]]


def scan(store: Golden | Path, **options: Any) -> Rows:
    return rows_of(scan_arrow(store.path if isinstance(store, Golden) else store, **options).read_all())


@pytest.mark.parametrize("access", ["pread", "map"])
def test_golden_stores_as_java_reads_them(golden_store: Golden, access: str) -> None:
    rows = scan(golden_store, access=access, set=golden_store.config)
    assert len(rows) == len(golden_store.live) + golden_store.expect.get("beyond", 0)
    assert [text for java, row in zip(golden_store.live, rows, strict=False) if (text := java_differs(java, row))] == []


def test_the_public_name() -> None:
    assert flintmq.scan_arrow is scan_arrow


def test_without_pyarrow_the_error_names_the_extra() -> None:
    code = """
import importlib.util, flintmq
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "pyarrow" else found(name, *rest)
try:
    flintmq.scan_arrow
except flintmq.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'flintmq[arrow]'" in done.stdout


def test_columns_and_their_order(golden: Any) -> None:
    reader = scan_arrow(golden("basic").path, columns=["queue_offset", "topic"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == narrow(["queue_offset", "topic"])
    assert reader.read_all().to_pylist() == [
        {"queue_offset": row["queue_offset"], "topic": row["topic"]} for row in golden("basic").rows
    ]


CASES = {
    "a topic": ({"topics": "Payments"}, lambda row: row["topic"] == "Payments"),
    "topics": ({"topics": ["Payments", "Orders"]}, lambda row: row["topic"] in ("Payments", "Orders")),
    "queue ids": ({"queues": [1, 2]}, lambda row: row["queue_id"] in (1, 2)),
    "a queue": ({"queues": [("Payments", 1)]}, lambda row: (row["topic"], row["queue_id"]) == ("Payments", 1)),
    "a queue's range": (
        {"queues": [("Payments", 1, 5, 9)]},
        lambda row: (row["topic"], row["queue_id"]) == ("Payments", 1) and 5 <= row["queue_offset"] < 9,
    ),
    "a queue from somewhere": (
        {"queues": [("Payments", 1, 5, None), ("Payments", 2)]},
        lambda row: (
            (row["topic"], row["queue_id"]) == ("Payments", 2)
            or ((row["topic"], row["queue_id"]) == ("Payments", 1) and row["queue_offset"] >= 5)
        ),
    ),
    "no queue": ({"queues": []}, lambda row: False),
    "since": ({"since": 1795167380700}, lambda row: row["store_timestamp"] >= 1795167380700),
    "until, as a date": (
        {"until": datetime.datetime(2026, 11, 20, 9, 36, 20, 700_000, datetime.UTC)},
        lambda row: row["store_timestamp"] < 1795167380700,
    ),
    "a tag": ({"tags": "TagA"}, lambda row: row["tags"] == "TagA"),
    "tags": ({"tags": {"TagB", "报警"}}, lambda row: row["tags"] in ("TagB", "报警")),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_for(golden: Any, name: str) -> None:
    options, wanted = CASES[name]
    store = golden("basic")
    expected = [row["physical_offset"] for row in store.rows if wanted(row)]
    assert [row["physical_offset"] for row in scan(store, **options)] == expected
    assert bool(expected) == (name != "no queue")


def test_ranges_of_the_log(golden: Any) -> None:
    store = golden("rolled")
    offsets = [row["physical_offset"] for row in store.rows]
    for begin, end in ((0, 50), (20, 21), (100, 374), (7, 7)):
        last = offsets[end] if end < len(offsets) else offsets[-1] + store.rows[-1]["size"]
        got = scan(store, begin=offsets[begin] if begin else None, end=last)
        assert [row["physical_offset"] for row in got] == offsets[begin:end]


def test_damage_is_an_error_that_names_the_place(golden: Any, tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    row = golden("basic").rows[1500]
    file, position = hurt_body(path, row["physical_offset"])
    for access in ("pread", "map"):
        with pytest.raises(CorruptStoreError) as caught:
            scan(path, access=access)
        assert (caught.value.file, caught.value.position) == (str(file), position)
        report = Report()
        rest = scan(path, access=access, strict=False, report=report)
        assert [r["physical_offset"] for r in rest] == [
            r["physical_offset"] for r in golden("basic").rows if r is not row
        ]
        assert (report.damage_count, report.lost_bytes) == (1, row["size"])


def test_nothing_is_read_before_the_reader_is(golden: Any, tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    reader = scan_arrow(path)
    shutil.rmtree(path)
    assert reader.schema == SCHEMA
    with pytest.raises(LostLogError, match="the checkpoint records a flushed record"):  # all of it cannot expire
        reader.read_all()


def test_several_directories_and_keys(golden: Any, tmp_path: Path) -> None:
    path = golden("basic").copy(tmp_path)
    (tmp_path / "other").mkdir()
    for file in sorted((path / "commitlog").iterdir())[1::2]:
        file.rename(tmp_path / "other" / file.name)
    keys = {"storePathCommitLog": f"{path / 'commitlog'},{tmp_path / 'other'}"}
    assert len(scan(path, set=keys)) == 3000
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={keys['storePathCommitLog']}\n")
    assert len(scan(path, config=conf)) == 3000


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"columns": ["bodys"]}, UsageError, "did you mean body"),
        ({"access": "mmap"}, UsageError, "pread, map"),
        ({"batch_bytes": 0}, UsageError, "batch_bytes"),
        ({"since": datetime.datetime(2026, 1, 1)}, UsageError, "no time zone"),
        ({"until": 2**70}, UsageError, "ms since 1970"),
        ({"queues": [("T",)]}, UsageError, "not a queue"),
        ({"queues": ["T"]}, UsageError, "not a queue"),
        ({"queues": [1, ("T", 1)]}, UsageError, "all ids, or all of named topics"),
        ({"set": {"mappedFileSizeCommitlog": 1}}, ConfigError, "mappedFileSizeCommitLog"),
    ],
)
def test_wrong_use(golden: Any, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        scan_arrow(golden("basic").path, **options)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="holds commitlog"):
        scan_arrow(tmp_path / "nowhere")


def test_the_generator_that_tasks_use(golden: Any) -> None:
    store = golden("basic")
    log = LogFiles.discover([str(store.path / "commitlog")])
    cut = store.rows[1234]["physical_offset"]
    end = store.rows[-1]["physical_offset"] + store.rows[-1]["size"]
    ranges = ScanOptions(end=cut), ScanOptions(begin=cut, end=end)
    parts = [rows_of(list(batches(log, SCHEMA, options=options))) for options in ranges]
    assert [len(part) for part in parts] == [1234, 3000 - 1234]
    assert parts[0] + parts[1] == scan(store)


def test_duckdb_and_polars(golden: Any) -> None:
    """The docs show how; here it is that their answers are right."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    store = golden("basic")
    expected: dict[str, int] = {}
    for row in store.rows:
        expected[row["topic"]] = expected.get(row["topic"], 0) + row["body_length"]
    messages = scan_arrow(store.path, columns=["topic", "body"])
    sql = "select topic, sum(octet_length(body))::bigint from messages group by topic"
    assert dict(duckdb.sql(sql).fetchall()) == expected and messages is not None
    frame = polars.from_arrow(scan_arrow(store.path))
    sizes = frame.group_by("topic").agg(polars.col("body").bin.size().sum())
    assert dict(sizes.iter_rows()) == expected
    assert frame.columns == list(flintmq.COLUMNS)


def place(view: memoryview) -> int:
    return pa.py_buffer(view).address


def test_memory_that_was_let_go_is_given_again() -> None:
    memory = PieceMemory()
    first = memory(1000)
    first[:] = bytes(range(250)) * 4
    assert len(first) == 1000 and first.format == "B" and not first.readonly
    at = place(first)
    second = memory(1000)
    assert place(second) != at
    del first
    third = memory(900)
    assert place(third) == at and len(third) == 900


@pytest.mark.parametrize("hold", ["slice", "buffer", "array", "cast"])
def test_memory_that_something_refers_to_is_not_given(hold: str) -> None:
    memory = PieceMemory()
    view = memory(1024)
    view[:] = b"k" * 1024
    held = {
        "slice": lambda of: of[5:10],
        "buffer": lambda of: pa.py_buffer(of).slice(5, 5),
        "array": lambda of: pa.Array.from_buffers(pa.uint8(), 4, [None, pa.py_buffer(of[8:])]).slice(1),
        "cast": lambda of: of.cast("q")[3:],
    }[hold](view)
    at = place(view)
    del view
    others = [memory(1024) for _ in range(3)]
    for other in others:
        other[:] = b"x" * 1024
    assert all(place(other) != at for other in others)
    assert set(bytes(pa.py_buffer(held) if hold != "array" else held.buffers()[1])) == {ord("k")}
    del held
    assert place(memory(1024)) == at


def test_memory_much_larger_than_asked_is_kept_for_others() -> None:
    """A batch would hold all of it."""
    memory = PieceMemory()
    large = place(memory(4096))
    assert place(memory(2047)) != large
    assert place(memory(2048)) == large


def test_what_is_watched_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintmq.arrow.scan.MOST_WATCHED", 10_000)
    before = pa.total_allocated_bytes()
    memory = PieceMemory()
    views = [memory(4096) for _ in range(20)]
    assert pa.total_allocated_bytes() - before >= 20 * 4096
    views.clear()
    assert pa.total_allocated_bytes() - before <= 10_000 + 4096
    assert len(memory(20_000)) == 20_000, "more than all that is watched"
    del memory
    assert pa.total_allocated_bytes() == before


def test_threads_never_get_the_same_memory() -> None:
    memory, wrong = PieceMemory(), []

    def use(number: int) -> None:
        for _ in range(300):
            view = memory(64)
            view[:] = bytes([number]) * 64
            if bytes(view) != bytes([number]) * 64:
                wrong.append(number)

    at_once(*[partial(use, number) for number in range(8)])
    assert not wrong
