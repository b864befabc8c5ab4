"""Index items: whole files as Java wrote them, made again from their items; and the rules one by one."""

from array import array

import pytest

from flintmq.format import index
from flintmq.format.index import HEADER, ITEM, Header
from flintmq.kernels.write.index_insert import insert
from tests.compat.stores import Golden

SLOTS, ITEMS = 10, 6


def empty(slots: int = SLOTS, items: int = ITEMS, before: Header | None = None) -> bytearray:
    return bytearray((HEADER.pack(before) if before else b"").ljust(index.file_size(slots, items), b"\0"))


def put(file: bytearray, *keys: tuple[int, int, int]) -> int:
    """Insert (hash, offset, time) keys; gives how many went in."""
    hashes, offsets, times = (array(code, [key[n] for key in keys]) for n, code in enumerate("iqq"))
    return insert(file, SLOTS, ITEMS, hashes, offsets, times, 0, len(keys))


def items_of(file: bytes, slots: int, count: int) -> list[index.Item]:
    return [ITEM.unpack(file, index.item_position(n, slots)) for n in range(1, count)]


def repeated(header: Header) -> Header:
    """What the next file's header says until its first item."""
    time, offset = header.end_timestamp, header.end_physical_offset
    return Header(time, time, offset, offset, 0, 0)


def test_files_of_java_come_out_again_byte_for_byte(golden_store: Golden) -> None:
    """Hash and offset from Java's items, times from Java's decoded records; slots, chains, seconds, header are ours."""
    times = {row["physical_offset"]: row["store_timestamp"] for row in golden_store.rows}
    slots, items = golden_store.config["maxHashSlotNum"], golden_store.config["maxIndexNum"]
    before = None
    for path in sorted((golden_store.path / "index").iterdir()):
        java = path.read_bytes()
        header = HEADER.unpack(java)
        found = items_of(java, slots, header.index_count)
        known = all(item.physical_offset in times for item in found)
        # Not known: of records that have expired, or what the first item counts from when the file before has.
        if not known or (before is None and found and found[0].seconds):
            before = repeated(header)
            continue
        ours = bytearray((HEADER.pack(before) if before else b"").ljust(len(java), b"\0"))
        keys = array("i", [i.key_hash for i in found]), array("q", [i.physical_offset for i in found])
        stored = array("q", [times[i.physical_offset] for i in found])
        assert insert(ours, slots, items, *keys, stored, 0, len(found)) == len(found)
        assert bytes(ours) == java, path.name
        before = repeated(header)


def test_chains_seconds_and_header() -> None:
    file = empty()
    assert put(file, (7, 100, 5000), (17, 200, 6999), (8, 300, 4000)) == 3
    assert items_of(file, SLOTS, 4) == [index.Item(7, 100, 0, 0), index.Item(17, 200, 1, 1), index.Item(8, 300, 0, 0)]
    assert HEADER.unpack(file) == Header(5000, 4000, 100, 300, 2, 4)
    assert file[40 + 4 * 7 : 40 + 4 * 8] == bytes([0, 0, 0, 2])


def test_a_full_file_takes_no_more() -> None:
    file = empty()
    assert put(file, *[(n, n, 1000) for n in range(9)]) == ITEMS - 1
    assert HEADER.unpack(file).index_count == ITEMS
    before = bytes(file)
    assert put(file, (1, 1, 1)) == 0 and bytes(file) == before


def test_a_following_file_s_first_item_counts_from_the_one_before() -> None:
    file = empty(before=Header(1000, 1000, 90, 90, 0, 0))
    put(file, (7, 100, 5000), (7, 200, 9000))
    assert items_of(file, SLOTS, 3) == [index.Item(7, 100, 4, 0), index.Item(7, 200, 4, 1)]
    assert HEADER.unpack(file) == Header(5000, 9000, 100, 200, 1, 3)


@pytest.mark.parametrize("slot", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_slot_that_points_nowhere_counts_as_empty(slot: bytes) -> None:
    file = empty()
    file[40 + 28 : 40 + 32] = slot
    put(file, (7, 100, 5000))
    assert items_of(file, SLOTS, 2) == [index.Item(7, 100, 0, 0)]


def test_seconds_are_capped_and_bounds_are_checked() -> None:
    file = empty()
    put(file, (1, 1, 1), (1, 2, 1 << 62))
    assert items_of(file, SLOTS, 3)[1].seconds == 0x7FFFFFFF
    keys = array("i", [1]), array("q", [1]), array("q", [1])
    for slots, items, end in ((SLOTS + 1, ITEMS, 1), (0, ITEMS, 1), (SLOTS, ITEMS, 2)):
        with pytest.raises(ValueError, match="buffer|within"):
            insert(file, slots, items, *keys, 0, end)


def test_a_window_of_the_items_gives_the_same_file() -> None:
    keys = [(n * 7919 % 23, 100 * n, 5000 + 900 * n) for n in range(1, 12)]
    hashes, offsets, times = (array(code, [key[n] for key in keys]) for n, code in enumerate("iqq"))
    whole, part, begin = empty(SLOTS, 20), empty(SLOTS, 4), index.item_position(0, SLOTS)
    assert insert(whole, SLOTS, 20, hashes, offsets, times, 0, len(keys)) == len(keys)
    made = bytearray(len(whole))
    for first, start, stop in ((0, 0, 3), (4, 3, 7), (8, 7, 11)):  # item 0 is never used
        assert insert(part, SLOTS, 20, hashes, offsets, times, start, len(keys), first) == stop
        count = stop + 1 - first
        at = index.item_position(first, SLOTS)
        made[at : at + 20 * count] = part[begin : begin + 20 * count]
    made[:begin] = part[:begin]
    assert made == whole


@pytest.mark.parametrize("window", [3, 1 << 31, 1 << 62])
def test_a_window_that_cannot_be_is_refused(window: int) -> None:
    keys = array("i", [1]), array("q", [1]), array("q", [1])
    with pytest.raises(ValueError, match="window|smaller"):
        insert(empty(), SLOTS, ITEMS, *keys, 0, 1, window)
