"""The statistics of an open store as text, against what was done with it."""

from pathlib import Path

import flintmq
from tests.support.prometheus import only, samples


def test_what_was_done_is_what_is_counted(tmp_path: Path) -> None:
    with flintmq.MessageStore(tmp_path) as store:
        for number in range(5):
            store.put(flintmq.Message("库存" if number else "Orders", b"x"))
        assert store.put(flintmq.Message("T", b"x" * (5 << 20))).status.name == "MESSAGE_ILLEGAL"
        assert store.wait_dispatched(60)
        store.get("库存", 0, 0)
        store.get("库存", 0, 4)
        stats = store.stats()
    text = flintmq.engine_metrics(stats, broker='a"', cluster="c")
    found = samples(text)
    assert only(found, "rocketmq_messages_in_total", "topic") == {("Orders",): 1, ("库存",): 4}
    assert only(found, "rocketmq_messages_out_total", "node_id") == {('a"',): 4}
    assert only(found, "flintmq_gets_total", "found") == {("true",): 1, ("false",): 1}
    assert only(found, "flintmq_puts_refused_total", "status") == {("MESSAGE_ILLEGAL",): 1}
    assert sum(only(found, "flintmq_puts_total", "duration").values()) >= 5
    assert only(found, "rocketmq_storage_dispatch_behind_bytes", "cluster", "storage_type") == {("c", "local"): 0}
    [size] = only(found, "flintmq_log_bytes", "node_type").values()
    [throughput] = only(found, "rocketmq_throughput_in_total", "node_type").values()
    log = (tmp_path / "commitlog" / "0".zfill(20)).read_bytes()
    assert size == throughput == len(log[: 1 << 20].rstrip(b"\0")) and size > 0
    assert "flintmq_pool_buffers_free" not in found, "there is no transient pool"
