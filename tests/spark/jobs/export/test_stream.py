"""Streaming export: every message once, whatever dies and whenever."""

import signal
import subprocess
import sys
import threading
from collections import Counter

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.spark.jobs.export import job as batch_job
from flintmq.spark.jobs.export.job import export_stream
from tests.spark.stream.drive import Writer, in_queues


def run(store, out, path=None, **named):
    config = StoreConfig.from_keys(store.config)
    return export_stream(None, str(path or store.path), str(out), config, **{"once": True, **named})


def exported(out, column="physical_offset"):
    """A column of what readers find there."""
    if (out / "_delta_log").exists():
        return sorted(DeltaTable(str(out)).to_pyarrow_table()[column].to_pylist())
    files = out.glob("export=*/**/*.parquet")
    return sorted(value for file in files for value in pq.read_table(file)[column].to_pylist())


def numbers(out):
    return sorted(int(body.split(b".")[0]) for body in exported(out, "body"))


@pytest.mark.parametrize("to", ["parquet", "delta"])
@pytest.mark.parametrize("name", ["basic", "rolled", "flags", "batch", "crash"])
def test_every_message_once(golden, in_process, tmp_path, name, to):
    store, told = golden(name), []
    done = run(store, tmp_path, max_offsets=5 + len(store.live) // 6, on_batch=told.append, to=to)
    assert exported(tmp_path) == in_queues(store.live)
    assert done.rows == sum(one.rows for one in told) == len(in_queues(store.live))
    assert [one.number for one in told] == list(range(1, len(told) + 1)) and done.number == len(told) > 1
    again = run(store, tmp_path, to=to)
    assert (again.number, again.rows, again.end) == (0, 0, done.end)


def test_what_is_refused(golden, in_process, tmp_path):
    store = golden("basic")
    run(store, tmp_path / "a", topics=["Orders"])
    with pytest.raises(UsageError, match="exports with other --topic"):
        run(store, tmp_path / "a")
    with pytest.raises(UsageError, match="exports made with --follow"):
        batch_job.export(None, str(store.path), str(tmp_path / "a"), topics=["Orders"])
    with pytest.raises(UsageError, match="another store"):
        run(golden("v540"), tmp_path / "a", topics=["Orders"])
    with pytest.raises(UsageError, match="compression 'zip'"):
        run(store, tmp_path / "b", compression="zip")


def test_expired_before_it_was_exported(golden, in_process, tmp_path):
    store = golden("basic")
    path = store.copy(tmp_path)
    stop = threading.Event()
    run(store, tmp_path / "out", path, max_offsets=50, stop=stop, on_batch=lambda done: stop.set())
    files = sorted((path / "commitlog").iterdir())
    for file in files[:2]:
        file.unlink()
    with pytest.raises(StoreError, match="have expired and were not read"):
        run(store, tmp_path / "out", path)
    run(store, tmp_path / "out", path, fail_on_data_loss=False)
    first = int(files[2].name)
    want = [offset for number, offset in enumerate(in_queues(store.rows)) if number < 50 or offset >= first]
    assert exported(tmp_path / "out") == want


def test_it_follows_until_it_is_stopped(in_process, tmp_path):
    writer, stop, added = Writer(tmp_path / "store"), threading.Event(), []

    def on_batch(done):
        added.append(done.rows)
        if len(added) < 4:
            writer.put_all(25)
        else:
            stop.set()

    with writer.store:
        writer.put_all(25)
        done = export_stream(None, writer.path, str(tmp_path / "out"), interval_s=0.01, stop=stop, on_batch=on_batch)
    assert added == [25] * 4 and done.rows == 100
    assert numbers(tmp_path / "out") == list(range(100))


@pytest.mark.spark
def test_the_command_is_killed_and_stopped(tmp_path):
    """kill -9 after its first micro-batches, then SIGTERM, while the engine writes; each message is there once."""
    writer, out = Writer(tmp_path / "store"), tmp_path / "lake"
    words = [sys.executable, "-m", "flintmq", "spark", "export", str(writer.path), "--out", str(out)]
    words += ["--follow", "--interval", "0", "--max-offsets", "150", "--master", "local[2]"]
    with writer.store:
        writer.put_all(400)
        for number in (signal.SIGKILL, signal.SIGTERM):
            with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
                told = (line for line in child.stderr if " rows up to log offset " in line)
                next(told)
                writer.put_all(100)
                while number == signal.SIGTERM and len(numbers(out)) < writer.count:
                    next(told)
                child.send_signal(number)
                child.stderr.read()
                assert child.wait(60) == (0 if number == signal.SIGTERM else -number)
    assert Counter(numbers(out)) == Counter(range(writer.count))
