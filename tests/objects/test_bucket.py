"""Buckets: what every kind of them promises."""

import threading

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import ObjectEntry
from flintmq.objects.opening import bucket_of
from tests.support.object_server import KEYS, running

KEYS_OF_USERS = ["x", "topic_name=%25DLQ%25g/f.parquet", "%DLQ%g/f", "库存/1", "b c+d&e#f?g/h", "q~1/*", "[x]/{y}"]


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture
def bucket(server, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return bucket_of("s3://stores", S3Options(endpoint=server.endpoint))[0]


def bare(found):
    return [(one.key, one.size) for one in found]


@pytest.mark.parametrize("name", KEYS_OF_USERS)
def test_a_key_is_what_it_is(bucket, server, name):
    key = f"keys/{name}"
    bucket.put(key, b"hello")
    assert bucket.read(key) == b"hello"
    with server.filesystem.open_input_file(f"stores/{key}") as file:
        assert file.read() == b"hello"
    assert (key, 5) in bare(bucket.listed("keys", True))
    assert bucket.find(key).size == 5
    bucket.delete([key])
    assert bucket.find(key) is None


def test_listing(bucket):
    bucket.put("list/a", b"1")
    bucket.put("list/b/c", b"22")
    bucket.put("list-not/d", b"333")
    assert bare(bucket.listed("list", False)) == [("list/b", None), ("list/a", 1)]
    assert bare(bucket.listed("list", True)) == [("list/a", 1), ("list/b/c", 2)]
    assert bucket.listed("nothing", True) == bucket.listed("nothing", False) == []
    assert ObjectEntry("list", None) in bucket.listed("", False)


def test_ranges(bucket):
    bucket.put("ranges", b"0123456789")
    assert bucket.read("ranges", 2, 5) == b"234"
    assert bucket.read("ranges", 8) == b"89"
    assert bucket.read("ranges", 8, 99) == b"89"
    assert bucket.read("ranges", 10, 12) == bucket.read("ranges", 5, 5) == b""


def test_an_object_that_is_not_there(bucket):
    assert bucket.find("missing") is None
    for call in (
        lambda: bucket.read("missing"), lambda: bucket.read("missing", 1, 2), lambda: bucket.copy("missing", "x")
    ):  # fmt: skip
        with pytest.raises(FileNotFoundError):
            call()
    bucket.delete(["missing"])
    bucket.delete([])


def test_files_and_copies(bucket, tmp_path):
    (tmp_path / "file").write_bytes(b"z" * (17 << 20))  # in parts
    bucket.put_file("file", str(tmp_path / "file"))
    bucket.copy("file", "file2")
    assert bucket.read("file2") == b"z" * (17 << 20)
    with pytest.raises(FileNotFoundError):
        bucket.put_file("file", str(tmp_path / "none"))


def test_of_many_that_put_one_key_one_wins(bucket):
    won = []
    threads = [
        threading.Thread(target=lambda n=n: won.append(n) if bucket.put_new("once", b"%d" % n) else None)
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and bucket.read("once") == b"%d" % won[0]


def test_a_server_that_does_not_answer_is_named_in_one_line():
    bucket, _ = bucket_of("s3://stores", S3Options(endpoint="http://127.0.0.1:9", timeout_s=1, attempts=1))
    with pytest.raises(StoreAccessError, match="s3://stores/x: .*check s3.endpoint") as caught:
        bucket.find("x")
    assert "\n" not in str(caught.value)
