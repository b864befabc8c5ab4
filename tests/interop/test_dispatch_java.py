"""The job dispatch beside Apache RocketMQ: it follows a log that is written by it, and ends with the same queues."""

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from flintmq.message import Message
from flintmq.spark.jobs.dispatch import job
from flintmq.spark.jobs.dispatch.job import dispatch
from flintmq.store.commitlog.end_of_log import read_facts
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import SMALL
from labs.torture_spark.actors import Oracle
from labs.torture_spark.writer import KEYS
from tests.interop.java import Java
from tests.spark.jobs.dispatch.dispatching import derived, differing, tasks_as_calls
from tests.support.crashed import Clock

pytestmark = pytest.mark.slow
TURNS = 40  # of 15 messages, with breaks


def test_the_job_follows_a_log_that_rocketmq_writes(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tasks_as_calls(monkeypatch, 2, twice=False)
    root, into, config = tmp_path / "store", tmp_path / "into", StoreConfig.from_keys(KEYS)
    stop, failed, seen = threading.Event(), [], []
    writer = Oracle(tmp_path, java)

    def follow() -> None:
        try:
            dispatch(None, str(root), str(into), config, java.version, interval_s=0.02, stop=stop, on_round=seen.append)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=follow)
    writer.start("1", turns=TURNS)
    try:
        assert writer.process is not None
        while not (root / "commitlog").is_dir() and writer.process.poll() is None:
            threading.Event().wait(0.05)
        thread.start()
        assert writer.process.wait(60) == 0, (tmp_path / "java.err").read_text()[-1000:]
    finally:
        writer.kill()
        stop.set()
        thread.join(60)
    assert failed == [] and not thread.is_alive()
    assert len(seen) > 5, "it followed, and did not come at the end alone"
    rebuild(str(root), str(tmp_path / "local"), config, java.version)
    assert differing(into, tmp_path / "local") == []
    javas = {name: data for name, data in derived(root).items() if name.startswith("consumequeue/")}
    ours = {name: data for name, data in derived(into).items() if name.startswith("consumequeue/")}
    assert ours == javas and len(list(writer.acknowledged())) == 15 * TURNS


def java_goes_on(java: Java, root: Path, put: dict[str, Any], count: int, keys: int) -> None:
    """Java gives the next queue offset, and finds all messages, and each by its key."""
    assert java("run", root, SMALL, [put, {"op": "dispatch"}], ["T"])[0]["queue_offset"] == count
    found = java("dump", root, SMALL, topics=["T"], ask=[f"T:k{n}" for n in range(keys)])
    messages = [row for row in found if row["kind"] == "message"]
    assert [row["message"]["queue_offset"] for row in messages] == list(range(count + 1))
    places = [row["position"] for row in messages[:keys]]
    assert [row["physical_offsets"] for row in found if row["kind"] == "key"] == [[place] for place in places]


def test_d35_java_goes_on_after_a_job_that_completed_a_store_closed_with_queues_lag(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """However many files it had to complete: the job removes `abort`, and Java finds queues and keys whole."""
    tasks_as_calls(monkeypatch, 2, twice=False)
    root, count = tmp_path / "store", 300
    for dispatched in (False, True):
        first = count * dispatched
        with MessageStore(root, config=SMALL, unique_keys=False, dispatch="external") as store:
            for n in range(first, first + count):
                assert store.put(Message("T", bytes(1000), keys=f"k{n}")).queue_offset == n
        assert (root / "abort").exists() and read_facts(str(root)).lagging
        assert len(list((root / "commitlog").iterdir())) > 10 * (1 + dispatched)
        dispatch(None, str(root), str(root), StoreConfig.from_keys(SMALL), java.version, once=True)
        assert not (root / "abort").exists()
    put = {"op": "put", "topic": "T", "queue": 0, "keys": f"k{2 * count}", "body": {"hex": "00"}}
    java_goes_on(java, root, put, 2 * count, keys=2 * count + 1)


def test_d6_java_makes_queues_again_that_a_killed_job_had_removed(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The store had stopped cleanly, with queues up to its end, as its checkpoint said; the job takes that back."""
    tasks_as_calls(monkeypatch, 2, twice=False)
    root, clock, count = tmp_path / "store", Clock(), 60
    with MessageStore(root, config=SMALL, effects=clock, unique_keys=False) as store:
        for n in range(count):
            assert store.put(Message("T", bytes(1000), keys=f"k{n}")).queue_offset == n
            clock.clock += 1000
    assert 3 < len(list((root / "commitlog").iterdir())) < 10 and not (root / "abort").exists()
    monkeypatch.setattr(job, "stage_range", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        dispatch(None, str(root), str(root), StoreConfig.from_keys(SMALL), java.version, once=True, anew=True)
    assert not list((root / "consumequeue").glob("*")) and read_facts(str(root)).lagging
    put = {"op": "put", "topic": "T", "queue": 0, "body": {"hex": "00"}}
    java_goes_on(java, root, put, count, keys=count)
