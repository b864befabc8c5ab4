"""Index files: hand-written bytes, hashes, and every item of Java's files against the keys of its record."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format import index
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.format.text import java_hash
from tests.compat.stores import Golden


def test_hand_written_bytes() -> None:
    header = index.Header(1700000000000, 1700000000001, 16, 32, 2, 3)
    raw = bytes.fromhex("0000018bcfe56800 0000018bcfe56801 0000000000000010 0000000000000020 00000002 00000003")
    assert index.HEADER.pack(header) == raw
    assert index.HEADER.unpack(raw) == header
    item = index.Item(2112, 0x1000, 5, 1)
    raw = bytes.fromhex("00000840 0000000000001000 00000005 00000001")
    assert index.ITEM.pack(item) == raw
    assert index.ITEM.unpack(raw) == item


def test_next_item_begins_at_one() -> None:
    header = index.Header(0, 0, 0, 0, 0, 0)
    assert [header._replace(index_count=n).next_item for n in (-5, 0, 1, 2)] == [1, 1, 1, 2]


def test_sizes_and_places() -> None:
    assert index.file_size(5_000_000, 20_000_000) == 420_000_040
    assert (index.slot_position(0), index.slot_position(3)) == (40, 52)
    assert (index.item_position(1, 500), index.item_position(2000, 500)) == (2060, 42040)


def test_key_hash() -> None:
    assert index.key_hash("", "") == ord("#")
    assert index.key_hash("a", "b") == 97 * 31**2 + 35 * 31 + 98
    assert index.key_hash("T", "AaAa") == index.key_hash("T", "BBBB")
    # What Java 17 gives for these: the least integer has no absolute value, upstream takes 0 for it.
    assert java_hash("T#ajvakuzm") == -(1 << 31) and index.key_hash("T", "ajvakuzm") == 0
    assert java_hash("T#zzzzzzz") == -418018933 and index.key_hash("T", "zzzzzzz") == 418018933


def test_seconds() -> None:
    assert index.seconds(5999, 1000) == 4
    assert index.seconds(2_000_000_999, 1000) == 1_999_999
    assert index.seconds(5999, 0) == index.seconds(5999, -1) == index.seconds(1000, 5999) == 0
    assert index.seconds(1 << 62, 1) == 0x7FFFFFFF


def test_a_peer_is_one_of_the_versions_that_are_followed() -> None:
    assert [index.checked_peer(peer) for peer in index.PEERS] == ["5.3.3", "5.4.0", "5.5.0"]
    for words, reason in (
        (("5.2.0",), "peer: '5.2.0' is not one of 5.3.3, 5.4.0, 5.5.0"),
        (("", "--peer"), "--peer: '' is not one of 5.3.3, 5.4.0, 5.5.0"),
    ):
        with pytest.raises(UsageError) as caught:
            index.checked_peer(*words)
        assert str(caught.value) == reason


def test_keys_of() -> None:
    properties = {"KEYS": "a  b a ", "UNIQ_KEY": "id", "TAGS": "t"}
    assert index.keys_of(properties, 0) == ["id", "a", "b", "a"]
    assert index.keys_of(properties, 0, "5.4.0") == ["id", "a", "b", "a", "T#t"]
    assert index.keys_of(properties, 0x4) == ["id", "a", "b", "a"]
    assert index.keys_of(properties, 0xC) == []
    assert index.keys_of({}, 0, "5.4.0") == []
    assert index.keys_of({"KEYS": "a\tb c\n"}, 0) == ["a\tb", "c\n"], "a space alone separates, as KEY_SEPARATOR"


def index_files(store: Golden) -> list[Path]:
    return sorted((store.path / "index").iterdir())


EXACT = [
    "basic", "flags", "flags540", "lmq", "batch", "crc", "cqext", "v540", "delay", "timer", "config", "config540",
    "v550", "flags550", "config550", "lmq550", "delay550", "timer550",
]  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_golden_items_are_the_keys_of_their_records(golden: Callable[[str], Golden], name: str) -> None:
    """All items of all files, in order, are what the rows imply; chains descend and hold every item once."""
    store = golden(name)
    config = StoreConfig.from_keys(store.config)
    slots, items = config.max_hash_slot_num, config.max_index_num
    expected = [
        (index.key_hash(row["topic"], key), row["physical_offset"])
        for row in store.rows
        for key in index.keys_of(row["properties"], row["sys_flag"], store.peer)
    ]
    found = []
    for path in index_files(store):
        assert index.NAME.fullmatch(path.name)
        data = path.read_bytes()
        assert len(data) == index.file_size(slots, items)
        header = index.HEADER.unpack(data)
        inside = list(
            index.ITEM.iter(data, index.item_position(1, slots), index.item_position(header.next_item, slots))
        )
        found += [(item.key_hash, item.physical_offset) for item in inside]
        heads = [slot.item for slot in index.SLOT.iter(data, index.slot_position(0), index.slot_position(slots))]
        assert sum(head > 0 for head in heads) == header.slots_used
        assert chained(heads, inside) == list(range(1, header.next_item))
        assert header.end_physical_offset == inside[-1].physical_offset
        assert header.begin_physical_offset == inside[0].physical_offset
    assert found == expected != []


def chained(heads: list[int], items: list[index.Item]) -> list[int]:
    """Numbers of the items that the slots lead to, sorted; each must lie in the slot of its hash."""
    found = []
    for slot, number in enumerate(heads):
        while number > 0:
            item = items[number - 1]
            assert item.key_hash % len(heads) == slot and item.previous < number
            found.append(number)
            number = item.previous
    return sorted(found)


def test_golden_seconds(golden: Callable[[str], Golden]) -> None:
    """Within the first file of a store, where the begin timestamp was not taken over from another."""
    store = golden("basic")
    times = {row["physical_offset"]: row["store_timestamp"] for row in store.rows}
    data = index_files(store)[0].read_bytes()
    header = index.HEADER.unpack(data)
    first = index.item_position(1, 500)
    for item in index.ITEM.iter(data, first, index.item_position(header.next_item, 500)):
        assert item.seconds == index.seconds(times[item.physical_offset], header.begin_timestamp)


def test_the_configuration_counts_the_same_sizes() -> None:
    """`config/` knows no layouts; it has the sizes as numbers."""
    config = StoreConfig.from_keys({"maxHashSlotNum": 7, "maxIndexNum": 11, "mappedFileSizeConsumeQueue": 41})
    assert config.index_file_size == index.file_size(7, 11)
    assert config.consume_queue_file_size == 3 * UNIT_SIZE
