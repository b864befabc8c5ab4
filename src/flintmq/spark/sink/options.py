"""Checks the options of the sink `flintmq`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flintmq.cluster.members import names_many
from flintmq.config.keys import KEYS, StoreConfig
from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.format.index import PEER_533, checked_peer
from flintmq.lake.read.option_text import OptionNames, flag, number
from flintmq.storage.files.store_url import local_only, outside_store

NAMES = {
    "path": "the store's directory; created if it does not exist",
    "topic": "the topic of all rows; one that names another is refused",
    "queryId": "name of the query, whose batches are each put once. A stream's is its checkpoint's id",
    "batchId": "batch: number of the query's batch; rising numbers",
    "badRowsPath": "a directory for rows that make no message; without it such a row ends the query",
    "uniqueKeys": "true (default): a row without msg_id gets one, as from RocketMQ's client; false: it has none",
    "peer": "the RocketMQ version to write for: 5.3.3, 5.4.0 or 5.5.0",
    "checkpointLocation": "Spark's own",
    "queryName": "Spark's own",
}
"""Name -> meaning; RocketMQ's keys come on top."""
_NAMES = OptionNames("sink", NAMES, KEYS)


@dataclass(frozen=True)
class SinkOptions:
    """The checked options of a write.

    `query`: the option queryId; None for a batch without a name, or a stream, which has the id of its checkpoint.
    """

    path: str  # the store's directory, absolute
    query: str | None
    batch: int | None  # number of the batch; None if Spark passes it, or there is no name
    config: StoreConfig
    peer: str
    stream: bool = False
    checkpoint: str = ""  # the option checkpointLocation as given; empty for none
    bad_rows: str = ""  # directory for rows that make no message, absolute; empty: such a row is an error
    unique_keys: bool = True  # rows without a unique key get one when they are staged
    topic: str | None = None  # of all rows

    @classmethod
    def parse(cls, options: Mapping[str, str], stream: bool) -> SinkOptions:
        given = _NAMES.spell(options)
        if not given.get("path"):
            raise UsageError("no store given; name its directory: .save(STORE) or .start(STORE), or the option path")
        config = StoreConfig.from_keys({name: value for name, value in given.items() if name in KEYS})
        if names_many(given["path"], config):
            raise UsageError(f"{short(given['path'])} names several stores; name the one that gets the messages")
        path = os.path.abspath(local_only(given["path"]))
        query = given.get("queryId") or None
        if stream:
            if "batchId" in given:
                raise UsageError("option batchId is for a batch; Spark numbers those of a stream")
        elif (query is None) != ("batchId" not in given):
            raise UsageError("options queryId and batchId belong together: they name what is written once")
        peer = checked_peer(given.get("peer", PEER_533), "option peer")
        return cls(
            path,
            query,
            number(given, "batchId", 0),
            config,
            peer,
            stream,
            given.get("checkpointLocation", ""),
            _bad_rows(given["badRowsPath"], path) if given.get("badRowsPath") else "",
            flag(given, "uniqueKeys", True),
            given.get("topic") or None,
        )


def _bad_rows(text: str, store: str) -> str:
    path = os.path.abspath(outside_store(text, store))
    if os.path.commonpath([os.path.realpath(path), os.path.realpath(store)]) == os.path.realpath(store):
        raise UsageError(f"option badRowsPath: {short(path)} is inside the store; give a directory outside of it")
    return path
