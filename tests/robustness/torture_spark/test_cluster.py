"""The short form of the cluster's kill run (long: `make torture-cluster`), and that its measure finds what is wrong."""

import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("deltalake", reason="needs the extra delta")
pytest.importorskip("pyiceberg", reason="needs the extra iceberg")

from flintmq import Message, MessageStore
from flintmq.lake.export.export_stream import export_stream
from labs.torture_spark import loop
from labs.torture_spark.check import check_table, count, queued, records
from labs.torture_spark.cluster import BROKERS, KINDS, ClusterRound
from labs.torture_spark.past import Past
from labs.torture_spark.writer import KEYS

KILLS = 4


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc")
@pytest.mark.turn(2, of=["src/flintmq/spark/jobs/export/", "src/flintmq/lake/", "src/flintmq/cluster/"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0])
def test_kills_of_a_cluster(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("labs.torture_spark.cluster.BROKERS", dict.fromkeys(BROKERS, "flintmq"))
    state = loop.run(tmp_path, KILLS, seed=5, say=lambda *_, **__: None, make=ClusterRound, possible=[kind])
    sums = state.sums[", ".join(kind)]
    assert sums["queued"] == sums["exported"] > 0 and sums["stored"] > sums["queued"], "some are in no queue"
    assert sums["moments"] >= 1 and sums["rows of moments"] >= sums["exported"], "the last moment is after the end"


@pytest.fixture
def put(tmp_path: Path):
    """Put messages of 1000 bytes into a store with a log file for each thousand of them."""

    def write(numbers: range) -> list[int]:
        with MessageStore(tmp_path / "broker-a" / "store", config=KEYS, unique_keys=False) as store:
            return [store.put(Message("A", b"%1000d" % n, queue_id=n % 2)).physical_offset for n in numbers]

    return write


def test_the_past_has_what_retention_deleted(tmp_path: Path, put) -> None:
    places = put(range(3000))
    past = Past(tmp_path / "broker-a" / "store", tmp_path / "past")
    assert past.look().total() == 3000
    past.keep()
    first, *_ = sorted((past.store / "commitlog").iterdir())
    first.unlink()
    places += put(range(3000, 3100))
    assert past.look().total() == 3100
    assert min(r.physical_offset for r in records(past.store)) > 0
    whole = past.whole()
    assert sorted(r.physical_offset for r in records(whole)) == places
    assert len(list(queued(whole, {r.physical_offset: r for r in records(whole)}))) == 3100
    assert Past(past.store, tmp_path / "past").look().total() == 3100, "a run that goes on knows them, too"


@pytest.fixture
def moment(tmp_path: Path, put, monkeypatch: pytest.MonkeyPatch):
    """A round whose broker-a has 60 messages, 50 of them in the table, and broker-b none."""
    monkeypatch.setattr("labs.torture_spark.cluster.writer_of", lambda by, folder: None)
    put(range(50))
    with MessageStore(tmp_path / "broker-b" / "store", config=KEYS):
        pass
    found = ClusterRound(loop.State(), tmp_path, KINDS[0], lambda: None)
    (tmp_path / "export.err").touch()
    export_stream(found._stores(), str(found.exporter.table), to="delta", once=True)
    put(range(50, 60))
    return found


def test_a_moment(moment: ClusterRound) -> None:
    moment._moment()
    sums = moment.state.sums[moment.kind]
    assert (sums["moments"], sums["rows of moments"], count(moment.exporter.table)) == (1, 60, 50)
    assert check_table(moment.pasts["broker-a"].whole(), moment.exporter.table, [], "broker-a").wrong == {"missing": 10}


@pytest.mark.parametrize("wrong", ["missing", "doubled", "foreign"])
def test_a_moment_that_is_wrong(moment: ClusterRound, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    there = moment._union()["broker-a"]
    one = next(iter(there))
    if wrong == "missing":
        there -= Counter([one])
    elif wrong == "doubled":
        there[one] += 1
    else:
        there[(*one[:4], b"altered")] += 1
    monkeypatch.setattr(moment, "_union", lambda: {"broker-a": there})
    with pytest.raises(AssertionError, match=f"'{wrong}': 1"):
        moment._moment()


def test_a_broker_that_leaves_is_looked_for_where_it_is(moment: ClusterRound) -> None:
    moment.away.mkdir()
    (moment.folder / "broker-a" / "store").rename(moment.away / "broker-a")
    moment.pasts["broker-a"].store = moment.away / "broker-a"
    moment._moment()
    assert moment.state.sums[moment.kind]["rows of moments"] == 50, "the table has them"
    moment._return()
    moment._moment()
    assert moment.state.sums[moment.kind]["rows of moments"] == 110
