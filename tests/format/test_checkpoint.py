"""The checkpoint file: hand-written bytes, Java's files, short ones."""

import pytest

from flintmq.errors import FormatError
from flintmq.format import checkpoint as cp
from tests.compat.stores import Golden

RAW = bytes.fromhex("0000018bcfe56800 0000018bcfe56801 0000000000000000 ffffffffffffffff 0000000000001000").ljust(
    4096, b"\0"
)
VALUE = cp.Checkpoint(1700000000000, 1700000000001, 0, -1, 0x1000)


def test_hand_written_bytes() -> None:
    assert cp.encode(VALUE) == RAW
    assert cp.decode(RAW) == cp.decode(RAW[:40]) == VALUE
    assert cp.encode(cp.Checkpoint()) == bytes(4096)


@pytest.mark.parametrize("length", range(40))
def test_every_prefix(length: int) -> None:
    with pytest.raises(FormatError, match=f"needs 40 bytes, {length} are left"):
        cp.decode(RAW[:length])


def test_golden_checkpoints(golden_store: Golden) -> None:
    """Times lie within the log's, and the bytes behind the numbers are zero."""
    raw = (golden_store.path / "checkpoint").read_bytes()
    value = cp.decode(raw)
    assert cp.encode(value) == raw
    times = [row["store_timestamp"] for row in golden_store.rows]
    assert value.logics_timestamp == 0 or min(times) <= value.logics_timestamp
    assert (value.logics_physical_offset > 0) <= (golden_store.peer == "5.5.0")
    assert value.logics_physical_offset in (0, *(row["physical_offset"] for row in golden_store.rows))
    if golden_store.name == "basic":
        assert value.logics_timestamp == times[-1]
