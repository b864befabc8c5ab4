"""Options of the sink."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.errors import ConfigError, UsageError
from flintmq.spark.sink.options import SinkOptions


def test_a_batch_and_a_stream() -> None:
    batch = SinkOptions.parse({"path": "/s", "queryid": "q", "BATCHID": "7", "maxIndexNum": "400"}, stream=False)
    assert (batch.path, batch.query, batch.batch, batch.config.max_index_num) == ("/s", "q", 7, 400)
    plain = SinkOptions.parse({"path": "file:/s", "peer": "5.4.0"}, stream=False)
    assert (plain.path, plain.query, plain.batch, plain.peer) == ("/s", None, None, "5.4.0")
    stream = SinkOptions.parse({"path": "/s", "checkpointlocation": "/ck", "queryname": "n"}, stream=True)
    assert (stream.query, stream.batch) == ("/ck", None)
    assert SinkOptions.parse({"path": "/s", "checkpointLocation": "/ck", "queryId": "q"}, stream=True).query == "q"


@pytest.mark.parametrize(
    ("options", "stream", "text"),
    [
        ({}, False, "which store"),
        ({"path": "/s", "batchid": "1"}, False, "belong together"),
        ({"path": "/s", "queryId": "q"}, False, "belong together"),
        ({"path": "/s", "queryId": "q", "batchId": "-1"}, False, "batchId"),
        ({"path": "/s"}, True, "checkpointLocation"),
        ({"path": "/s", "queryId": "q", "batchId": "1"}, True, "Spark numbers"),
        ({"path": "/s", "quryId": "q"}, False, "did you mean queryId"),
        ({"path": "/s", "peer": "6"}, False, "5.3.3, 5.4.0, 5.5.0"),
    ],
)
def test_what_is_refused(options: dict[str, str], stream: bool, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SinkOptions.parse(options, stream)


def test_rocketmqs_keys_are_checked() -> None:
    wrong: Any = {"path": "/s", "maxIndexNum": "many"}
    with pytest.raises(ConfigError, match="maxIndexNum"):
        SinkOptions.parse(wrong, stream=False)
