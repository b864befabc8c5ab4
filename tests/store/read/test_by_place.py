"""One message by log offset or offset message id: of a running store as of a view."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import MessageNotFoundError, UsageError
from flintmq.store.message_store import MessageStore
from flintmq.testing.damage import flip
from tests.compat.stores import Golden
from tests.support.engine import FILE_SIZE, log_files, open_small, put_all


def said(call: Callable[..., Any], *asked: object) -> str:
    with pytest.raises((MessageNotFoundError, UsageError, TypeError)) as caught:
        call(*asked)
    return f"{type(caught.value).__name__}: {caught.value}"


def test_every_store_of_java(golden_store: Golden, tmp_path: Path):
    root, keys = golden_store.copy(tmp_path), golden_store.config
    with MessageStore(root, keys, peer=golden_store.peer, unique_keys=False) as store, store.view() as view:
        messages = list(view.messages())
        assert messages
        for one in messages[:: max(len(messages) // 50, 1)]:
            assert store.get_at(one.physical_offset) == one == view.get_at(one.physical_offset)
            assert store.get_by_offset_msg_id(one.offset_msg_id.lower()) == one
            assert said(store.get_at, one.physical_offset + 1) == said(view.get_at, one.physical_offset + 1)


def test_what_is_refused(tmp_path: Path):
    with open_small(tmp_path) as store:
        results = put_all(store, 100)
        with store.view() as view:
            last, end = results[-1], store._parts.log.end
            for offset in (-1, 1, last.physical_offset - 4, end, end + 100, FILE_SIZE - 8, 1 << 70, "0"):
                assert said(store.get_at, offset) == said(view.get_at, offset)
            for text in ("", "zz", "0" * 32, 5, "0A000001" + last.offset_msg_id[8:]):
                assert said(store.get_by_offset_msg_id, text) == said(view.get_by_offset_msg_id, text)
            flip(log_files(tmp_path)[0], results[3].physical_offset + 100)
            damaged = results[3].physical_offset
            assert said(store.get_at, damaged) == said(view.get_at, damaged)
            assert store.get_at(last.physical_offset) == view.get_at(last.physical_offset)
