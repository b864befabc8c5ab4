"""The short form of the kill run (long: `make torture-spark`), and that its measure finds what is wrong."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("deltalake", reason="needs the extra delta")

from flintmq import Message, MessageStore
from flintmq.spark.jobs.export.job import export_stream
from labs.torture_spark import loop
from labs.torture_spark.check import check_table, count
from labs.torture_spark.writer import KEYS, PREPARED

KILLS = 4


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc")
@pytest.mark.turn(2, of=["src/flintmq/spark/jobs/export/", "src/flintmq/lake/", "src/flintmq/spark/stream.py"])
def test_kills_of_all_kinds(tmp_path, monkeypatch):
    """A few kills, in two runs: the second goes on with what the first left."""
    monkeypatch.setattr(loop, "KINDS", loop.KINDS[:1])
    assert loop.run(tmp_path, KILLS, seed=14, seconds=0, say=lambda *_, **__: None) is None
    state = loop.run(tmp_path, KILLS, seed=99, say=lambda *_, **__: None)
    sums = state.sums["delta, flintmq"]
    assert (state.seed, state.kills, state.round) == (14, KILLS, 1)
    assert sum(sums.get(whom, 0) for whom in loop.VICTIMS) == KILLS == sums["kills"]
    assert sums["queued"] == sums["exported"] > 0 and sums["stored"] > sums["queued"], "some are in no queue"
    assert sums["stored"] >= sums["acknowledged"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    counted = loop.series(state)
    assert counted.rows[0][:2] == ["delta, flintmq", KILLS] and counted.told == {"seed": 14} and counted.run


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """A store of 60 messages, 50 of them queued, and its table of five files."""
    monkeypatch.setattr(
        "flintmq.spark.jobs.tasks.run_tasks", lambda spark, task, items, progress=None: [task(item) for item in items]
    )
    store, table = tmp_path / "store", tmp_path / "table"
    places = []
    with MessageStore(store, config=KEYS, unique_keys=False) as opened:
        for n in range(60):
            flag = PREPARED if n % 6 == 5 else 0
            message = Message("A", b"%d" % n, queue_id=n % 2, sys_flag=flag)
            places.append(opened.put_many([message], delivered=True)[0].physical_offset)
        assert opened.wait_dispatched(60)
    export_stream(None, str(store), str(table), max_offsets=10, once=True)
    return store, table, places


def test_the_measure_of_what_is_right(exported):
    store, table, places = exported
    found = check_table(store, table, places)
    assert found.wrong == {} and count(table) == 50
    assert (found.acknowledged, found.stored, found.queued, found.exported) == (60, 60, 50, 50)


def test_the_measure_of_what_is_wrong(exported):
    store, table, places = exported
    first, second, third, *_ = sorted(table.glob("export=*/**/*.parquet"))
    (first.parent / "again.parquet").write_bytes(first.read_bytes())
    second.unlink()
    rows = pq.ParquetFile(third).read().to_pylist()
    rows[0]["body"] += b"!"
    pq.write_table(pq.ParquetFile(third).read().from_pylist(rows, pq.read_schema(third)), third)
    found = check_table(store, table, [*places, 10**9])
    assert found.wrong == {"missing": 11, "doubled": 10, "foreign": 1, "lost": 1}
    unit = store / "consumequeue" / "A" / "0" / f"{0:020d}"
    data = bytearray(unit.read_bytes())
    data[20:40] = data[40:60]
    unit.write_bytes(data)
    assert check_table(store, table, places).unqueued == 1


def test_a_broken_line_of_a_ledger_is_no_answer(tmp_path: Path):
    from labs.torture_spark.actors import Engine

    lines = [
        {"told": "1", "status": "PUT_OK", "physical_offset": 7},
        {"told": "2", "status": "X", "physical_offset": 8},
    ]
    (tmp_path / "ledger").write_text("\n".join(map(json.dumps, lines)) + '\n{"told": "3", "sta\n')
    assert list(Engine(tmp_path).acknowledged()) == [7]
