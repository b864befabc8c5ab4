"""Exports that fail: a full disk is not left full, and what is published stays."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flintmq import Message, scan_arrow
from flintmq.lake.export.export_once import export
from flintmq.lake.files.failed_file import naming
from flintmq.storage.files import versioned_json
from tests.support.engine import put_messages


def fill(path: Path, begin: int, count: int) -> None:
    put_messages(path, (Message(f"T{number % 2}", os.urandom(4000)) for number in range(begin, begin + count)))


def data_files(out: Path) -> list[str]:
    """All but the small files that the formats themselves keep."""
    found = [path for path in out.rglob("*") if path.is_file()]
    return sorted(path.name for path in found if path.suffix in (".parquet", ".part") or "_staging" in path.parts)


def rows(store: Path, out: Path) -> int:
    return scan_arrow(store, columns=["size"], history=out).read_all().num_rows


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_write_that_fails_in_the_middle_is_one_line_and_leaves_no_part(tmp_path: Path, to: str) -> None:
    """The limit is one that Arrow's own writer meets, as it meets a full disk."""
    fill(tmp_path / "store", 0, 100)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from flintmq.cli.app import run; sys.exit(run(sys.argv[1:]))"
    )
    words = ["export", tmp_path / "store", "--to", to, "--out", tmp_path / "out", "--threads", "1"]
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"flintmq: {tmp_path}/out/_staging/tasks/") and "000001.part: File too large" in line
    assert data_files(tmp_path / "out") == []
    assert export(str(tmp_path / "store"), str(tmp_path / "out"), to=to).rows == 100, "the next run has nothing to mend"


@pytest.mark.parametrize("combined", [None, 1 << 20])
def test_a_later_export_that_fails_takes_nothing_of_an_earlier_one(
    tmp_path: Path, to: str, combined: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    fill(store, 0, 10)
    assert export(str(store), str(out), to=to, target_file_size=combined).rows == 10
    before = data_files(out)
    fill(store, 10, 10)
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetWriter, "write_table", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*_staging/tasks/.*000001\.part'"):
            export(str(store), str(out), to=to, target_file_size=combined)
    assert data_files(out) == before and rows(store, out) == 20
    assert export(str(store), str(out), to=to, target_file_size=combined).rows == 10


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_files_with_names_whose_commit_fails_are_taken_back(
    tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    fill(store, 0, 10)
    export(str(store), str(out), to=to)
    before = data_files(out)
    fill(store, 10, 10)
    place = {
        "delta": "deltalake.DeltaTable.create_write_transaction",
        "iceberg": "flintmq.lake.table.iceberg.IcebergTarget._add",
    }
    with monkeypatch.context() as patched:
        patched.setattr(place[to], full)
        with pytest.raises(OSError, match="No space left"):
            export(str(store), str(out), to=to)
    assert data_files(out) == before and rows(store, out) == 20
    assert export(str(store), str(out), to=to).rows == 10 and len(data_files(out)) == 4


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_files_of_a_commit_that_succeeded_stay_whatever_fails_then(
    tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the table would name files that are not there."""
    store, out = tmp_path / "store", tmp_path / "out"
    fill(store, 0, 10)
    export(str(store), str(out), to=to)
    fill(store, 10, 10)
    name = {"delta": "delta.DeltaTarget._sync_log", "iceberg": "iceberg.IcebergTarget._add"}[to]
    module, kind, method = name.split(".")
    owner = getattr(__import__(f"flintmq.lake.table.{module}", fromlist=[kind]), kind)
    real = getattr(owner, method)

    def then_full(self: object, *given: object) -> None:
        real(self, *given)
        full()

    with monkeypatch.context() as patched:
        patched.setattr(owner, method, then_full)
        with pytest.raises(OSError, match="No space left"):
            export(str(store), str(out), to=to)
    assert len(data_files(out)) == 4 and rows(store, out) == 20
    assert export(str(store), str(out), to=to).rows == 0


def test_dead_letters_that_do_not_fit_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, letters = tmp_path / "store", tmp_path / "dead"
    fill(store, 0, 4)
    monkeypatch.setattr(
        "flintmq.lake.shape.dead_letters.sync_file", lambda path, _: full() if "_staging" in path else None
    )
    with pytest.raises(OSError, match="No space left"):
        export(str(store), str(tmp_path / "out"), body="json", body_schema="a int", dead_letters=str(letters))
    assert sorted(os.listdir(letters)) == ["_flintmq.json"] and data_files(tmp_path / "out") == []


def test_an_error_gets_the_name_of_the_file_only_if_it_has_none() -> None:
    for error, said in (
        (OSError(errno.ENOSPC, "full"), "[Errno 28] No space left on device: '/a'"),
        (OSError(errno.ENOSPC, "full", "/b"), "[Errno 28] full: '/b'"),
        (OSError("odd"), "odd"),
    ):
        with pytest.raises(OSError) as caught, naming("/a"):
            raise error
        assert str(caught.value) == said


@pytest.mark.parametrize(
    "place",
    [
        "pyarrow.parquet.ParquetWriter.__init__",
        "flintmq.lake.export.export_once.publish",
        "flintmq.lake.export.export_once.combined",
    ],
)
def test_a_full_disk_is_named_wherever_the_export_meets_it(
    tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    fill(tmp_path / "store", 0, 4)
    with monkeypatch.context() as patched:
        patched.setattr(place, full)
        with pytest.raises(OSError, match="No space left") as caught:
            export(str(tmp_path / "store"), str(tmp_path / "out"), to=to)
    assert str(caught.value.filename).startswith(str(tmp_path / "out"))


def test_a_full_disk_of_the_copy_of_progress_is_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store", 0, 4)

    def write(path: str, *args: Any) -> None:
        if path.startswith(str(tmp_path / "copy")):
            full()
        real(path, *args)

    real = versioned_json.replace_file
    with monkeypatch.context() as patched:
        patched.setattr(versioned_json, "replace_file", write)
        with pytest.raises(OSError, match="No space left") as caught:
            export(str(tmp_path / "store"), str(tmp_path / "out"), checkpoint=str(tmp_path / "copy"))
    assert caught.value.filename == str(tmp_path / "copy")


def test_what_fails_otherwise_is_not_taken_for_the_table_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the store's disk names no file of the table."""
    fill(tmp_path / "store", 0, 4)
    error = OSError(errno.EIO, os.strerror(errno.EIO))
    with monkeypatch.context() as patched:
        patched.setattr("flintmq.lake.export.export_once.publish", lambda *_: (_ for _ in ()).throw(error))
        with pytest.raises(OSError, match="Input/output") as caught:
            export(str(tmp_path / "store"), str(tmp_path / "out"))
    assert caught.value.filename is None
