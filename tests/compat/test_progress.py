"""What FlintMQ 0.1.0 left is continued, each message once, and gets what it lacks; or it is refused by name."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from flintmq import open_store
from flintmq.errors import FlintError, UsageError
from flintmq.lake.export.export import Exported
from flintmq.lake.export.export_once import export
from flintmq.lake.export.export_stream import export_stream
from flintmq.lake.history.diff_table import compare_table
from flintmq.lake.history.history import History
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from tests.compat.recorded import ARCHIVE, OF_A, STORED, bodies_in, put, recorded

ONE_STORE = [f"{to}-{way}" for to in ("parquet", "delta", "iceberg") for way in ("once", "topic", "none", "stream")]
TOPICS = {"topic": ["A"], "none": ["C"]}


@pytest.fixture
def place() -> Iterator[Path]:
    with recorded() as found:
        yield found


def again(place: Path, table: str) -> Exported:
    """Continue a table as it was made."""
    to, _, way = table.partition("-")
    kinds: dict[str, Any] = {} if to not in ("parquet", "delta", "iceberg") else {"to": to}
    if to in ("delta", "spark"):
        kinds["to"] = "delta"
    store = str(place / "brokers" / "{broker}") if to == "brokers" else str(place / "store")
    if table == "copied":
        kinds["checkpoint"] = str(place / "copied-progress")
    if way == "stream":
        return export_stream(store, str(place / table), once=True, **kinds)
    return export(store, str(place / table), topics=TOPICS.get(way), **kinds)


def manifest(table: Path) -> dict[str, Any]:
    """The newest manifest of a table."""
    names = sorted(table.glob("_flintmq/*.json")) or sorted(table.glob("export=*/_flintmq.json"))
    found: dict[str, Any] = json.loads(names[-1].read_text())
    return found


def test_the_archive_is_the_one_that_was_recorded():
    wanted = "404af2136547454ce377907fe69b507cf4b66a10799e21f4af3aea5f12854e61"
    assert hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() == wanted


@pytest.mark.parametrize("table", [*ONE_STORE, "copied", "spark-stream"])
def test_a_table_goes_on(place, table):
    way = table.partition("-")[2]
    assert "flintmq" not in manifest(place / table) and manifest(place / table)["format"] == 1
    there = {"topic": OF_A, "none": Counter[bytes]()}.get(way, STORED)
    assert bodies_in(place / table) == there
    first = again(place, table)
    assert (first.rows, first.exit_code) == (0, 0) and bodies_in(place / table) == there
    # A stream names the last record that it read, also in 0.1; a single export the last that it wrote.
    unchecked = 0 if way == "stream" else 1
    assert first.notes.get("unchecked", 0) == unchecked

    put(place / "store", "C", [b"c-new"])
    put(place / "store", "A", [b"a-new-0", b"a-new-1"])
    put(place / "store", "B", [b"b-new"])
    more = {"topic": [b"a-new-0", b"a-new-1"], "none": [b"c-new"]}
    new = Counter(more.get(way, [b"c-new", b"a-new-0", b"a-new-1", b"b-new"]))
    second = again(place, table)
    assert (second.rows, second.exit_code) == (new.total(), 0)
    assert bodies_in(place / table) == there + new

    with open_store(place / "store") as view:
        records = [message for message in view.messages() if way != "stream" or message.body in there + new]
    made, last = manifest(place / table), records[-1]
    assert (made["format"], made["flintmq"], made["at_end"]) == (2, "0.2.0", True)
    assert made["anchor"] == {
        "physical_offset": last.physical_offset, "size": last.size,
        "store_timestamp": last.store_timestamp, "body_crc": last.body_crc,
    }  # fmt: skip
    third = again(place, table)
    assert (third.rows, third.notes) == (0, {})
    assert bodies_in(place / table) == there + new
    assert compare_table(str(place / "store"), str(place / table)).equal


@pytest.mark.parametrize("table", ["brokers-once", "brokers-stream"])
def test_a_table_of_several_stores_goes_on(place, table):
    there = bodies_in(place / table)
    assert there.total() == 7
    put(place / "brokers" / "y", "A", [b"y-new"])
    done = again(place, table)
    assert done.rows == 1 and bodies_in(place / table) == there + Counter([b"y-new"])
    assert done.notes.get("unchecked", 0) == (2 if table == "brokers-once" else 0)
    members = manifest(place / table)["members"]
    # The export had nothing of x, so nothing is known of it that was not known before.
    assert (members["x"]["at_end"], members["y"]["at_end"]) == (table == "brokers-stream", True)
    assert compare_table(str(place / "brokers" / "{broker}"), str(place / table)).equal


@pytest.mark.parametrize("table", ONE_STORE)
@pytest.mark.parametrize("how", ["another", "shorter", "gone"])
def test_a_log_that_was_replaced_meanwhile_is_refused_by_every_door(place, table, how):
    """Also where 0.1 named no record at all: a log that does not have a record where the table ends is another."""
    shutil.rmtree(place / "store" / "commitlog")
    shutil.rmtree(place / "store" / "consumequeue")
    shutil.rmtree(place / "store" / "index")
    for name in ("checkpoint", "flintmq.mark", "flintmq.queues"):
        (place / "store" / name).unlink()
    sizes = {"another": 90, "shorter": 3, "gone": 1}
    put(place / "store", "A", [b"another %d" % number * 3 for number in range(sizes[how])])
    put(place / "store", "C", [b"another"])
    before, doors = bodies_in(place / table), 0

    def history() -> None:
        frame = History.open(str(place / "store"), str(place / table), Predicate())
        for _ in frame.rows(frame.schema, Report()):
            pass

    def compared() -> None:
        compare_table(str(place / "store"), str(place / table))

    why = r"the log ends at|log offset \d+ is another|no record begins at"
    for door in (lambda: again(place, table), history, compared):
        with pytest.raises(FlintError, match=why) as caught:
            door()
        assert "\n" not in str(caught.value) and "salvage" not in str(caught.value)
        assert isinstance(caught.value, UsageError)
        doors += 1
    assert doors == 3 and bodies_in(place / table) == before


@pytest.mark.parametrize("into", ["replayed-live", "replayed-bulk"])
def test_a_replay_goes_on(place, into):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from flintmq.spark.jobs.replay.job import replay

    assert replay(None, str(place / "store"), str(place / into)).rows == 0
    put(place / "store", "A", [b"new"])
    assert replay(None, str(place / "store"), str(place / into)).rows == 1
    with open_store(place / into) as view:
        messages = list(view.messages())
    assert Counter(message.body for message in messages) == STORED + Counter([b"new"])
    ledger = json.loads((place / into / "flintmq.puts").read_text())
    assert (ledger["format"], ledger["flintmq"]) == (2, "0.2.0")
    (writer,) = ledger["givers"].values()
    assert writer["anchor"]["physical_offset"] == messages[-1].physical_offset
    assert replay(None, str(place / "store"), str(place / into)).rows == 0


def test_a_store_with_its_marks_goes_on(place):
    """The durable mark and the queues' ends of 0.1 count, and are written anew."""
    assert (place / "store" / "flintmq.queues").read_bytes().startswith(b"[")
    put(place / "store", "A", [b"new"])
    with open_store(place / "store") as view:
        assert Counter(message.body for message in view.messages()) == STORED + Counter([b"new"])
    ends = json.loads((place / "store" / "flintmq.queues").read_text())
    assert (ends["format"], ends["flintmq"]) == (2, "0.2.0")
    assert ["A", 0, 6] in ends["queues"] and ["B", 1, 10] in ends["queues"]


def test_the_offset_of_a_query_goes_on_and_names_its_record(place, no_grace):
    """The checkpoint of a Spark query, read as Spark hands it over, without Spark."""
    from flintmq.lake.stream.members import StoresStream
    from flintmq.lake.stream.options import StreamOptions

    start = json.loads((place / "query" / "offsets" / "0").read_text().splitlines()[-1])
    assert "@format" not in start and start["B/1"] == 10
    stream = StoresStream(StreamOptions.parse({"path": str(place / "store")}))
    assert stream.tasks(start, stream.next_end(start)) == []
    put(place / "store", "A", [b"new"])
    end = StoresStream(StreamOptions.parse({"path": str(place / "store")})).next_end(start)
    assert (end["@format"], end["@flintmq"], end["A/0"]) == (2, "0.2.0", 6) and end["@size"] > 0
    shutil.rmtree(place / "store")
    put(place / "store", "A", [b"another"] * 100)
    with pytest.raises(FlintError, match="topic 'B'|is another record"):
        StoresStream(StreamOptions.parse({"path": str(place / "store")})).next_end(start)


def test_a_dispatch_and_a_copy_are_read(place):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from flintmq.spark.jobs.dispatch.state import load
    from flintmq.storage.files.filesystem import REAL
    from flintmq.store.commitlog.anchor import anchor_at
    from flintmq.store.commitlog.snapshot import Snapshot
    from flintmq.store.layout import followed

    state, log = load(str(place / "dispatched")), Snapshot.open(str(place / "store")).log
    assert state is not None and state.position == 4420
    assert state.anchor is not None and state.anchor == anchor_at(log, state.anchor.physical_offset)
    found = followed.read(str(place / "copy"), REAL)
    assert found is not None and (found.chosen, found.begin) == ("first", 0)
    followed.write(str(place / "copy"), found, REAL)
    assert json.loads((place / "copy" / "flintmq.follow").read_text())["flintmq"] == "0.2.0"
