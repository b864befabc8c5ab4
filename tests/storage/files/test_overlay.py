"""Reads through planned changes give what a disk with them would give."""

import os
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.overlay import Overlay


def read(overlay: Overlay, path: Path, count: int = 100, position: int = 0) -> bytes:
    with overlay.reading(str(path)) as fd:
        return overlay.pread(fd, count, position)


def test_patches_and_sizes(tmp_path: Path) -> None:
    file, overlay = tmp_path / "f", Overlay()
    file.write_bytes(b"0123456789")
    overlay.patch(str(file), 8, b"XY")
    overlay.patch(str(file), 2, b"ab")
    assert read(overlay, file) == b"01ab4567XY" and read(overlay, file, 3, 3) == b"b45"
    overlay.sizes[str(file)] = 14
    overlay.patch(str(file), 12, b"Z")
    assert read(overlay, file) == b"01ab4567XY\0\0Z\0" and overlay.size(str(file)) == 14
    overlay.sizes[str(file)] = 5
    assert read(overlay, file) == b"01ab4" and read(overlay, file, 10, 7) == b""
    with overlay.reading(str(file)) as fd:
        assert overlay.size_of(fd) == 5
    assert file.read_bytes() == b"0123456789"


def test_other_content_in_a_place(tmp_path: Path) -> None:
    overlay = Overlay()
    for name in ("store/a/x", "store/a/y", "store/b/z", "new/w"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    store = tmp_path / "store"
    overlay.places = {str(store / "a"): str(tmp_path / "new"), str(store / "b"): None,
                      str(store / "c"): str(tmp_path / "new")}  # fmt: skip
    assert overlay.listdir(str(store)) == ["a", "c"] and overlay.listdir(str(store / "a"), str(store)) == ["w"]
    assert read(overlay, store / "a" / "w") == b"new/w" and overlay.size(str(store / "a" / "x")) is None
    assert not overlay.is_dir(str(store / "b")) and overlay.is_dir(str(store / "c"))
    assert overlay.modified_ms(str(store / "a" / "w")) is not None and overlay.modified_ms(str(store / "b")) is None
    with pytest.raises(FileNotFoundError):
        overlay.open_read(str(store / "b" / "z"))
    assert REAL.listdir(str(store)) == ["a", "b"]


def test_files_of_a_directory_have_their_planned_sizes_and_contents(tmp_path: Path) -> None:
    store, overlay = tmp_path / "store", Overlay()
    for name in ("one", "two"):
        (store / name).mkdir(parents=True)
        (store / name / "a").write_bytes(b"12345")
    (store / "two" / "b").write_bytes(b"6")
    (store / "link").symlink_to(store / "one")
    one, two, below = str(store / "one"), str(store / "two"), str(store)
    overlay.patch(str(store / "one" / "a"), 1, b"x")
    overlay.sizes[str(store / "two" / "b")] = 9
    assert overlay.regular_files(one, below) == [("a", 5)]
    assert overlay.regular_files(two, below) == [("a", 5), ("b", 9)]
    assert overlay.only_file(one, below, 5) == ([("a", 5)], b"1x345")
    assert overlay.only_file(one, below, 6) == ([("a", 5)], None), "it has fewer bytes"
    assert overlay.only_file(two, below, 1) == ([("a", 5), ("b", 9)], None)
    assert overlay.regular_files(str(store / "link"), below) == [], "no link is followed"
    assert overlay.only_file(str(store / "link"), below, 5) == ([], None)


def test_a_patch_in_a_hole_is_data(tmp_path: Path) -> None:
    file, overlay = tmp_path / "f", Overlay()
    with file.open("wb") as out:
        out.truncate(1 << 20)
    overlay.patch(str(file), 70_000, b"x")
    with overlay.reading(str(file)) as fd:
        found = overlay.next_data(fd, 0)
        assert found is not None and found <= 70_000
        assert overlay.next_data(fd, 70_001) in (None, 70_001)  # the second where the file system knows no holes
    assert os.stat(file).st_size == 1 << 20


def test_patches_meet_the_edges_of_a_read(tmp_path: Path) -> None:
    """Read at every place with every length: what a file with the changes made would give."""
    file, overlay = tmp_path / "f", Overlay()
    file.write_bytes(b"0123456789")
    overlay.patch(str(file), 3, b"abc")
    overlay.patch(str(file), 0, b"X")
    overlay.patch(str(file), 9, b"Z")
    whole = b"X12abc678Z"
    with overlay.reading(str(file)) as fd:
        for position in range(12):
            for count in range(12):
                assert overlay.pread(fd, count, position) == whole[position : position + count]
        buffer = bytearray(b"~" * 12)
        assert overlay.pread_into(fd, memoryview(buffer), 5) == 5
        assert bytes(buffer) == b"c678Z~~~~~~~", "behind what is there the buffer is left alone"


def test_a_file_that_would_be_longer_reads_as_zeros_there(tmp_path: Path) -> None:
    file, overlay = tmp_path / "f", Overlay()
    file.write_bytes(b"0123")
    overlay.sizes[str(file)] = 8
    whole = b"0123\0\0\0\0"
    with overlay.reading(str(file)) as fd:
        assert overlay.size_of(fd) == 8
        for position in range(10):
            for count in range(10):
                assert overlay.pread(fd, count, position) == whole[position : position + count]
        buffer = bytearray(b"~" * 8)
        assert overlay.pread_into(fd, memoryview(buffer), 2) == 6 and bytes(buffer) == b"23\0\0\0\0~~"
    plain = tmp_path / "g"
    plain.write_bytes(b"0123")
    with overlay.reading(str(plain)) as fd:
        assert (overlay.size_of(fd), overlay.pread(fd, 9, 1)) == (4, b"123")
    with REAL.reading(str(file)) as fd:
        assert overlay.size_of(fd) == 4, "a file that was opened elsewhere is as it is"
        assert overlay.pread(fd, 9, 1) == b"123" and overlay.next_data(fd, 0) == REAL.next_data(fd, 0)


def test_a_number_that_was_closed_is_of_no_file(tmp_path: Path) -> None:
    """The system gives the number of a closed file to the next one."""
    file, other, overlay = tmp_path / "f", tmp_path / "g", Overlay()
    file.write_bytes(b"0123")
    other.write_bytes(b"abcd")
    overlay.sizes[str(file)] = 1
    overlay.patch(str(file), 0, b"X")
    fd = overlay.open_read(str(file))
    assert overlay.pread(fd, 9, 0) == b"X"
    overlay.close(fd)
    again = os.open(other, os.O_RDONLY)
    assert again == fd and overlay.pread(again, 9, 0) == b"abcd" and overlay.size_of(again) == 4
    overlay.close(again)


def test_places_below_places_and_names_that_are_only_alike(tmp_path: Path) -> None:
    store, other, overlay = tmp_path / "store", tmp_path / "other", Overlay()
    for folder, name in ((store / "a", "x"), (store / "ab", "y"), (other / "deep", "z")):
        folder.mkdir(parents=True)
        (folder / name).write_text(f"{folder.name}/{name}")
    overlay.places = {str(store / "a"): str(other), str(store / "gone"): None}
    assert overlay.listdir(str(store)) == ["a", "ab"] and overlay.listdir(str(store / "a")) == ["deep"]
    assert overlay.listdir(str(store / "gone")) == []
    assert read(overlay, store / "a" / "deep" / "z") == b"deep/z" and read(overlay, store / "ab" / "y") == b"ab/y"
    assert overlay.size(str(store / "a" / "deep" / "z")) == 6 and overlay.size(str(store / "gone")) is None
    overlay.sizes[str(store / "gone")] = 5
    assert overlay.size(str(store / "gone")) is None, "what would be gone has no size"
    overlay.sizes[str(store / "ab" / "y")] = 3
    assert overlay.size(str(store / "ab" / "y")) == 3 and overlay.size(str(store / "ab" / "none")) is None
    z, y = other / "deep" / "z", store / "ab" / "y"
    os.utime(z, ns=(0, 5_000_000_000))
    os.utime(y, ns=(0, 7_000_000_000))
    assert overlay.modified_ms(str(store / "a" / "deep" / "z")) == 5000 and overlay.modified_ms(str(y)) == 7000
    assert overlay.is_dir(str(store / "a" / "deep")) and overlay.is_dir(str(store / "ab"))
    assert not overlay.is_dir(str(y))
    with pytest.raises(FileNotFoundError) as caught:
        overlay.open_read(str(store / "gone"))
    assert caught.value.args == (str(store / "gone"),)


def test_links_are_followed_only_where_the_content_was_planned(tmp_path: Path) -> None:
    """`below` keeps a path inside a store; planned content lies elsewhere on purpose."""
    store, other, overlay = tmp_path / "store", tmp_path / "other", Overlay()
    store.mkdir()
    other.mkdir()
    (other / "x").write_text("x")
    (store / "out").symlink_to(other)
    assert overlay.listdir(str(store / "out")) == ["x"] and overlay.listdir(str(store / "out"), str(store)) == []
    with pytest.raises(StoreAccessError):
        overlay.open_read(str(store / "out" / "x"), str(store))
    overlay.places = {str(store / "in"): str(other)}
    assert overlay.listdir(str(store / "in"), str(store)) == ["x"]
    overlay.close(overlay.open_read(str(store / "in" / "x"), str(store)))


def test_holes_end_at_the_first_patch_behind_a_position(tmp_path: Path) -> None:
    file, overlay = tmp_path / "f", Overlay()
    with file.open("wb") as out:
        out.truncate(1 << 20)
        out.seek(800_000)
        out.write(b"data")
    if REAL.next_data(fd := os.open(file, os.O_RDONLY), 0) == 0:
        os.close(fd)
        pytest.skip("this system or build cannot tell where holes are")
    os.close(fd)
    overlay.patch(str(file), 100_000, b"abc")
    overlay.patch(str(file), 900_000, b"abc")
    with overlay.reading(str(file)) as fd:
        block = REAL.next_data(fd, 0)
        assert block is not None and 700_000 < block <= 800_000
        after = 810_000 // 65536 * 65536 + 65536  # behind the block of the data, whatever its size up to 64 KiB
        for position, found in (
            (0, 100_000),
            (100_000, 100_000),
            (100_002, 100_002),
            (100_003, block),
            (after, 900_000),
        ):
            assert overlay.next_data(fd, position) == found
        assert overlay.next_data(fd, 900_003) is None
