"""Lag against the offsets and queue ends that Java wrote and told."""

import json
import shutil
from pathlib import Path

from flintmq.config.keys import StoreConfig
from flintmq.lake.stats.lag import consumer_lag
from flintmq.testing import write_store


def no_end(_topic: str, _queue: int) -> int | None:
    return None


def test_against_the_ends_that_java_tells(golden) -> None:  # type: ignore[no-untyped-def]
    store = golden("config")
    ends = {
        (row["topic"], row["queue_id"]): (row["min"], row["max"]) for row in store.queue_rows if row["kind"] == "queue"
    }
    found = {(lag.topic, lag.group): lag for lag in consumer_lag(str(store.path), StoreConfig(), no_end)}
    # config/consumerOffset.json of the archive, as fastjson wrote it
    assert found.keys() == {
        ("Audit", "AuditGroup"), ("Tx", "TxGroup"), ("Trade", "TagGroup"), ("Trade", "TradeGroup"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS"), ("RMQ_SYS_TRANS_OP_HALF_TOPIC", "CID_RMQ_SYS_TRANS"),
    }  # fmt: skip
    committed = {0: 17, 1: 21, 2: 18, 3: 18}
    waiting = {queue: ends["Trade", queue][1] - offset for queue, offset in committed.items()}
    lag = found["Trade", "TagGroup"]
    assert (lag.queues, lag.behind, lag.largest) == (4, sum(waiting.values()), max(waiting.values()))
    assert lag.behind > 0
    oldest = [
        row["store_timestamp"]
        for row in store.rows
        if row["topic"] == "Trade" and row["queue_offset"] == committed[row["queue_id"]] and waiting[row["queue_id"]]
    ]
    assert lag.waiting_since == min(oldest)
    assert found["Audit", "AuditGroup"].behind == 0 and found["Audit", "AuditGroup"].waiting_since is None


def commit(store: Path, offsets: dict[str, dict[str, int]]) -> None:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))


def test_expired_beyond_and_unknown(golden, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = golden("rolled").copy(tmp_path)
    row = next(r for r in golden("rolled").queue_rows if r["kind"] == "queue" and 0 < r["min"] < r["max"])
    topic, queue = row["topic"], str(row["queue_id"])
    commit(store, {f"{topic}@late": {queue: 0}, f"{topic}@ahead": {queue: row["max"] + 5}, "Gone@late": {"0": 3}})
    found = {(lag.topic, lag.group): lag for lag in consumer_lag(str(store), StoreConfig(), no_end)}
    late, ahead, gone = found[topic, "late"], found[topic, "ahead"], found["Gone", "late"]
    assert (late.behind, late.expired, late.beyond) == (row["max"] - row["min"], row["min"], 0)
    assert (ahead.behind, ahead.expired, ahead.beyond) == (0, 0, 1)
    assert (gone.behind, gone.beyond) == (0, 1)


def test_a_log_alone_says_where_queues_end(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", 100, topics=["T"], queues=2).path
    shutil.rmtree(store / "consumequeue")
    commit(store, {"T@g": {"0": 10, "1": 20}})
    [lag] = consumer_lag(str(store), StoreConfig(), lambda topic, queue: {("T", 0): 50, ("T", 1): 50}[topic, queue])
    assert (lag.behind, lag.largest, lag.waiting_since) == (70, 40, None)


def test_a_store_without_offsets_has_no_lag(golden) -> None:  # type: ignore[no-untyped-def]
    assert consumer_lag(str(golden("basic").path), StoreConfig(), no_end) == []
