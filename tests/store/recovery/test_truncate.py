"""What a cut leaves alone, and what it makes durable when a record after the end cannot be read."""

from pathlib import Path

import pytest

from flintmq.format import record
from flintmq.format.record import Record
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.recovery import truncate
from flintmq.store.recovery.decisions import Decisions
from flintmq.store.recovery.truncate import truncate_log
from tests.support.faults import Faulty
from tests.support.small_logs import FILE_SIZE, SIZE, log_of, make


def test_a_file_that_ends_where_the_log_ends_is_not_opened(tmp_path: Path):
    files = log_of(tmp_path / "log", make(0, 1001) + record.encode_blank(FILE_SIZE - SIZE), b"\xff" * FILE_SIZE)
    disk = Faulty()
    truncate_log(str(tmp_path), files, FILE_SIZE, disk, Decisions("store"))
    assert [path for name, path in disk.calls if name == "open_write"] == [files.files[1].path]


def test_what_was_kept_aside_is_durable_also_if_the_next_record_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A start that was killed before its directory was synced has copied it; its original is zeroed next."""
    data = b"".join(make(n * SIZE, 1001 + n, queue_offset=n) for n in range(3))
    files, disk = log_of(tmp_path / "log", data), Faulty()
    folder = tmp_path / "quarantine"
    folder.mkdir()
    (folder / f"{SIZE:020d}-1002.record").write_bytes(data[SIZE : 2 * SIZE])
    real = truncate.record_at

    def only_the_second(files: LogFiles, offset: int) -> Record | None:
        return real(files, offset) if offset == SIZE else None

    monkeypatch.setattr(truncate, "record_at", only_the_second)
    truncate_log(str(tmp_path), files, SIZE, disk, Decisions("store"))
    calls = [(name, path) for name, path in disk.calls if name != "pwrite"]
    first = files.files[0].path
    assert calls == [("sync_dir", str(folder)), ("open_write", first), ("sync", first)]


def test_empty_files_of_a_copy_stay_up_to_the_first_that_is_another(tmp_path: Path):
    """A gap would be damage: what follows a file that goes, goes too. Of a log of its own none stays."""
    whole, empty, other = make(0, 1001), b"", b"\1"
    for files, again, left in (
        ((whole, empty, empty), True, 3),
        ((whole, empty, other, empty), True, 2),
        ((whole, other, empty), True, 1),
        ((whole, empty, empty), False, 1),
    ):
        folder = tmp_path / f"{len(files)}-{left}-{again}"
        listed, disk = log_of(folder, *files), Faulty()
        truncate_log(str(tmp_path), listed, SIZE, disk, Decisions("store"), comes_again=again)
        assert sorted(int(path.name) // FILE_SIZE for path in folder.iterdir()) == list(range(left))
        gone = [path for name, path in disk.calls if name == "unlink"]
        assert gone == [file.path for file in reversed(listed.files[left:])], "the last one first"


def test_a_short_file_is_no_empty_one(tmp_path: Path):
    listed = log_of(tmp_path, make(0, 1001), b"", b"")
    Path(listed.files[2].path).write_bytes(bytes(FILE_SIZE - 1))
    listed = LogFiles.discover([str(tmp_path)], FILE_SIZE)
    assert [file.start for file in truncate.unused_files(listed, SIZE, Faulty())] == [FILE_SIZE]
