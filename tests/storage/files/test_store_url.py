"""What paths and URLs mean, and that nothing writes to a URL."""

import importlib
import pickle
import sys
from pathlib import Path

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.config.s3 import S3Options
from flintmq.errors import MissingExtraError, NotAStoreError, UsageError
from flintmq.forensics.copy import copy_whole
from flintmq.forensics.rebuild import plan_rebuild
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.store_url import (
    absolute,
    effects_for,
    is_remote,
    local_only,
    outside_store,
    store_path,
)
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
        ("s3://bucket/a%20b/库 存", "s3://bucket/a%20b/库 存"),
        ("gs://bucket/a/", "gs://bucket/a"),
        ("oss://bucket/a", "oss://bucket/a"),
        ("abfss://c-1@account.dfs.core.windows.net//a", "abfs://c-1@account.dfs.core.windows.net/a"),
        ("abfs://c@account.blob.core.chinacloudapi.cn", "abfs://c@account.blob.core.chinacloudapi.cn"),
        ("HDFS://namenode:8020/a/b", "hdfs://namenode:8020/a/b"),
        ("hdfs://nameservice/a", "hdfs://nameservice/a"),
    ],
)
def test_store_path(text, path):
    assert store_path(text) == path
    assert is_remote(path) == ("://" in path)


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
        ("gs:///a", "'gs:///a': names no bucket; write gs://BUCKET/STORE"),
        (
            "abfs://container/a",
            "'abfs://container/a': names no bucket; write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/STORE",
        ),
        ("hdfs:///a", "'hdfs:///a': names no bucket; write hdfs://HOST:PORT/STORE"),
        ("file://h/a", "'file://h/a': stores are read from directories, file://, s3://, gs://, abfs://, hdfs://, "
            "oss://; copy it to one of these"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_url_is_told(text, told):
    with pytest.raises(UsageError) as caught:
        store_path(text)
    assert str(caught.value) == told


EMPTY = "the path is empty; give a directory, which is '.' for the current one"
BYTES = "b's1': a path in bytes; give text, such as os.fsdecode(path)"


@pytest.mark.parametrize(
    ("path", "told"), [("", EMPTY), ("file://", EMPTY), ("file://localhost", EMPTY), (b"s1", BYTES)]
)
@pytest.mark.parametrize(
    "use",
    [
        store_path,
        absolute,
        local_only,
        effects_for,
        flintmq.MessageStore,
        flintmq.open_store,
        flintmq.scan_arrow,
        flintmq.dataset,
        flintmq.store_metrics,
        lambda path: flintmq.scan_arrow(["s", path]),
        lambda path: copy_whole("s", path),
        lambda path: copy_whole(path, "s"),
        lambda path: outside_store(path, "s"),
        lambda path: outside_store("s", path),
    ],
)
def test_no_path_is_the_current_directory_by_mistake(use, path, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        use(path)
    assert str(caught.value) == told and list(tmp_path.iterdir()) == []


def test_a_file_is_no_store_to_write(tmp_path):
    (tmp_path / "f").write_bytes(b"mine")
    with pytest.raises(NotAStoreError) as caught:
        flintmq.MessageStore(tmp_path / "f")
    assert str(caught.value) == f"{tmp_path}/f: is a file; give a directory, which is made if it is missing"
    assert (tmp_path / "f").read_bytes() == b"mine"
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "commitlog").write_bytes(b"mine")
    with pytest.raises(OSError, match="commitlog"):
        flintmq.MessageStore(tmp_path / "s")


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
    with pytest.raises(MissingExtraError, match=r"pip install 'flintmq\[objects\]'"):
        effects_for(URL)


def test_hdfs_needs_no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert effects_for("hdfs://namenode/a").remote
    with pytest.raises(MissingExtraError):
        effects_for("gs://bucket/a")


@pytest.mark.parametrize(
    "write",
    [
        lambda store: flintmq.MessageStore(URL),
        lambda store: preview(URL, StoreConfig()),
        lambda store: plan_rebuild(str(store), URL),
    ],
)
def test_whatever_writes_refuses_a_url(write, golden):
    with pytest.raises(UsageError, match="'s3://bucket/a/store': this writes to directories only; give one, and"):
        write(golden("basic").path)


def test_who_would_write_to_a_url_is_told_what_to_do_instead():
    with pytest.raises(UsageError) as caught:
        local_only(URL)
    assert str(caught.value) == (
        f"'{URL}': this writes to directories only; give one, and copy it there afterwards (`aws s3 sync DIR URL`)"
    )


def test_a_file_url_can_be_written_to(tmp_path):
    assert local_only(f"file://{tmp_path}/x") == f"{tmp_path}/x"


def test_directories_of_the_configuration_are_of_the_store(tmp_path: Path):
    root, log, old = tmp_path / "store", tmp_path / "log", tmp_path / "old"
    for folder in (root, log, old):
        folder.mkdir()
    config = StoreConfig.from_keys({"storePathCommitLog": str(log), "readOnlyCommitLogStorePaths": str(old)})
    for place in (log / "x", old, root / "x"):
        with pytest.raises(UsageError, match="is inside the store"):
            outside_store(place, root, config)
    assert outside_store(log / "x", root) == str(log / "x")


def test_links_to_a_log_stand_for_the_store_of_that_log(tmp_path: Path):
    (tmp_path / "real" / "commitlog").mkdir(parents=True)
    (tmp_path / "real" / "checkpoint").touch()
    (tmp_path / "view").mkdir()
    (tmp_path / "view" / "commitlog").symlink_to(tmp_path / "real" / "commitlog")
    with pytest.raises(UsageError, match="is inside the store"):
        outside_store(tmp_path / "real" / "x", tmp_path / "view")
    (tmp_path / "disk" / "commitlog").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "commitlog").symlink_to(tmp_path / "disk" / "commitlog")
    assert outside_store(tmp_path / "disk" / "x", tmp_path / "other") == str(tmp_path / "disk" / "x")


@pytest.mark.parametrize("place", ["beside", "shop2/x", "shop-2", "a/b/c", "shop.html"])
def test_other_places_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str):
    (tmp_path / "shop" / "commitlog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert outside_store(place, "shop") == place
    assert outside_store(place, "s3://bucket/shop") == place
    assert outside_store("shop", "shop", root_itself=True) == "shop"
    for refused, root_itself in (("shop", False), ("shop/x", True), ("shop/../shop/commitlog", True)):
        with pytest.raises(UsageError) as told:
            outside_store(refused, "shop", **({"root_itself": True} if root_itself else {}))
        words = f"{refused} is inside the store, where this command writes nothing; give another place"
        assert str(told.value) == words


def test_a_link_is_refused_where_it_stands_and_where_it_leads(tmp_path: Path):
    """It may be replaced, or be followed: neither may change the store."""
    root, disk = tmp_path / "store", tmp_path / "disk"
    for folder in (root, disk / "index"):
        folder.mkdir(parents=True)
    (root / "index").symlink_to(disk / "index")
    (root / "out").symlink_to(tmp_path / "away")
    (tmp_path / "in").symlink_to(root / "new")
    for place in (disk / "index", disk / "index" / "deep" / "x", root / "out", tmp_path / "in"):
        with pytest.raises(UsageError, match="is inside the store"):
            outside_store(place, root)
    assert outside_store(disk / "x", root) == str(disk / "x")
