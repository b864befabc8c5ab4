"""A small JSON file with a version: read back, replaced as a whole, refused in the words of its user."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import FlintError, StoreAccessError, UnsupportedFormatError, UsageError
from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.versioned_json import VersionedJson, only
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
        b'{\n "format": 3,\n "flintmq": "0.2.0",\n "topic": "\xe4\xb8\xbb\xe9\xa2\x98\xed\xa0\x80",\n "end": 5\n}\n'
    )
    for effects in (None, REAL):
        assert file.load(lambda value: value, effects) == {"topic": "主题\ud800", "end": 5}
    VersionedJson(file.path, ("form", "a 1"), file.refused, style={"separators": (",", ":")}, end="").save({"x": [1]})
    assert (tmp_path / "state").read_bytes() == b'{"form":"a 1","flintmq":"0.2.0","x":[1]}'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ValueError: cut off"), (b"\xff", "UnicodeDecodeError: "), (b"[]", "ValueError: no JSON object"),
        (b"1", "ValueError: no JSON object"), (b"{}", "ValueError: no format of FlintMQ"),
        (b'{"format": 3, "en', "ValueError: cut off"), (b'{"format": 3, "end', "ValueError: cut off"),
        (b'{"format": 3,', "ValueError: cut off"), (b"end: 3", "ValueError: no JSON: "),
        (b'{"format": 3, end', "ValueError: no JSON: "), (b'{"format": "x"}', "ValueError: no format of FlintMQ"),
        (b'{"format": true}', "ValueError: no format of FlintMQ"),
        (b'{"format": 1}', "ValueError: no format of FlintMQ"),
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


NEWER = r"/state: format 4 is not known here: made by "


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"format": 4, "flintmq": "0.3.0", "end": 1}', NEWER + r"FlintMQ 0\.3\.0, newer than this one"),
        (b'{"format": 4, "flintmq": "0.10.0.dev1"}', NEWER + r"FlintMQ 0\.10\.0\.dev1, newer than this"),
        (b'{"format": 4}', NEWER + r"a FlintMQ newer than this one \(0\.2\.0\): upgrade this one"),
        (b'{"format": 4, "flintmq": ["x"]}', NEWER + r"a FlintMQ newer"),
        (b'{"format": 3, "flintmq": "1.0", "end": 1, "more": 1}', "key 'more' is not known here: .* 1.0, newer than"),
        (b'{"format": 3, "flintmq": "0.2.0", "end": 1, "more": 1}', "key 'more' .*another FlintMQ .*changed by hand"),
        (b'{"format": 3, "end": 1, "more": 1}', "key 'more' .*another FlintMQ .*changed by hand"),
        (b'{"format": 3, "end": {"deep": 1}}', "key 'deep' .*another FlintMQ"),
    ],
)  # fmt: skip
def test_what_a_newer_version_wrote_is_refused_as_such(tmp_path: Path, data: bytes, why: str) -> None:
    def build(state: dict[str, Any]) -> Any:
        end = only(state, ("end",))["end"]
        return only(end, ()) if isinstance(end, dict) else end

    (tmp_path / "state").write_bytes(data)
    with pytest.raises(UnsupportedFormatError, match=why) as caught:
        at(tmp_path / "state").load(build)
    assert "\n" not in str(caught.value) and "refused" not in str(caught.value)
    named = VersionedJson(
        str(tmp_path / "state"), ("form", "a 1"), lambda error: UsageError(str(error)), older=("a 0",)
    )
    for text, newer in (("a 2", True), ("a 1", False), ("a 0", False), ("b 2", False), ("a -1", False)):
        (tmp_path / "state").write_text(json.dumps({"form": text}))
        if newer:
            with pytest.raises(UnsupportedFormatError, match="form 'a 2' is not known here"):
                named.load(dict)
        elif text in ("a 0", "a 1"):
            assert named.load(dict) == {}
        else:
            with pytest.raises(UsageError, match="no form of FlintMQ"):
                named.load(dict)


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
