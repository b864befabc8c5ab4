"""Reads and writes Apache RocketMQ's message store in Python, byte for byte.

    import flintmq
    with flintmq.open_store("/path/to/store") as store:
        for message in store.messages():
            print(message.topic, message.queue_offset, message.body)

Importing this package is cheap: each name loads its module when it is first used.
"""

from __future__ import annotations

import typing as _typing

from flintmq.errors import (
    ConfigError,
    CorruptStoreError,
    DamagedStreamError,
    DivergedError,
    FlintError,
    FormatError,
    JavaNotFoundError,
    LostLogError,
    MessageNotFoundError,
    MissingExtraError,
    NotAStoreError,
    OffsetGoneError,
    PutFailedError,
    PutUnknownError,
    RemotingError,
    ReplicationError,
    StoreAccessError,
    StoreError,
    StoreLockedError,
    UnfinishedError,
    UnknownTopicError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.version import OURS as __version__

if _typing.TYPE_CHECKING:
    from flintmq.arrow.schema import SCHEMA, VIEW_SCHEMA
    from flintmq.config.keys import StoreConfig
    from flintmq.forensics.copy import copy_some, copy_whole
    from flintmq.forensics.diff.run import compare
    from flintmq.forensics.verify.run import verify
    from flintmq.format.inner_batch import iterate as inner_messages
    from flintmq.frames.dataset import dataset
    from flintmq.frames.polars import scan_polars
    from flintmq.frames.scan import scan_arrow
    from flintmq.lake.export.export_once import export
    from flintmq.lake.export.export_stream import export_stream
    from flintmq.lake.history.diff_table import compare_table
    from flintmq.lake.shape.parquet import partition_value
    from flintmq.lake.stats.run import stats
    from flintmq.message import (
        COLUMNS,
        ColumnsResult,
        GetBatchResult,
        GetMessageStatus,
        GetResult,
        Message,
        Messages,
        Outcome,
        PutMessageStatus,
        PutResult,
        PutRule,
        RawResult,
        StoredMessage,
    )
    from flintmq.metrics.engine import engine_metrics
    from flintmq.metrics.stores import store_metrics
    from flintmq.store.commitlog.report import Damage, LogNote, Report
    from flintmq.store.consumer.consumer import Consumer
    from flintmq.store.message_store import MessageStore
    from flintmq.store.services.groups import GroupSettings
    from flintmq.store.services.topics import TopicSettings
    from flintmq.store.services.transactions import Half
    from flintmq.store.view import QueueInfo, StoreView, open_store

__all__ = [
    "COLUMNS", "ColumnsResult", "ConfigError", "Consumer", "CorruptStoreError", "Damage", "DamagedStreamError",
    "DivergedError", "FlintError", "FormatError", "GetBatchResult", "GetMessageStatus", "GetResult", "GroupSettings",
    "Half", "JavaNotFoundError", "LogNote", "LostLogError", "Message", "MessageNotFoundError", "MessageStore",
    "Messages", "MissingExtraError", "NotAStoreError", "OffsetGoneError", "Outcome", "PutFailedError",
    "PutMessageStatus", "PutResult", "PutRule", "PutUnknownError", "QueueInfo", "RawResult", "RemotingError",
    "ReplicationError", "Report", "SCHEMA", "StoreAccessError", "StoreConfig", "StoreError", "StoreLockedError",
    "StoreView", "StoredMessage", "TopicSettings", "UnfinishedError", "UnknownTopicError", "UnsupportedFormatError",
    "UsageError", "VIEW_SCHEMA", "__version__", "compare", "compare_table", "copy_some", "copy_whole", "dataset",
    "engine_metrics", "export", "export_stream", "inner_messages", "open_store", "partition_value", "scan_arrow",
    "scan_polars", "stats", "store_metrics", "verify",
]  # fmt: skip

_LAZY = {
    name: home
    for home, names in {
        "flintmq.config.keys": "StoreConfig",
        "flintmq.message": "COLUMNS ColumnsResult GetBatchResult GetMessageStatus GetResult Message Messages Outcome "
        "PutMessageStatus PutResult PutRule RawResult StoredMessage",
        "flintmq.store.consumer.consumer": "Consumer",
        "flintmq.store.message_store": "MessageStore",
        "flintmq.store.services.groups": "GroupSettings",
        "flintmq.store.services.topics": "TopicSettings",
        "flintmq.store.services.transactions": "Half",
        "flintmq.store.view": "QueueInfo StoreView open_store",
        "flintmq.store.commitlog.report": "Damage LogNote Report",
        "flintmq.arrow.schema": "SCHEMA VIEW_SCHEMA",
        "flintmq.format.inner_batch": "inner_messages",
        "flintmq.frames.dataset": "dataset",
        "flintmq.frames.scan": "scan_arrow",
        "flintmq.frames.polars": "scan_polars",
        "flintmq.forensics.copy": "copy_some copy_whole",
        "flintmq.forensics.diff.run": "compare",
        "flintmq.forensics.verify.run": "verify",
    }.items()
    for name in names.split()
}
"""Public name -> its module; those of the other quarters are hooks."""


def __getattr__(name: str) -> _typing.Any:
    """Load the module of a public name on first use.

    Raises MissingExtraError: the name needs pyarrow, which is not installed.
    """
    from importlib import import_module

    if name in ("config", "message"):  # modules that are available without an import of their own
        return import_module(f"flintmq.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'flintmq' has no attribute {name!r}")
    from flintmq import hooks

    inner = "iterate" if name == "inner_messages" else name
    try:
        found = getattr(import_module(_LAZY[name]), inner) if name in _LAZY else hooks.load(name)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtraError(f"flintmq.{name} needs pyarrow: pip install 'flintmq[arrow]'") from error
    globals()[name] = found  # the next access does not come here
    return found


def __dir__() -> list[str]:
    """Return the public names, those not loaded yet among them, and nothing else."""
    return list(__all__)
