"""A small JSON file with a version: read back, replaced as a whole, refused in the words of its user."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from flintmq.errors import FlintError, StoreAccessError, UsageError
from flintmq.storage.filesystem import REAL
from flintmq.storage.versioned_json import VersionedJson
from tests.support.faults import Faulty

STYLE = {"ensure_ascii": False, "indent": 1}


def at(path: Path, bytes_max: int = 100) -> VersionedJson:
    def refused(error: Exception) -> FlintError:
        return UsageError(f"{type(error).__name__}: {error}")

    return VersionedJson(str(path), ("format", 3), refused, bytes_max, STYLE)


def test_a_state_comes_back_and_the_text_is_as_asked_for(tmp_path: Path) -> None:
    file = at(tmp_path / "state")
    assert file.load(dict) is None and file.load(dict, REAL) is None
    file.save({"topic": "主题\ud800", "end": 5})
    assert (tmp_path / "state").read_bytes() == (
        b'{\n "format": 3,\n "topic": "\xe4\xb8\xbb\xe9\xa2\x98\xed\xa0\x80",\n "end": 5\n}\n'
    )
    for effects in (None, REAL):
        assert file.load(lambda value: value, effects) == {"topic": "主题\ud800", "end": 5}
    VersionedJson(file.path, ("form", "a 1"), file.refused, style={"separators": (",", ":")}, end="").save({"x": [1]})
    assert (tmp_path / "state").read_bytes() == b'{"form":"a 1","x":[1]}'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "JSONDecodeError: "), (b"\xff", "UnicodeDecodeError: "), (b"[]", "TypeError: "),
        (b"1", "AttributeError: "), (b"{}", "KeyError: 'format'"),
        (b'{"format": 2}', "ValueError: written by another version of FlintMQ"),
        (b'{"format": 3}', "KeyError: 'end'"), (b"[" * 100_000, "RecursionError: "),
        (b'{"format": 3, "end": 1}' + b" " * 100, "ValueError: too large"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("effects", [None, REAL])
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes, why: str, effects: None) -> None:
    (tmp_path / "state").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        at(tmp_path / "state", 100 if b"large" in why.encode() else 1 << 20).load(lambda value: value["end"], effects)
    assert str(caught.value).startswith(why)
    assert (tmp_path / "state").read_bytes() == data


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    data = b'{"format": 3, "end": 1}'
    (tmp_path / "state").write_bytes(data)
    for effects in (None, REAL):
        assert at(tmp_path / "state", len(data)).load(lambda value: value["end"], effects) == 1
        with pytest.raises(UsageError, match="too large"):
            at(tmp_path / "state", len(data) - 1).load(dict, effects)


def test_in_a_store_no_link_is_followed(tmp_path: Path) -> None:
    at(tmp_path / "state").save({})
    (tmp_path / "link").symlink_to(tmp_path / "state")
    assert at(tmp_path / "link").load(dict) == {}
    with pytest.raises(StoreAccessError, match="symbolic link"):
        at(tmp_path / "link").load(dict, REAL)


def test_a_disk_that_fails(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(UsageError, match="IsADirectoryError"):
        at(tmp_path / "state").load(dict)
    file, disk = at(tmp_path / "other"), Faulty()
    file.save({"end": 1})
    disk.refuse("rename", error=errno.ENOSPC)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.save({"end": 2}, disk)
    assert file.load(dict) == {"end": 1}
