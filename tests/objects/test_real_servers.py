"""Stores on every kind of server: the rows that RocketMQ wrote, and one line where something is wrong."""

import re

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreAccessError
from flintmq.storage.store_url import effects_for

SAME = ("physical_offset", "size", "queue_id", "queue_offset", "body_crc", "topic", "tags", "keys", "msg_id")
ELSEWHERE = {"s3": "s3.endpoint", "gs": "gs.endpoint", "abfs": "azure.endpoint", "hdfs": "hdfs.http"}


def kind_of(server):
    return server.url.partition(":")[0]


@pytest.mark.parametrize("name", ["basic", "crash"])
def test_rows_of_a_golden_store(golden, server, bucket, name):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    store = golden(name)
    url = server.put(store.path, f"库存 %DLQ%/{name}")
    keys = {**store.config, **server.keys}
    rows = flintmq.scan_arrow(url, set=keys).read_all().select(list(SAME)).to_pylist()
    assert rows[: len(store.live)] == [{name: right[name] for name in SAME} for right in store.live]
    assert len(rows) == len(store.live) + store.expect.get("beyond", 0)
    view = flintmq.open_store(url, set=keys)
    assert view.topics() == flintmq.open_store(store.path, set=store.config).topics()


def test_an_object_that_goes_after_it_was_listed(server, bucket):
    url = f"{server.url}/going"
    for name in ("commitlog/0", "commitlog/1"):
        bucket.put(f"going/{name}", b"x" * 100_000)
    disk = effects_for(url, StoreConfig.from_keys(server.keys).s3)
    assert disk.listdir(f"{url}/commitlog", url) == ["0", "1"]
    with disk.reading(f"{url}/commitlog/0") as fd:
        bucket.delete(["going/commitlog/0", "going/commitlog/1"])
        with pytest.raises(FileNotFoundError, match=re.escape(f"{url}/commitlog/0, offset 65536")):
            disk.pread(fd, 10, 70_000)
    with pytest.raises(FileNotFoundError, match=re.escape(f"{url}/commitlog/1")):
        disk.open_read(f"{url}/commitlog/1")


def test_an_object_that_becomes_shorter(server, bucket):
    url = f"{server.url}/shorter"
    bucket.put("shorter", b"x" * 200_000)
    disk = effects_for(url, StoreConfig.from_keys(server.keys).s3)
    with disk.reading(url) as fd:
        bucket.put("shorter", b"y" * 70_000)
        assert disk.pread(fd, 10, 150_000) == b""
        assert disk.pread(fd, 10_000, 65_536) == b"y" * (70_000 - 65_536)


def test_a_bucket_that_is_not_there(server, bucket):
    if kind_of(server) == "hdfs":
        pytest.skip("hdfs has no buckets")
    other = server.url.replace("://stores", "://nothing-here")
    disk = effects_for(other, StoreConfig.from_keys(server.keys).s3)
    with pytest.raises(StoreAccessError, match=re.escape(other)) as caught:
        disk.listdir(f"{other}/store")
    assert re.search("no such bucket|no bucket named", str(caught.value)) and "\n" not in str(caught.value)


def test_a_wrong_endpoint(server, bucket):
    key = ELSEWHERE[kind_of(server)]
    keys = {key: "http://127.0.0.1:9", "s3.timeout": "1", "s3.attempts": "1"}
    disk = effects_for(server.url, StoreConfig.from_keys(keys).s3)
    with pytest.raises(StoreAccessError, match=rf"^{re.escape(server.url)}/store: .*check {key}") as caught:
        disk.listdir(f"{server.url}/store")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_keys_that_are_refused(server, bucket, monkeypatch):
    if not server.environment or "moto" in server.environment.values() or "test" in server.environment.values():
        pytest.skip("this server asks for no keys")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value[::-1] if "ACCOUNT_KEY" not in name else "d3Jvbmc=")
    disk = effects_for(server.url, StoreConfig.from_keys(server.keys).s3)
    with pytest.raises(StoreAccessError, match=rf"^{re.escape(server.url)}/store: ") as caught:
        disk.listdir(f"{server.url}/store")
    text = str(caught.value)
    assert "\n" not in text and not any(value in text for value in server.environment.values())
    for name, value in server.environment.items():  # mended in the same process, they are used
        monkeypatch.setenv(name, value)
    assert disk.listdir(f"{server.url}/nothing") == []
