"""Topics whose own name begins with %LMQ%: a stream reads their messages once, and light queues not besides."""

from pathlib import Path

import pytest

from flintmq import Message, MessageStore, StoreConfig
from flintmq.lake.history.diff_table import compare_table
from tests.support.exporting import once, whole

OWN, LIGHT = "%LMQ%own", "%LMQ%device"
KEYS = {"enableLmq": True, "enableMultiDispatch": True}


def put(store: Path) -> None:
    with MessageStore(store, KEYS) as opened:
        for number in range(6):
            assert opened.put(Message(OWN, b"own %d" % number)).status.name == "PUT_OK"
            sent = Message("Plain", b"plain %d" % number, properties={"INNER_MULTI_DISPATCH": LIGHT})
            assert opened.put(sent).status.name == "PUT_OK"


def topics(out: Path) -> dict[str, int]:
    import pyarrow.parquet as pq

    found: dict[str, int] = {}
    for path in sorted(out.rglob("*.parquet")):
        for topic in pq.ParquetFile(path).read(["topic"])["topic"].to_pylist():
            found[topic] = found.get(topic, 0) + 1
    return found


@pytest.mark.parametrize("most", [None, 3], ids=["whole-batches", "small-batches"])
def test_a_followed_store(tmp_path: Path, most: int | None) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store)
    once(store, out, config=StoreConfig.from_keys(KEYS), max_offsets=most)
    put(store)
    once(store, out, config=StoreConfig.from_keys(KEYS), max_offsets=most)
    assert topics(out) == {OWN: 12, "Plain": 12}
    found = compare_table(str(store), str(out), StoreConfig.from_keys(KEYS))
    assert (found.messages, found.waiting, found.equal) == (24, 0, True)


def test_an_export_in_one_pass_has_the_same(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store)
    whole(store, out)
    assert topics(out) == {OWN: 6, "Plain": 6}


@pytest.mark.parametrize(("asked", "rows"), [(OWN, {OWN: 6}), (LIGHT, {"Plain": 6})])
def test_a_named_one(tmp_path: Path, asked: str, rows: dict[str, int]) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    put(store)
    once(store, out, topics=[asked])
    assert topics(out) == rows
