"""Clients of clouds: a server that keeps no promise, forked processes, OSS, errors without secrets."""

import os

import pytest

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, UsageError
from flintmq.objects.cloud import CloudBucket
from flintmq.objects.object_store import ObjectStore
from flintmq.objects.opening import bucket_of
from tests.support.http_answers import answering


@pytest.fixture
def careless(monkeypatch):
    """An S3 server that takes every put; gives its endpoint and what was asked."""
    asked = []

    def answer(request):
        asked.append((request.method, request.path.partition("?")[0], request.headers.get("If-None-Match")))
        return 200, {"ETag": '"1"'}, b"<DeleteResult></DeleteResult>" if request.method == "POST" else b""

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    with answering(answer) as url:
        yield url, asked


def test_a_server_that_lets_two_win_is_found_before_a_put(careless):
    endpoint, asked = careless
    bucket, _ = bucket_of("s3://b", S3Options(endpoint))
    with pytest.raises(StoreAccessError, match=r"^s3://b/t/once: this server replaces an object .*; write to another"):
        bucket.put_new("t/once", b"1")
    puts = [path for method, path, _ in asked if method == "PUT"]
    assert len(puts) == 2 and puts[0] == puts[1] and puts[0].startswith("/b/t/_flintmq-probe-")
    assert asked[-1][0] in ("POST", "DELETE")


def test_a_server_is_tried_out_once(objects, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bucket, _ = bucket_of("s3://stores", S3Options(objects.endpoint, region="tried-out"))
    objects.requests()
    assert bucket.put_new("tried/a", b"1") and not bucket.put_new("tried/a", b"2") and bucket.put_new("tried/b", b"3")
    puts = [request for request in objects.requests() if request.startswith("PUT")]
    assert len(puts) == 5
    assert sorted(one.key for one in bucket.listed("tried", True)) == ["tried/a", "tried/b"]


def test_markers_of_folders_are_no_objects(objects):
    """As consoles and some tools make them: empty objects whose key ends with a slash."""
    for key in ("marked/", "marked/commitlog/", "marked/index/", "marked/abort"):
        objects.put_object(key, b"")
    objects.put_object("marked/commitlog/0", b"123")
    options = S3Options(objects.endpoint, anonymous=True)
    bucket, _ = bucket_of("s3://stores", options)
    assert sorted(one.key for one in bucket.listed("marked", True)) == ["marked/abort", "marked/commitlog/0"]
    here = [(one.key, one.size) for one in bucket.listed("marked", False)]
    assert sorted(here) == [("marked/abort", 0), ("marked/commitlog", None), ("marked/index", None)]
    disk, root = ObjectStore(options), "s3://stores/marked"
    assert disk.listdir(root, root) == ["abort", "commitlog"] and disk.is_dir(f"{root}/commitlog")
    assert disk.regular_files(root, root) == [("abort", 0)]


def test_a_key_that_cannot_be_reached_is_named(objects):
    objects.put_object("odd/a//b", b"")
    bucket, _ = bucket_of("s3://stores", S3Options(objects.endpoint, anonymous=True))
    with pytest.raises(StoreAccessError, match="^s3://stores/odd: .*odd/a//b"):
        bucket.listed("odd", True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_does_not_wait_forever(objects):
    bucket, _ = bucket_of("s3://stores", S3Options(objects.endpoint, anonymous=True))
    assert bucket.find("none") is None
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            bucket.find("none")
        except StoreAccessError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert "s3://stores/none: this process was forked from one that had used object storage" in answer.read()
    os.waitpid(child, 0)


def test_oss_is_asked_by_the_name_of_the_bucket_and_with_its_own_keys(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "amazons")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "amazons")
    monkeypatch.setenv("OSS_ACCESS_KEY_ID", "own")
    monkeypatch.setenv("OSS_ACCESS_KEY_SECRET", "word")
    bucket, key = bucket_of("oss://shop/store", S3Options(oss_endpoint="https://s3.oss-cn-hangzhou.aliyuncs.com"))
    assert isinstance(bucket, CloudBucket) and key == "store"
    for client in (bucket._client, bucket._first):
        assert client.config["endpoint"] == "https://shop.s3.oss-cn-hangzhou.aliyuncs.com"
        assert client.config["region"] == "oss-cn-hangzhou" and "access_key_id" not in client.config
        assert client.credential_provider() == {
            "access_key_id": "own", "secret_access_key": "word", "token": None, "expires_at": None
        }  # fmt: skip
    with pytest.raises(UsageError, match="^oss://shop: no endpoint is given; set oss.endpoint, such as https://s3.oss"):
        bucket_of("oss://shop/store", S3Options())


def test_a_signature_in_a_url_is_not_shown(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2021-08-06&sig=very-secret")
    options = S3Options(azure_endpoint="http://127.0.0.1:9/a", timeout_s=1, attempts=1)
    bucket, _ = bucket_of("abfs://c@account.dfs.core.windows.net/x", options)
    with pytest.raises(StoreAccessError, match="^abfs://c@account.dfs.core.windows.net/x: ") as caught:
        bucket.find("x")
    assert "very-secret" not in str(caught.value)


def test_who_has_no_credentials_is_told_so(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    bucket, _ = bucket_of("s3://b/x", S3Options("http://127.0.0.1:9", timeout_s=1, attempts=1))
    told = "^s3://b/x: no credentials were found, and .*the keys in the environment"
    with pytest.raises(StoreAccessError, match=told):
        bucket.find("x")


def test_a_token_that_has_run_out(monkeypatch):
    """As Amazon says it, in XML."""
    told = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ExpiredToken</Code>'
        b"<Message>The provided token has expired.</Message><Token-0>secret-token</Token-0></Error>"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "secret-token")
    with answering(lambda _: (400, {}, told)) as url:
        bucket, _ = bucket_of("s3://b/x", S3Options(url))
        with pytest.raises(StoreAccessError) as caught:
            bucket.listed("x", True)
    assert str(caught.value) == (
        "s3://b/x: HTTP status 400 Bad Request: ExpiredToken: The provided token has expired.; check s3.endpoint, "
        "s3.region, the keys in the environment, and that the server answers"
    )
