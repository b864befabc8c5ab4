"""The job dispatch beside Apache RocketMQ: it follows a log that is written by it, and ends with the same queues."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from flintmq.config.keys import StoreConfig
from flintmq.forensics.rebuild import rebuild
from flintmq.spark.jobs.dispatch.job import dispatch
from tests.interop.java import VERSIONS, Java, home
from tests.robustness.torture_spark.actors import Oracle
from tests.robustness.torture_spark.writer import KEYS
from tests.spark.jobs.dispatch.dispatching import derived, differing, tasks_as_calls

pytestmark = pytest.mark.slow
TURNS = 40  # of 15 messages, with breaks


@pytest.fixture(params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Java:
    """The real store, one version after the other."""
    built, why = home(request.param)
    if built is None:
        pytest.skip(f"RocketMQ {request.param}: {why}")
    return Java(request.param, built)


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
