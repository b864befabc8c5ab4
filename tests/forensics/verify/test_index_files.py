"""Which index files there are, how they are divided, and what is odd about them."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError
from flintmq.forensics.verify.run import verify
from tests.compat.stores import Golden
from tests.support.makers import IndexMaker, all_keys, check, config_of, flip, patch


@pytest.fixture
def rolled(golden: Callable[[str], Golden], tmp_path: Path) -> tuple[Golden, Path, list[Path]]:
    """The store with six index files."""
    root = golden("rolled").copy(tmp_path)
    return golden("rolled"), root, sorted((root / "index").iterdir())


def test_usual_divisions_need_no_keys(golden: Callable[[str], Golden]):
    for name in ("basic", "rolled", "crash"):
        assert verify(golden(name).path).exit_code == 0


def test_a_damaged_item_does_not_hide_the_division(golden: Callable[[str], Golden], tmp_path: Path):
    root = golden("v540").copy(tmp_path)
    (path,) = (root / "index").iterdir()
    flip(path, 40 + 4 * 500 + 20 * 1430 + 16, 0x80)  # among the last items, which prove a guess
    assert verify(root).defect_counts == {"index-chain": 1}


def test_an_odd_division_asks_for_keys(golden: Callable[[str], Golden]):
    found = verify(golden("crash-keys").path)
    assert (found.exit_code, found.index_files) == (0, 0)
    told = next(note for note in found.notes if note.code == "not-checked")
    assert "--set maxHashSlotNum and maxIndexNum" in told.text
    assert verify(golden("crash-keys").path, config_of(golden("crash-keys"))).index_files == 1


def test_keys_that_do_not_fit_a_file(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    with pytest.raises(ConfigError, match="maxHashSlotNum=5000000 and maxIndexNum=200: .* have 50 slots"):
        verify(root, config_of(store).with_keys({"maxHashSlotNum": 5_000_000}))
    for path in paths:  # no division gives such a length, so none is shown
        path.write_bytes(path.read_bytes()[:1003])
    found = verify(root, config_of(store).with_keys({"maxHashSlotNum": 5_000_000}))
    assert found.defect_counts["index-file"] == len(paths)


def test_another_size_than_the_others(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    paths[2].write_bytes(paths[2].read_bytes() + b"x")
    check(root, store, defects={"index-file"})
    paths[2].write_bytes(paths[2].read_bytes()[:100])
    check(root, store, defects={"index-file"})
    paths[2].write_bytes(paths[2].read_bytes()[:39])
    check(root, store, defects={"index-file"})
    paths[2].write_bytes(b"")
    check(root, store, notes={"empty-file", "index-uncovered", "units-expired", "index-expired"})


def test_a_missing_file_is_a_stretch_not_covered(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    paths[2].unlink()
    check(root, store, notes={"index-uncovered", "units-expired", "index-expired"})


def test_names_that_go_back(rolled: tuple[Golden, Path, list[Path]]):
    """Local time went back: the order by offset is the right one."""
    store, root, paths = rolled
    paths[2].rename(paths[2].with_name("20261120083835149"))
    check(root, store, notes={"units-expired", "index-expired"})


def test_files_that_overlap(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    paths[-1].with_name("20261120103835149").write_bytes(paths[2].read_bytes())
    found = verify(root, config_of(store))
    assert found.defect_counts["index-order"] == 1
    assert found.defect_counts.keys() <= {"index-order", "index-extra", "index-wrong", "index-header"}


def test_an_empty_last_file_is_sound(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    seed = struct.pack(">qqqqii", *[store.rows[-1]["store_timestamp"]] * 2, *[222_314] * 2, 0, 0)
    last = paths[-1].with_name("20261120103835149")
    last.write_bytes(seed.ljust(4240, b"\0"))
    assert check(root, store).index_files == 6
    last.write_bytes(bytes(4240))
    check(root, store)


def test_files_that_claim_to_be_empty(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    count = paths[2].read_bytes()[36:40]
    for value in (0, 1, -5):
        patch(paths[2], 36, struct.pack(">i", value))
        check(root, store, defects={"index-header"} if value < 0 else {"index-file"})
    patch(paths[2], 36, count)
    patch(paths[-1], 36, bytes(4))  # the last one may be empty, but then nothing is in it
    check(root, store, defects={"index-header"})


def test_what_is_no_index_file(rolled: tuple[Golden, Path, list[Path]]):
    store, root, paths = rolled
    (root / "index" / "notes.txt").touch()
    check(root, store, notes={"unknown-file", "units-expired", "index-expired"})
    paths[2].unlink()
    paths[2].mkdir()
    check(root, store, defects={"index-file"})


def test_default_geometry(golden: Callable[[str], Golden], tmp_path: Path):
    """Files of 420 MB, as brokers have them: sparse here, and hardly any memory is taken."""
    root = golden("v540").copy(tmp_path)
    (path,) = (root / "index").iterdir()
    small = next(iter(IndexMaker(5_000_000, 3000).put(all_keys(golden("v540").rows, True)).contents()))
    path.write_bytes(small)
    with path.open("r+b") as file:
        file.truncate(420_000_040)
    found = verify(root, StoreConfig())
    assert (found.defects, found.index_items) == ([], 1431)
