"""Spark's planning leaves out zones of the log without wanted rows; no session is needed for that."""

from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq import Message, MessageStore
from flintmq.lake.read.options import ReadOptions
from flintmq.spark.schema import spark_schema
from flintmq.spark.source import BatchReader
from flintmq.store.commitlog import zone_maps, zones

COUNT = 6000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of a hundred topics in turn whose zones have maps."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FLINTMQ_ZONE_MAPS")
    monkeypatch.setattr(zone_maps, "LEAST_LOG", 0)
    monkeypatch.setattr(zones, "ZONE_BYTES", 4096)
    root = tmp_path / "store"
    with MessageStore(root) as writer:
        for number in range(0, COUNT, 60):
            topic = f"T{number // 60}"
            writer.put_many([Message(topic, b"x" * 200, keys=f"k{n}") for n in range(number, number + 60)])
    assert flintmq.scan_arrow(root, topics="none", strict=False).read_all().num_rows == 0
    return root


def read(store: Path, **options: str) -> tuple[list[str], int]:
    """(keys of the rows, bytes of log that the tasks read)."""
    parsed = ReadOptions.parse({"path": str(store), **options})
    reader = BatchReader(parsed, spark_schema())
    found, size = [], 0
    for split in reader.partitions():
        size += split.part.end - split.part.begin  # type: ignore[attr-defined]
        for batch in reader.read(split):
            found += batch["keys"].to_pylist()
    return found, size


@pytest.mark.parametrize("options", [{}, {"minPartitions": "7"}, {"explode": "true"}])
def test_a_topic_is_a_fraction_of_the_log(store: Path, options: dict[str, str]) -> None:
    everything, size = read(store, **options)
    assert everything == [f"k{n}" for n in range(COUNT)]
    found, read_bytes = read(store, subscribe="T7,T80", **options)
    assert found == [f"k{n}" for topic in (7, 80) for n in range(60 * topic, 60 * topic + 60)]
    assert 0 < read_bytes < size / 5


def test_times_leave_out_zones(store: Path) -> None:
    times: Any = flintmq.scan_arrow(store, ["store_timestamp"]).read_all()["store_timestamp"].to_pylist()
    last = int(times[-1].timestamp() * 1000)
    found, size = read(store, startingTimestamp=str(last))
    wanted = [f"k{n}" for n, time in enumerate(times) if int(time.timestamp() * 1000) >= last]
    assert found == wanted and size < read(store)[1]
    assert read(store, endingTimestamp=str(int(times[0].timestamp() * 1000))) == ([], 0)
