from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import ConfigError, UsageError
from flintmq.spark.sink.options import SinkOptions


def test_a_batch_and_a_stream() -> None:
    batch = SinkOptions.parse({"path": "/s", "queryid": "q", "BATCHID": "7", "maxIndexNum": "400"}, stream=False)
    assert (batch.path, batch.query, batch.batch, batch.config.max_index_num) == ("/s", "q", 7, 400)
    plain = SinkOptions.parse({"path": "file:/s", "peer": "5.4.0"}, stream=False)
    assert (plain.path, plain.query, plain.batch, plain.peer) == ("/s", None, None, "5.4.0")
    assert plain.unique_keys and SinkOptions.parse({"path": "/s", "uniquekeys": "True"}, stream=True).unique_keys
    assert not SinkOptions.parse({"path": "/s", "uniqueKeys": "false"}, stream=False).unique_keys
    stream = SinkOptions.parse({"path": "/s", "checkpointlocation": "/ck", "queryname": "n"}, stream=True)
    assert (stream.query, stream.batch, stream.checkpoint, stream.stream) == (None, None, "/ck", True)
    assert SinkOptions.parse({"path": "/s", "queryname": "n"}, stream=True).checkpoint == ""
    assert SinkOptions.parse({"path": "/s", "checkpointLocation": "/ck", "queryId": "q"}, stream=True).query == "q"


@pytest.mark.parametrize(
    ("options", "stream", "text"),
    [
        ({}, False, "no store given"),
        ({"path": "/s", "batchid": "1"}, False, "belong together"),
        ({"path": "/s", "queryId": "q"}, False, "belong together"),
        ({"path": "/s", "queryId": "q", "batchId": "-1"}, False, "batchId"),
        ({"path": "/s", "badRowsPath": "/s/bad"}, False, "is inside the store"),
        ({"path": "/s", "badRowsPath": "s3://b/bad"}, False, "writes to directories only"),
        ({"path": "/s", "queryId": "q", "batchId": "1"}, True, "Spark numbers"),
        ({"path": "/s", "quryId": "q"}, False, "did you mean queryId"),
        ({"path": "/s", "uniqueKeys": "no"}, False, "uniqueKeys: 'no' is not one of true, false"),
        ({"path": "/s", "peer": "6"}, False, "5.3.3, 5.4.0, 5.5.0"),
    ],
)
def test_what_is_refused(options: dict[str, str], stream: bool, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SinkOptions.parse(options, stream)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/s", "/s"),
        ("file:/a/b", "/a/b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a%25b", "/a%b"),
        ("/a%20b", "/a%20b"),
    ],
)
def test_paths_are_those_of_the_readers(given: str, path: str) -> None:
    assert SinkOptions.parse({"path": given}, stream=False).path == path
    assert SinkOptions.parse({"path": "/other", "badRowsPath": given}, stream=False).bad_rows == path


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/store",
        "s3a://bucket/store",
        "hdfs://h/store",
        "abfss://container@account.dfs.core.windows.net/s",
        "dbfs:/s",
        "gs://b/s",
        "file://host/s",
    ],
)
def test_no_directory_is_made_of_a_url(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for stream in (False, True):
        with pytest.raises(UsageError, match=r"directories"):
            SinkOptions.parse({"path": url}, stream=stream)
    assert list(tmp_path.iterdir()) == []


def test_rocketmqs_keys_are_checked() -> None:
    wrong: Any = {"path": "/s", "maxIndexNum": "many"}
    with pytest.raises(ConfigError, match="maxIndexNum"):
        SinkOptions.parse(wrong, stream=False)


@pytest.mark.parametrize("path", ["/data/*/store", "/data/{broker}/store", "/data/cluster.toml"])
def test_several_stores_are_not_written(path):
    """A store would be made whose name is the pattern."""
    with pytest.raises(UsageError, match="names several stores; name the one that gets the messages"):
        SinkOptions.parse({"path": path}, stream=False)
