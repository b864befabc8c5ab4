"""Buckets: what every kind of them promises, asked of moto's server and of real ones."""

import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError
from flintmq.objects.bucket import ObjectEntry
from flintmq.objects.opening import bucket_of
from tests.support.object_servers import BUCKET, RealServer
from tests.support.threads import at_once

KEYS_OF_USERS = ["x", "topic_name=%25DLQ%25g/f.parquet", "%DLQ%g/f", "库存/1", "b c+d&e#f?g/h", "q~1/*", "[x]/{y}"]


def seen(server: RealServer, key: str) -> bytes:
    """An object's bytes as other clients read them."""
    fs = pytest.importorskip("pyarrow.fs", reason="pyarrow is not installed")
    kind, secrets = server.url.partition(":")[0], list(server.environment.values())
    host = next(iter(server.keys.values())).partition("://")[2].partition("/")[0]
    if kind in ("hdfs", "gs"):
        place = f"webhdfs/v1/{quote(key)}?op=OPEN"
        if kind == "gs":
            place = f"storage/v1/b/{BUCKET}/o/{quote(key, '')}?alt=media"
        with urllib.request.urlopen(f"http://{host}/{place}", timeout=30) as answer:
            return answer.read()
    if kind == "s3":
        keys = {"access_key": secrets[0], "secret_key": secrets[1]}
        client = fs.S3FileSystem(**keys, endpoint_override=host, scheme="http", region="us-east-1")
    else:
        account = {"account_name": "devstoreaccount1", "account_key": secrets[0]}
        client = fs.AzureFileSystem(**account, blob_storage_authority=host, blob_storage_scheme="http")
    with client.open_input_file(f"{BUCKET}/{key}") as file:
        return file.read()


def bare(found):
    return [(one.key, one.size) for one in found]


@pytest.mark.turn(3, of=["src/flintmq/objects/"])
@pytest.mark.parametrize("name", KEYS_OF_USERS)
def test_a_key_is_what_it_is(bucket, server, name):
    key = f"keys/{name}"
    bucket.put(key, b"hello")
    assert bucket.read(key) == b"hello"
    assert seen(server, key) == b"hello"
    assert (key, 5) in bare(bucket.listed("keys", True))
    assert bucket.find(key).size == 5
    bucket.delete([key])
    assert bucket.find(key) is None


def test_listing(bucket):
    bucket.put("list/a", b"1")
    bucket.put("list/b/c", b"22")
    bucket.put("list-not/d", b"333")
    assert sorted(bare(bucket.listed("list", False)), key=str, reverse=True) == [("list/b", None), ("list/a", 1)]
    assert sorted(bare(bucket.listed("list", True))) == [("list/a", 1), ("list/b/c", 2)]
    assert bucket.listed("nothing", True) == bucket.listed("nothing", False) == []
    assert ObjectEntry("list", None) in bucket.listed("", False)


def test_more_objects_than_one_answer_has(bucket):
    count = 20 if bucket.url.startswith("hdfs:") else 1100  # the mini cluster takes a second for each
    keys = [f"many/{number % 3}/{number:04d}" for number in range(count)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: bucket.put(key, key.encode()), keys))
    assert sorted(bare(bucket.listed("many", True))) == sorted((key, 11) for key in keys)
    assert sorted(bare(bucket.listed("many", False))) == [(f"many/{number}", None) for number in range(3)]
    bucket.delete(keys)
    assert bucket.listed("many", True) == []


def test_ranges(bucket):
    bucket.put("ranges", b"0123456789")
    assert bucket.read("ranges", 2, 5) == b"234"
    assert bucket.read("ranges", 8) == b"89"
    assert bucket.read("ranges", 8, 99) == b"89"
    assert bucket.read("ranges", 10, 12) == bucket.read("ranges", 5, 5) == b""


def test_a_key_with_the_words_of_an_error(bucket, monkeypatch):
    """An error of another kind is none of these: bytes would be missing without a word."""
    endpoint = {"s3": "endpoint", "gs": "gs_endpoint", "abfs": "azure_endpoint", "hdfs": "hdfs_http"}
    kind = bucket.url.partition(":")[0]
    options = S3Options(**{endpoint[kind]: "http://127.0.0.1:9"}, timeout_s=1, attempts=1)
    for key in ("416", "InvalidRange: HTTP status 416", "IOException: Offset="):
        with pytest.raises(StoreAccessError):
            bucket_of(f"{bucket.url}/x", options)[0].read(key, 5, 10)


def test_an_object_that_is_not_there(bucket):
    assert bucket.find("missing") is None
    for call in (
        lambda: bucket.read("missing"), lambda: bucket.read("missing", 1, 2), lambda: bucket.copy("missing", "x")
    ):  # fmt: skip
        with pytest.raises(FileNotFoundError):
            call()
    bucket.delete([])
    bucket.put("there", b"1")
    bucket.delete(["missing", "there", "missing2"])
    assert bucket.find("there") is None


def test_files_and_copies(bucket, tmp_path):
    size = 1 << 20 if bucket.url.startswith("gs:") else 17 << 20  # in parts, but for what fake-gcs-server has not
    (tmp_path / "file").write_bytes(b"z" * size)
    bucket.put_file("file", str(tmp_path / "file"))
    bucket.copy("file", "file2")
    assert bucket.read("file2") == b"z" * size
    bucket.put_file("file2", os.devnull)
    assert bucket.read("file2") == bucket.read("file2", 0, 5) == b""
    with pytest.raises(FileNotFoundError):
        bucket.put_file("file", str(tmp_path / "none"))


def test_of_many_that_put_one_key_one_wins(bucket):
    won = []
    at_once(*[lambda n=n: won.append(n) if bucket.put_new("once", b"%d" % n) else None for n in range(8)])
    assert len(won) == 1 and bucket.read("once") == b"%d" % won[0]


def test_a_server_that_does_not_answer_is_named_in_one_line():
    bucket, _ = bucket_of("s3://stores", S3Options(endpoint="http://127.0.0.1:9", timeout_s=1, attempts=1))
    with pytest.raises(StoreAccessError, match="s3://stores/x: .*check s3.endpoint") as caught:
        bucket.find("x")
    assert "\n" not in str(caught.value)
