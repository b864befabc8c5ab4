"""What paths and URLs mean, and that nothing writes to a URL."""

import importlib
import pickle

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.errors import MissingExtraError, UsageError
from flintmq.forensics.rebuild import plan_rebuild
from flintmq.storage.filesystem import REAL
from flintmq.storage.store_url import absolute, effects_for, is_remote, local_only, store_path
from flintmq.store.recovery.preview import preview

URL = "s3://bucket/a/store"


@pytest.mark.parametrize(
    "text, path",
    [
        ("store", "store"),
        ("C:/x", "C:/x"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("s3://bucket", "s3://bucket"),
        ("S3://bucket/a/", "s3://bucket/a"),
        ("s3a://bucket//a//b", "s3://bucket/a/b"),
    ],
)
def test_store_path(text, path):
    assert store_path(text) == path
    assert is_remote(path) == path.startswith("s3:")


@pytest.mark.parametrize("text", ["s3://", "s3:/bucket/a", "s3://b!/a", "s3:///a", "s3://bucket/../a", "http://host/a"])
def test_urls_that_name_no_store(text):
    with pytest.raises(UsageError, match=text.partition(":")[0]):
        store_path(text)


@pytest.mark.parametrize(
    "text, told",
    [
        ("s3:///a", "'s3:///a': names no bucket; write s3://BUCKET/STORE"),
        ("s3://bucket/./a", "'s3://bucket/./a': . and .. mean nothing on object storage; write the whole key"),
        ("s3://bucket/a/..", "'s3://bucket/a/..': . and .. mean nothing on object storage; write the whole key"),
        ("file://h/a", "'file://h/a': stores are read from directories, file:// and s3://; copy it to one of these"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_url_is_told(text, told):
    with pytest.raises(UsageError) as caught:
        store_path(text)
    assert str(caught.value) == told


def test_only_directories_depend_on_where_a_process_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("store") == str(tmp_path / "store")
    assert absolute(URL) == URL


def test_what_reads_a_store(tmp_path):
    assert effects_for(tmp_path) is REAL
    assert effects_for(f"file://{tmp_path}") is REAL
    far = effects_for(URL, S3Options("http://127.0.0.1:1"))
    assert far.remote and not REAL.remote
    assert pickle.loads(pickle.dumps(far)).options == S3Options("http://127.0.0.1:1").with_environment()


def test_object_storage_needs_an_extra(monkeypatch):
    def no_module(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", no_module)
    with pytest.raises(MissingExtraError, match=r"pip install flintmq\[arrow\]"):
        effects_for(URL)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: flintmq.MessageStore(URL),
        lambda store: preview(URL, StoreConfig()),
        lambda store: plan_rebuild(str(store), URL),
    ],
)
def test_whatever_writes_refuses_a_url(write, golden):
    with pytest.raises(UsageError, match="'s3://bucket/a/store': FlintMQ writes to directories only; give one, and"):
        write(golden("basic").path)


def test_who_would_write_to_a_url_is_told_what_to_do_instead():
    with pytest.raises(UsageError) as caught:
        local_only(URL)
    assert str(caught.value) == (
        f"'{URL}': FlintMQ writes to directories only; give one, and copy it there afterwards (`aws s3 sync DIR URL`)"
    )


def test_a_file_url_can_be_written_to(tmp_path):
    assert local_only(f"file://{tmp_path}/x") == f"{tmp_path}/x"
