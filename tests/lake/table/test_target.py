"""The directory that exports go to: what is in it after a run, a failure, a race."""

import json
import os
from pathlib import Path

import pytest

from flintmq.arrow.schema import SPARK_SCHEMA
from flintmq.errors import StoreAccessError, UnsupportedFormatError, UsageError
from flintmq.lake.files.table_folder import DiskFolder
from flintmq.lake.table import target as targets
from flintmq.lake.table.parquet_target import MANIFEST, ParquetTarget
from flintmq.lake.table.target import Manifest, StagedFile
from flintmq.store.commitlog.anchor import LogAnchor


def manifest(number, *files):
    anchor = LogAnchor(physical_offset=900, size=100, store_timestamp=5, body_crc=7)
    choice = {"topics": None, "decompress": False}
    return Manifest(number, 0, 1000, 10, list(files), 6, anchor, choice, 0, 1_700_000_000)


def locked(root):
    return targets.locked(ParquetTarget(DiskFolder(root)))


def tree(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def publish(target, number):
    written = Path(target.stage(None).place) / "00000"
    written.mkdir()
    (written / "1.part").write_text("first")
    (written / "2.part").write_text("2")
    places = ["topic_name=A/date=2026-01-01/1.parquet", "topic_name=B/date=2026-01-01/2.parquet"]
    files = [StagedFile(str(written / f"{n}.part"), place, 5, 1) for n, place in enumerate(places, 1)]
    target.publish(manifest(number, *places), files, SPARK_SCHEMA)
    return [f"export={number}/{place}" for place in places]


def test_an_export_comes_in_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with locked(out) as target:
        assert target.last() is None
        places = publish(target, 1)
        assert target.last() == manifest(1, *[place.split("/", 1)[1] for place in places])
    assert tree(out) == ["_flintmq.lock", "export=1/_flintmq.json", *places]


def test_a_second_one_does_not_touch_the_first(tmp_path):
    with locked(tmp_path) as target:
        first = publish(target, 1)
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in first}
    with locked(tmp_path) as target:
        publish(target, 2)
        assert target.last().number == 2
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in first} == before


def test_the_tenth_is_newer_than_the_ninth(tmp_path):
    with locked(tmp_path) as target:
        for number in (9, 10):
            publish(target, number)
        assert target.last().number == 10


@pytest.mark.parametrize("name", ["rename", "replace", "fsync", "fdatasync", "open"])
def test_a_run_that_dies_leaves_nothing_to_see(tmp_path, monkeypatch, name):
    """At every system call of the publication in turn; the next run sweeps and succeeds."""
    real = getattr(os, name)
    for survived in range(20):
        out = tmp_path / f"out{survived}"
        calls = iter(range(survived))
        with locked(out) as target:
            tasks = Path(target.stage(None).place)
            (tasks / "1.part").write_text("x")

            def failing(*args, calls=calls, **keywords):
                if next(calls, None) is None:
                    raise OSError(28, "No space left on device")
                return real(*args, **keywords)

            with monkeypatch.context() as patched:
                patched.setattr(os, name, failing)
                try:
                    staged = StagedFile(str(tasks / "1.part"), "a/1.parquet", 0, 0)
                    target.publish(manifest(1, "a/1.parquet"), [staged], SPARK_SCHEMA)
                except OSError:
                    done = False
                else:
                    done = True
        visible = [file for file in tree(out) if not file.startswith("_")]
        whole = ["export=1/_flintmq.json", "export=1/a/1.parquet"]
        assert visible in ([], whole)
        if done:
            assert visible == whole
            break
        if not visible:
            with locked(out) as target:
                publish(target, 1)
            assert not (out / "_staging").exists()
    else:
        pytest.fail(f"os.{name} is called more than 20 times")
    assert survived > 0


def test_only_one_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(UsageError, match="another export into it is running"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_directory_with_other_things_is_refused(tmp_path):
    (tmp_path / ".hidden").write_text("")
    with locked(tmp_path):
        pass
    (tmp_path / "part-0.parquet").write_text("")
    with pytest.raises(UsageError, match=r"other things than exports \('part-0.parquet'\)"), locked(tmp_path):
        pass


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreAccessError, match="directory that can be written"), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2}', '{"format": 1, "number": 1}', "[" * 100_000, '{"format": 1, "anchor": []}'],
)
def test_a_damaged_manifest_is_told(tmp_path, text):
    (tmp_path / "export=1").mkdir()
    (tmp_path / "export=1" / MANIFEST).write_text(text)
    with locked(tmp_path) as target, pytest.raises(StoreAccessError, match="not a readable manifest"):
        target.last()


def test_an_export_without_a_manifest_is_told(tmp_path):
    (tmp_path / "export=3").mkdir()
    with locked(tmp_path) as target, pytest.raises(StoreAccessError, match="not a readable manifest"):
        target.last()


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ((), "the key 'of_tomorrow' is not known here"), (("choice",), "the key 'of_tomorrow' is not known here"),
        (("anchor",), "the key 'of_tomorrow' is not known here"), (("format",), "format 3 is not known here"),
    ],
)  # fmt: skip
def test_a_manifest_of_a_newer_version_is_named_as_such(tmp_path, place, what):
    """A field that is unknown here may change the meaning of the others; also a choice, which was passed over."""
    with locked(tmp_path) as target:
        publish(target, 1)
    path = tmp_path / "export=1" / "_flintmq.json"
    found = json.loads(path.read_text())
    assert (found["format"], found["flintmq"]) == (2, "0.2.0")
    if place == ("format",):
        found["format"] = 3
    else:
        (found[place[0]] if place else found)["of_tomorrow"] = 1
    for writer, whose in (
        ("0.3.0", "made by FlintMQ 0.3.0, newer than this one (0.2.0): upgrade"),
        ("0.2.0", "made by a"),
    ):
        path.write_text(json.dumps({**found, "flintmq": writer}))
        with locked(tmp_path) as target, pytest.raises(UnsupportedFormatError) as caught:
            target.last()
        assert str(path) in str(caught.value) and what in str(caught.value) and whose in str(caught.value)


@pytest.mark.parametrize(("cut", "why"), [(300, "cut off"), (0, "cut off"), (None, "no JSON: ")])
def test_a_manifest_that_is_cut_off_or_no_json_is_told_apart(tmp_path, cut, why):
    with locked(tmp_path) as target:
        publish(target, 1)
    path = tmp_path / "export=1" / "_flintmq.json"
    path.write_text("a note" if cut is None else path.read_text()[:cut])
    with (
        locked(tmp_path) as target,
        pytest.raises(StoreAccessError, match=rf"not a readable manifest \({why}.*restore it"),
    ):
        target.last()
