"""The copy of where an export stands: written, read by others, and never trusted."""

import json

import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.export.checkpoint import ExportCheckpoint
from flintmq.lake.table.target import Manifest
from flintmq.store.commitlog.anchor import LogAnchor


def manifest(number):
    return Manifest(number, 0, 70 * number, 1, [], 1, LogAnchor(0, 70, 0, 0), {}, 0, 5, {"A/0": number})


def at(folder, table="/lake"):
    return ExportCheckpoint.at(str(folder), table)


def test_it_is_kept_and_read_again(tmp_path):
    copy = at(tmp_path / "new" / "place")
    copy.check(None)
    copy.keep(None)
    assert list(copy.folder.iterdir()) == []
    copy.keep(manifest(1))
    copy.keep(manifest(2))
    told = json.loads((tmp_path / "new/place/export.json").read_text())
    assert told == {
        "format": 1,
        "flintmq": "0.2.0",
        "table": "/lake",
        "number": 2,
        "end": 140,
        "made": 5,
        "offsets": {"A/0": 2},
    }
    at(copy.folder).check(manifest(2))
    at(copy.folder).check(manifest(3))


def test_a_table_that_was_put_back(tmp_path):
    at(tmp_path).keep(manifest(2))
    for last, there in ((manifest(1), 1), (None, 0)):
        with pytest.raises(UsageError, match=f"is at export 2, /lake at {there}: the table was restored"):
            at(tmp_path).check(last)


def test_what_is_refused(tmp_path):
    at(tmp_path / "a").keep(manifest(2))
    with pytest.raises(UsageError, match="belongs to /lake"):
        at(tmp_path / "a", "/other").check(manifest(2))
    with pytest.raises(UsageError, match="is within"):
        at("/lake/checkpoint")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "metadata").touch()
    with pytest.raises(UsageError, match="holds other things"):
        at(tmp_path / "b")
    (tmp_path / "c").touch()
    with pytest.raises(StoreAccessError, match="give a directory"):
        at(tmp_path / "c")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0, "number": 1, "table": "/lake"}', '{"format": 1}', "\xff"]
)
def test_a_copy_that_is_none(tmp_path, text):
    (tmp_path / "export.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreAccessError, match=r"export\.json: not readable"):
        at(tmp_path).check(None)


def test_a_death_between_writing_and_renaming_leaves_no_stranger(tmp_path):
    (tmp_path / "export.json.flintmq-new").write_text("half")
    at(tmp_path).keep(manifest(1))
    assert [path.name for path in tmp_path.iterdir()] == ["export.json"]


def test_without_a_directory_nothing_happens():
    nothing = ExportCheckpoint.at(None, "/lake")
    nothing.check(None)
    nothing.keep(manifest(1))
