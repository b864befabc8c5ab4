"""Copies of stores on every kind of server: whole or not seen, and of two one wins."""

import threading

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.errors import NotAStoreError, UsageError
from flintmq.forensics.copy import copy_some, copy_whole
from flintmq.forensics.store_upload import StoreUpload
from flintmq.forensics.verify.run import verify
from flintmq.store.commitlog.predicate import Predicate


def files(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["basic", "crash"])
def test_there_and_back(golden, server, bucket, tmp_path, name):
    root, url, config = golden(name).path, f"{server.url}/copies/库存 %DLQ%/{name}", StoreConfig.from_keys(server.keys)
    done = copy_whole(str(root), url, config)
    copy_whole(url, str(tmp_path / "back"), config)
    folder = url.removeprefix(server.url + "/")
    found = {one.key.removeprefix(folder + "/") for one in bucket.listed(folder, True)}
    assert found - {"lock"} == set(files(tmp_path / "back")) - {"lock"} | {"flintmq.copied"}
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

    threads = [threading.Thread(target=one, args=(name,)) for name in ("basic", "flags")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(one, str) for one in told) == [False, True]
    assert verify(url, config).defects == []
