"""Stores on every kind of server: the rows that RocketMQ wrote, and one line where something is wrong."""

import re
import threading
from functools import partial

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError, StoreAccessError, UsageError
from flintmq.forensics.copy import copy_some, copy_whole
from flintmq.forensics.store_upload import StoreUpload
from flintmq.forensics.verify.run import verify
from flintmq.storage.files.store_url import effects_for
from flintmq.store.commitlog.predicate import Predicate
from tests.support.engine import tree
from tests.support.threads import at_once

SAME = ("physical_offset", "size", "queue_id", "queue_offset", "body_crc", "topic", "tags", "keys", "msg_id")
ELSEWHERE = {"s3": "s3.endpoint", "gs": "gs.endpoint", "abfs": "azure.endpoint", "hdfs": "hdfs.http"}


def kind_of(server):
    return server.url.partition(":")[0]


@pytest.mark.turn(2, of=["src/flintmq/objects/"])
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


# -- Copies of stores on every kind of server: whole or not seen, and of two one wins ----------------------------------


@pytest.mark.turn(2, of=["src/flintmq/objects/"])
@pytest.mark.parametrize("name", ["basic", "crash"])
def test_there_and_back(golden, server, bucket, tmp_path, name):
    root, url, config = golden(name).path, f"{server.url}/copies/库存 %DLQ%/{name}", StoreConfig.from_keys(server.keys)
    done = copy_whole(str(root), url, config)
    copy_whole(url, str(tmp_path / "back"), config)
    folder = url.removeprefix(server.url + "/")
    found = {one.key.removeprefix(folder + "/") for one in bucket.listed(folder, True)}
    assert found - {"lock"} == set(tree(tmp_path / "back", "")) - {"lock"} | {"flintmq.copied"}
    assert verify(url, config).defects == [] == verify(tmp_path / "back").defects
    with flintmq.open_store(root) as old, flintmq.open_store(url, set=server.keys) as new:
        rows = [message.raw for message in new.messages()]
        assert rows == [message.raw for message in old.messages()][: len(rows)] and len(rows) > 100
    with pytest.raises(UsageError, match="something is there already"):
        copy_some(str(root), url, Predicate(since=0), config)
    assert done.into == url


def test_a_copy_that_fails_leaves_no_store(golden, server, bucket, monkeypatch):
    root, url, config = golden("basic").path, f"{server.url}/failing", StoreConfig.from_keys(server.keys)
    put_file, seen = StoreUpload.put_file, []

    def fails(self, name, path):
        with pytest.raises(NotAStoreError, match="not finished"):
            flintmq.open_store(url, set=server.keys)
        if name.startswith("index/"):
            raise KeyboardInterrupt
        put_file(self, name, path)
        seen.append(name)

    with monkeypatch.context() as patched:
        patched.setattr(StoreUpload, "put_file", fails)
        with pytest.raises(KeyboardInterrupt):
            copy_whole(str(root), url, config)
    assert any(name.startswith("commitlog/") for name in seen) and bucket.listed("failing", True) == []
    assert not any(one.key == "failing/commitlog" for one in bucket.listed("failing", False))
    copy_whole(str(root), url, config)
    assert bucket.find("failing/flintmq.copied") is not None and bucket.find("failing/flintmq.copying") is None


def test_of_two_copies_one_wins(golden, server, bucket, monkeypatch):
    url, config, both = f"{server.url}/two", StoreConfig.from_keys(server.keys), threading.Barrier(2)
    refuse_taken, told = StoreUpload.refuse_taken, []

    def together(self, but=""):
        refuse_taken(self, but)
        if not but:
            both.wait(30)  # each saw an empty place

    monkeypatch.setattr(StoreUpload, "refuse_taken", together)

    def one(name):
        try:
            told.append(copy_whole(str(golden(name).path), url, config))
        except UsageError as error:
            told.append(str(error))

    at_once(partial(one, "basic"), partial(one, "flags"))
    assert sorted(isinstance(one, str) for one in told) == [False, True]
    assert verify(url, config).defects == []
