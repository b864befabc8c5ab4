"""Sizes and divisions of derived files: given keys, else the files that are there, else the default."""

import os

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError
from flintmq.format import index
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout.file_geometry import (
    FileGeometry,
    IndexGeometry,
    common_size,
    index_division,
    index_files,
    index_geometry,
)

PLAIN = StoreConfig()


def test_common_size():
    assert common_size([], 7) == 7
    assert common_size([0, 0], 7) == 7
    assert common_size([100, 100, 31], 7) == 100
    assert common_size([31, 100], 7) == 100
    assert common_size([1 << 31, 1 << 40], 7) == 7
    assert common_size([(1 << 31) - 1], 7) == (1 << 31) - 1


def geometry(path, config=PLAIN):
    with REAL.reading(os.fspath(path)) as fd:
        return index_geometry(os.fspath(path), REAL.size_of(fd), config, fd)


def test_index_geometry_of_every_golden_index(golden_store):
    keys = ("maxHashSlotNum", "maxIndexNum")
    written = IndexGeometry(*(golden_store.config[key] for key in keys))
    files = sorted((golden_store.path / "index").iterdir())
    assert files
    for file in files:
        assert geometry(file, StoreConfig.from_keys({key: golden_store.config[key] for key in keys})) == written
        for key in keys:
            assert geometry(file, StoreConfig.from_keys({key: golden_store.config[key]})) == written
        if written.items == 4 * written.slots:
            assert geometry(file) == written
        else:
            with pytest.raises(ConfigError, match="give maxHashSlotNum and maxIndexNum"):
                geometry(file)


def test_index_geometry_of_the_default_size_and_of_sizes_that_fit_nothing(tmp_path):
    assert index_geometry("i", 420_000_040, PLAIN) == IndexGeometry(5_000_000, 20_000_000)
    for size in (0, 39, 40, 41, 40 + 84 * 5 + 4):
        with pytest.raises(ConfigError, match=f"its size \\({size}\\) does not determine its slots and items"):
            index_geometry("i", size, PLAIN)
    with pytest.raises(ConfigError, match="i: 60 bytes are too few for maxHashSlotNum=20; correct these keys"):
        index_geometry("i", 60, PLAIN.with_keys({"maxHashSlotNum": 20}))
    with pytest.raises(ConfigError, match="too few for maxIndexNum=20"):
        index_geometry("i", 60, PLAIN.with_keys({"maxIndexNum": 20}))
    # A file that was cut short has fewer items than its keys say.
    assert (
        index_geometry("i", 40 + 4 * 20 + 20 * 7, PLAIN.with_keys({"maxHashSlotNum": 20, "maxIndexNum": 60})).items == 7
    )


@pytest.mark.parametrize("damage", ["count", "hash", "previous", "slot"])
def test_a_guess_that_the_items_contradict(golden, tmp_path, damage):
    file = min((golden("rolled").path / "index").iterdir())
    slots, items = 50, 200
    data = bytearray(file.read_bytes())
    last = 40 + 4 * slots + 20 * (items - 1)
    at, value = {
        "count": (36, items + 1),
        "hash": (last, -5),
        "previous": (last + 16, items),
        "slot": (40 + 4 * (int.from_bytes(data[last : last + 4], "big") % slots), 3),
    }[damage]
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    (tmp_path / file.name).write_bytes(data)
    with pytest.raises(ConfigError, match="does not determine its slots and items"):
        geometry(tmp_path / file.name)


def test_no_index_file_is_larger_than_what_rocketmq_maps():
    for keys in ({}, {"maxHashSlotNum": 1 << 30}):
        with pytest.raises(ConfigError, match="more than RocketMQ's files have"):
            index_geometry("i", 1 << 31, StoreConfig.from_keys(keys))


def index_file(root, name, size, count):
    """An index file without items whose header counts `count` all the same."""
    (root / "index").mkdir(exist_ok=True)
    header = index.HEADER.pack(index.Header(0, 0, 0, 0, 0, count))
    (root / "index" / f"{name:017d}").write_bytes(header + bytes(size - len(header)))


def test_the_division_of_the_newest_index_file_that_holds_its_items(tmp_path):
    root = str(tmp_path)

    def found(refuse, config=PLAIN):
        return index_division(index_files(root), config, REAL, refuse=refuse)

    assert found(True) == found(False) == (IndexGeometry(5_000_000, 20_000_000), [])
    index_file(tmp_path, 1, index.file_size(50, 200), 1)
    index_file(tmp_path, 2, index.file_size(100, 400), 1)
    assert found(True) == found(False) == (IndexGeometry(100, 400), [])
    made = FileGeometry.of(root, PLAIN, REAL)
    assert (made.slots, made.items) == (100, 400)
    # Cut short: with the keys its division is known, and it has not the items that it counts.
    index_file(tmp_path, 3, index.file_size(100, 40), 41)
    given = StoreConfig.from_keys({"maxHashSlotNum": 100, "maxIndexNum": 400})
    spoilt = [str(tmp_path / "index" / f"{3:017d}")]
    assert found(True, given) == found(False, given) == (IndexGeometry(100, 400), spoilt)
    # Without them it does not tell its division: who would go on in it must know, who makes new files need not.
    assert found(False) == (IndexGeometry(100, 400), spoilt)
    with pytest.raises(ConfigError, match="does not determine its slots and items"):
        found(True)


def test_an_index_that_tells_nothing_needs_keys(tmp_path):
    index_file(tmp_path, 1, 1000, 1)
    with pytest.raises(ConfigError, match="give maxHashSlotNum and maxIndexNum"):
        FileGeometry.of(str(tmp_path), PLAIN, REAL)
    given = StoreConfig.from_keys({"maxHashSlotNum": 7, "maxIndexNum": 9})
    made = FileGeometry.of(str(tmp_path), given, REAL)
    assert (made.slots, made.items) == (7, 9)


def test_sizes_given_found_or_as_rocketmq_has_them(tmp_path):
    root = str(tmp_path)
    assert FileGeometry.of(root, PLAIN, REAL) == FileGeometry(6_000_000, 0, 13_800_000, 5_000_000, 20_000_000)
    for kind, size in (("consumequeue", 401), ("consumequeue_ext", 300), ("batchconsumequeue", 460)):
        folder = tmp_path / kind / "t" / "0"
        folder.mkdir(parents=True)
        (folder / ("0" * 20)).write_bytes(bytes(size))
    assert FileGeometry.of(root, PLAIN, REAL) == FileGeometry(420, 300, 460, 5_000_000, 20_000_000)
    given = StoreConfig.from_keys(
        {
            "mappedFileSizeConsumeQueue": 201,
            "mappedFileSizeConsumeQueueExt": 500,
            "mapperFileSizeBatchConsumeQueue": 920,
        }
    )
    assert FileGeometry.of(root, given, REAL) == FileGeometry(220, 500, 920, 5_000_000, 20_000_000)
