"""Reads through planned changes give what a disk with them would give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintmq.storage.effects import REAL
from flintmq.storage.overlay import Overlay


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
