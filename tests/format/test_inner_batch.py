"""Inner batches: hand-written bytes, Java's batches, and bodies that break off."""

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import FormatError
from flintmq.format import inner_batch as ib
from flintmq.format.properties import parse_bytes
from flintmq.format.record import COMPRESSED, INNER_BATCH, decode
from tests.compat.stores import Golden
from tests.support.golden_logs import records
from tests.support.layout_values import values

ENTRIES = [ib.Entry(flag=-1, body=b"ab", properties=b"K\x01v\x02"), ib.Entry()]
BODY = bytes.fromhex(
    "0000001c 00000000 00000000 ffffffff 00000002 6162 0004 4b017602 00000016 00000000 00000000 00000000 00000000 0000"
)


def test_hand_written_bytes() -> None:
    assert ib.encode(ENTRIES) == BODY
    assert list(ib.iterate(BODY)) == ENTRIES
    assert list(ib.iterate(b"")) == []


@pytest.mark.parametrize("name", ["batch", "config"])
def test_golden_batches(golden: Callable[[str], Golden], name: str) -> None:
    seen = 0
    for row, data, at in records(golden(name)):
        if not row["sys_flag"] & INNER_BATCH:
            continue
        record = decode(data, at)
        body = zlib.decompress(record.body) if row["sys_flag"] & COMPRESSED else record.body
        entries = list(ib.iterate(body))
        assert len(entries) == int(row["properties"]["INNER_NUM"])
        assert row["queue_offset"] == int(row["properties"]["INNER_BASE"])
        assert ib.encode(entries) == body
        assert all(
            entry.magic == entry.body_crc == 0 and "UNIQ_KEY" in parse_bytes(entry.properties) for entry in entries
        )
        seen += 1
    assert seen >= 7


def test_every_prefix_breaks_off_behind_whole_entries() -> None:
    for length in range(1, len(BODY)):
        found = []
        try:
            for entry in ib.iterate(BODY[:length]):
                found.append(entry)
        except FormatError:
            assert found == ENTRIES[: len(found)]
        else:
            assert length == 28 and found == ENTRIES[:1]


@given(st.lists(values(ib.ENTRY), max_size=4))
def test_round_trip(drawn: list[tuple[ib.Entry, object]]) -> None:
    entries = [entry for entry, _ in drawn]
    assert list(ib.iterate(ib.encode(entries))) == entries


@given(st.binary(max_size=120))
def test_random_bytes(data: bytes) -> None:
    try:
        entries = list(ib.iterate(data))
    except FormatError:
        return
    assert ib.encode(entries) == data
