"""Reads and writes Apache RocketMQ's message store in Python, byte for byte.

    import flintmq
    with flintmq.open_store("/path/to/store") as store:
        for message in store.messages():
            print(message.topic, message.queue_offset, message.body)

Importing this package is cheap: each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flintmq.errors import (
    ConfigError,
    CorruptStoreError,
    FlintError,
    FormatError,
    JavaNotFoundError,
    MessageNotFoundError,
    MissingExtraError,
    NotAStoreError,
    PutFailedError,
    PutUnknownError,
    StoreAccessError,
    StoreError,
    StoreLockedError,
    UnsupportedFormatError,
    UsageError,
)
from flintmq.version import OURS

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.frames.dataset import dataset
    from flintmq.frames.polars import scan_polars
    from flintmq.frames.scan import scan_arrow
    from flintmq.message import (
        COLUMNS,
        ColumnsResult,
        GetBatchResult,
        GetMessageStatus,
        GetResult,
        Message,
        Outcome,
        PutMessageStatus,
        PutResult,
        PutRule,
        StoredMessage,
    )
    from flintmq.metrics.engine import engine_metrics
    from flintmq.metrics.stores import store_metrics
    from flintmq.store.consumer.consumer import Consumer
    from flintmq.store.message_store import MessageStore
    from flintmq.store.view import StoreView, open_store

__version__ = OURS

__all__ = [
    "COLUMNS",
    "ColumnsResult",
    "ConfigError",
    "Consumer",
    "CorruptStoreError",
    "FlintError",
    "FormatError",
    "GetBatchResult",
    "GetMessageStatus",
    "GetResult",
    "JavaNotFoundError",
    "Message",
    "MessageNotFoundError",
    "MessageStore",
    "MissingExtraError",
    "NotAStoreError",
    "Outcome",
    "PutFailedError",
    "PutMessageStatus",
    "PutResult",
    "PutRule",
    "PutUnknownError",
    "StoreAccessError",
    "StoreConfig",
    "StoreError",
    "StoreLockedError",
    "StoreView",
    "StoredMessage",
    "UnsupportedFormatError",
    "UsageError",
    "__version__",
    "dataset",
    "engine_metrics",
    "open_store",
    "scan_arrow",
    "scan_polars",
    "store_metrics",
]

_LAZY = {
    "StoreConfig": "flintmq.config.keys",
    **dict.fromkeys(
        (
            "COLUMNS",
            "ColumnsResult",
            "GetBatchResult",
            "GetMessageStatus",
            "GetResult",
            "Message",
            "Outcome",
            "PutMessageStatus",
            "PutResult",
            "PutRule",
            "StoredMessage",
        ),
        "flintmq.message",
    ),
    "Consumer": "flintmq.store.consumer.consumer",
    "MessageStore": "flintmq.store.message_store",
    "open_store": "flintmq.store.view",
    "StoreView": "flintmq.store.view",
    "dataset": "flintmq.frames.dataset",
    "scan_arrow": "flintmq.frames.scan",
    "scan_polars": "flintmq.frames.polars",
}


def __getattr__(name: str) -> Any:
    """Load the module of a public name on first use.

    Raises:
        MissingExtraError: the name needs pyarrow, which is not installed.
    """
    if name in ("config", "message"):  # modules that are available without an import of their own
        from importlib import import_module

        return import_module(f"flintmq.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'flintmq' has no attribute {name!r}")
    from importlib import import_module

    from flintmq import hooks

    try:
        found = getattr(import_module(_LAZY[name]), name) if name in _LAZY else hooks.load(name)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtraError(f"flintmq.{name} needs pyarrow: pip install 'flintmq[arrow]'") from error
    globals()[name] = found  # the next access does not come here
    return found


def __dir__() -> list[str]:
    """Return the public names, including those not loaded yet."""
    return sorted({*globals(), *__all__})
