import struct

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, CorruptStoreError
from flintmq.format.index import key_hash
from flintmq.store.index.reader import IndexFileReader, discover, log_range_of

KEYS = ("maxHashSlotNum", "maxIndexNum")
SLOTS, ITEMS = 4, 16
HEAD = 40 + 4 * SLOTS


def geometry_of(store):
    return StoreConfig.from_keys({key: store.config[key] for key in KEYS})


def index_file(folder, slots, items, count=None, begin=(1000, 100), end=(9000, 900)):
    """A file written by hand: slots = {slot: item}, items = [(hash, offset, seconds, previous)] from item 1 on."""
    data = bytearray(HEAD + 20 * ITEMS)
    struct.pack_into(
        ">qqqqii", data, 0, begin[0], end[0], begin[1], end[1], len(slots), len(items) + 1 if count is None else count
    )
    for slot, item in slots.items():
        struct.pack_into(">i", data, 40 + 4 * slot, item)
    for number, item in enumerate(items, 1):
        struct.pack_into(">iqii", data, HEAD + 20 * number, *item)
    path = folder / "index" / "20260102030405678"
    path.parent.mkdir()
    path.write_bytes(data)
    (found,) = discover(str(folder), StoreConfig.from_keys({"maxHashSlotNum": SLOTS, "maxIndexNum": ITEMS}))
    return found


def test_every_answer_that_java_gives_is_found(golden_store):
    files = discover(str(golden_store.path), geometry_of(golden_store))
    _, last = log_range_of(files[-1])  # what Java dispatches when it loads the store is not in these files
    asked = [row for row in golden_store.queue_rows if row["kind"] == "key"]
    assert asked
    for row in asked:
        found = []
        for file in reversed(files):
            with file.open() as index:
                found += index.find(key_hash(row["topic"], row["key"]))
        assert {offset for offset in row["physical_offsets"] if offset <= last} <= set(found), row["key"]


def test_headers_and_items_agree_with_the_log(golden):
    store = golden("rolled")
    files = discover(str(store.path), geometry_of(store))
    assert len(files) > 2 and [file.path for file in files] == sorted(file.path for file in files)
    times = {row["physical_offset"]: row["store_timestamp"] for row in store.rows}
    for file in files[1:]:
        first, last = log_range_of(file)
        with file.open() as index:
            items = list(index.items())
            assert [number for number, _ in items] == list(range(1, index.header().next_item))
            assert (items[0][1].physical_offset, items[-1][1].physical_offset) == (first, last)
            assert index.header().end_timestamp == times[last]
            assert sum(1 for slot in range(index.shape.slots) if index.slot(slot)) == index.header().slots_used
            assert {n for slot in range(index.shape.slots) for n, _ in index.chain(slot)} == {n for n, _ in items}


def test_a_chain_gives_the_newest_first(tmp_path):
    # Hashes 5 and 9 share slot 1.
    file = index_file(tmp_path, {1: 3, 2: 4}, [(5, 100, 0, 0), (9, 200, 1, 1), (5, 300, 2, 2), (6, 400, 2, 0)])
    with file.open() as index:
        assert [number for number, _ in index.chain(5)] == [3, 2, 1]
        assert list(index.find(5)) == [300, 100]
        assert list(index.find(9)) == [200]
        assert list(index.find(6)) == [400]
        assert list(index.find(7)) == []
    assert log_range_of(file) == (100, 900)


@pytest.mark.parametrize(
    ("slots", "items", "count", "position", "reason"),
    [
        ({1: 1}, [(5, 100, 0, 1)], None, HEAD + 20 + 16, "item 1 leads to item 1, which is not older"),
        ({1: 2}, [(9, 100, 0, 2), (9, 200, 0, 1)], None, HEAD + 20 + 16, "item 1 leads to item 2, which is not older"),
        ({1: 9}, [(5, 100, 0, 0)], None, 44, "slot leads to item 9, the newest is 2"),
        ({1: 15}, [(5, 100, 0, 0)], 1 << 30, HEAD + 20 * 15, "item 15 has the hash 0, which is not of slot 1"),
        (
            {1: 2},
            [(5, 100, 0, 0), (6, 200, 0, 1)],
            None,
            HEAD + 20 * 2,
            "item 2 has the hash 6, which is not of slot 1",
        ),
        ({1: 16}, [(5, 100, 0, 0)], 1 << 30, 44, "slot leads to item 16, the newest is 15"),
    ],
    ids=["self", "loop", "beyond the count", "zeros", "another slot", "beyond the file"],
)
def test_chains_that_do_not_descend_end_in_an_error(tmp_path, slots, items, count, position, reason):
    with index_file(tmp_path, slots, items, count).open() as index:
        with pytest.raises(CorruptStoreError, match=reason) as caught:
            list(index.find(5))
    assert caught.value.position == position


def test_values_that_stand_for_none(tmp_path):
    file = index_file(tmp_path, {0: -1, 1: 2}, [(5, 100, 0, -7), (5, -1, 0, 1)])
    with file.open() as index:
        assert list(index.find(4)) == []
        assert list(index.find(5)) == [100]


def test_a_file_that_is_cut_while_it_is_open(tmp_path):
    file = index_file(tmp_path, {1: 3}, [(5, 100, 0, 0), (5, 200, 0, 1), (5, 300, 0, 2)])
    with file.open() as index:
        with open(file.path, "r+b") as out:
            out.truncate(HEAD + 20 * 3)
        with pytest.raises(CorruptStoreError, match="the file ends here"):
            list(index.find(5))
        assert [number for number, _ in index.items()] == [1, 2]
        with open(file.path, "r+b") as out:
            out.truncate(10)
        with pytest.raises(CorruptStoreError, match="position 0: the file ends here"):
            index.header()


@pytest.mark.parametrize("count", [0, 1, -5])
def test_an_empty_file_covers_nothing(tmp_path, count):
    assert log_range_of(index_file(tmp_path, {}, [], count)) is None


def test_headers_that_cannot_be(tmp_path):
    assert log_range_of(index_file(tmp_path, {}, [(5, 100, 0, 0)], end=(0, 50))) is None
    short = IndexFileReader(str(tmp_path / "short"), 3, StoreConfig())
    assert log_range_of(short) is None
    (tmp_path / "short").write_bytes(b"abc")
    assert log_range_of(short) is None
    with pytest.raises(ConfigError, match=r"its size \(3\) does not determine its slots and items"), short.open():
        pass


def test_only_files_that_are_the_indexs_are_taken(tmp_path):
    file = index_file(tmp_path, {}, [])
    folder = tmp_path / "index"
    (folder / "20260102030405679").write_bytes(b"")
    (folder / "notes").write_bytes(b"x")
    (folder / "20260102030405680").mkdir()
    (folder / "20260102030405681").symlink_to(file.path)
    assert [found.path for found in discover(str(tmp_path), StoreConfig())] == [file.path]
    assert discover(str(tmp_path / "none"), StoreConfig()) == []


def test_a_vanished_file_is_gone_not_broken(tmp_path):
    file = index_file(tmp_path, {}, [])
    (tmp_path / "index" / "20260102030405678").unlink()
    assert log_range_of(file) is None
    with pytest.raises(FileNotFoundError), file.open():
        pass
