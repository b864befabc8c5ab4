"""Bulk load: the log's files, what stands beside them, and what a kill leaves."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import UsageError
from flintmq.forensics.verify.run import verify
from flintmq.format import checkpoint
from flintmq.message import Message
from flintmq.storage.files.staging import bring_in, staging_for
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from tests.spark.jobs.replay.replaying import SMALL, bulk, held

RUN = """
import sys
import pytest
from pathlib import Path
from tests.spark.jobs.replay.replaying import bulk, tasks_as_calls
tasks_as_calls(pytest.MonkeyPatch())
print("begin", flush=True)
bulk(sys.argv[1], Path(sys.argv[2]))
print("done", flush=True)
"""


def test_the_store_is_whole_and_the_engine_goes_on(golden: Any, tmp_path: Path) -> None:
    root = tmp_path / "new"
    bulk(golden("basic").path, root)
    assert {name: topic.write_queues for name, topic in read_config(str(root)).topics.items()} == dict.fromkeys(
        ("Orders", "Shipments", "Payments", "库存"), 8
    )
    times = checkpoint.decode((root / "checkpoint").read_bytes())
    last = golden("basic").rows[-1]["store_timestamp"]
    assert (times.physic_timestamp, times.logics_timestamp) == (last, last) and 0 < times.index_timestamp <= last
    assert not (root / "abort").exists()
    with MessageStore(root, SMALL) as store:
        assert store.put(Message("Orders", b"next", queue_id=1)).queue_offset == 185
        assert store.wait_dispatched(60)
    assert verify(str(root), SMALL).defect_counts == {}


def test_a_store_tells_how_many_queues_its_topics_have(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "old", dev=True) as store:
        store.create_topic("Few", 3)
        store.create_topic("None", 5)
        store.put_many([Message("Few", b"x"), Message("Unmade", b"y", queue_id=11)])
    bulk(tmp_path / "old", tmp_path / "new")
    found = read_config(str(tmp_path / "new")).topics
    assert {name: topic.write_queues for name, topic in found.items()} == {"Few": 3, "Unmade": 12}


def test_store_times_never_step_back(golden: Any, tmp_path: Path) -> None:
    bulk(golden("basic").path, tmp_path / "new")
    with flintmq.open_store(tmp_path / "new") as store:
        times = [message.store_timestamp for message in store.messages()]
    assert times == sorted(times) == [row["store_timestamp"] for row in golden("basic").rows]


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    with staging_for(str(tmp_path / "new"), "replay") as staging:
        (Path(staging) / "store").mkdir()
        with pytest.raises(UsageError, match="another replay"), staging_for(str(tmp_path / "new"), "replay"):
            pass
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").write_text("")
        with pytest.raises(UsageError, match="meanwhile"):
            bring_in(staging, str(tmp_path / "new"))
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == ["mine"]


def test_a_kill_leaves_no_store_or_the_whole(golden: Any, tmp_path: Path) -> None:
    """At random moments, from a seed; then a run without a kill."""
    source, root, chance = golden("basic").path, tmp_path / "new", random.Random(20)
    want = held(source)
    folder = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder)])}
    killed = 0
    for number in range(8):
        words = [sys.executable, "-c", RUN, str(source), str(root)]
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None and run.stdout.readline() == "begin\n"
            time.sleep(chance.uniform(0.0, 0.02 + 0.08 * number))  # the first one surely amid it
            run.send_signal(signal.SIGKILL)
            killed += run.wait(60) == -signal.SIGKILL
        if root.exists():
            assert held(root) == want
            break
    assert killed
    bulk(source, root)
    assert held(root) == want and os.listdir(tmp_path) == ["new"]
