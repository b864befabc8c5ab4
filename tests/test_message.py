"""StoredMessage against what Java decodes from the same bytes."""

import hashlib
import ipaddress
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flintmq.errors import FormatError
from flintmq.message import (
    COLUMNS,
    ColumnsResult,
    Message,
    PutMessageStatus,
    PutResult,
    PutRule,
    StoredMessage,
    refused,
    stored_message,
)
from flintmq.store.message_store import MessageStore
from tests.compat.stores import Golden

# The schema's order is part of the contract (docs/operations/json.md).
ORDER = """
    topic queue_id queue_offset body tags keys properties msg_id offset_msg_id born_timestamp born_host
    store_timestamp store_host physical_offset size magic flag sys_flag reconsume_times
    prepared_transaction_offset body_crc
""".split()  # noqa: SIM905


def read(store: Golden, row: dict) -> StoredMessage:
    """The record of a golden row, from the file that holds it."""
    files = sorted((store.path / "commitlog").iterdir(), key=lambda path: int(path.name))
    file: Path = max((f for f in files if int(f.name) <= row["physical_offset"]), key=lambda path: int(path.name))
    return stored_message(memoryview(file.read_bytes()), row["physical_offset"] - int(file.name))


def host(text: str) -> tuple:
    """A host as address and port: IPv6 addresses have several spellings."""
    address, _, port = text.rpartition(":")
    return ipaddress.ip_address(address.strip("[]")), int(port)


def test_columns():
    assert list(COLUMNS) == ORDER


@pytest.mark.parametrize("name", ["flags", "flags540", "flags550", "lmq", "crc", "batch"])
def test_every_column_is_what_java_decodes(golden, name: str):
    store = golden(name)
    for row in store.rows:
        message = read(store, row)
        found = message.as_row()
        assert list(found) == ORDER
        body = found.pop("body")
        assert (len(body), hashlib.sha1(body).hexdigest()) == (row["body_length"], row["body_sha1"])
        for end in ("born_host", "store_host"):
            assert host(found.pop(end)) == host(row[end])
        assert found == {column: row[column] for column in found}


def test_messages_are_values(golden):
    store = golden("poison")
    first, again, second = read(store, store.rows[0]), read(store, store.rows[0]), read(store, store.rows[1])
    assert first == again and hash(first) == hash(again)
    assert first != second and first != first.raw
    assert len({first, again, second}) == 2
    assert pickle.loads(pickle.dumps(first)) == first
    with pytest.raises(AttributeError):
        first.topic = "Other"  # type: ignore[misc]


def test_it_shows_where_it_stands(golden):
    store = golden("poison")
    row = store.rows[0]
    assert repr(read(store, row)) == (
        "StoredMessage(topic='Fine', queue_id=0, queue_offset=0, keys='before0', tags=None, physical_offset=0, "
        f"size=133, stored=2026-11-20T09:36:01.553Z, body={read(store, row).body!r})"
    )


def test_a_long_body_and_long_keys_are_shown_by_their_begin(tmp_path: Path):
    with MessageStore(tmp_path, dev=True) as store:
        store.put(Message("T", b"x" * 1_000_000, keys="k" * 1000))
        store.wait_dispatched(60)
        shown = repr(store.get("T", 0, 0).messages[0])
    assert f"body={b'x' * 40!r}... (1000000 bytes)" in shown and "... (1002 characters)" in shown and len(shown) < 500


def test_times_are_datetimes_too(golden):
    store = golden("poison")
    first = read(store, store.rows[0])
    assert first.stored == datetime(2026, 11, 20, 9, 36, 1, 553_000, UTC) and first.stored.tzinfo is UTC
    assert first.born == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    odd = Message("T", born_timestamp=1 << 62)
    assert odd.born is None and Message("T").born is None, "no year from 1 to 9999; the store's clock"
    assert Message("T", born_timestamp=0).born == datetime(1970, 1, 1, tzinfo=UTC)


def test_results_say_when_it_was_stored():
    at = datetime(2026, 11, 20, 9, 36, 1, 553_000, UTC)
    assert PutResult(PutMessageStatus.PUT_OK, 0, 0, 100, 1795167361553).stored == at
    assert ColumnsResult(PutMessageStatus.PUT_OK, 2, 0, 200, {}, 1795167361553).stored == at
    assert refused(PutRule.TOPIC).stored is None and ColumnsResult(PutMessageStatus.MESSAGE_ILLEGAL).stored is None


def test_bytes_that_are_no_record():
    for raw in (b"", bytes(91), b"\xff" * 200):
        with pytest.raises(FormatError):
            _ = StoredMessage(raw).topic
