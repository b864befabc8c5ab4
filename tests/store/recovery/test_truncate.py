"""What a cut leaves alone, and what it makes durable when a record after the end cannot be read."""

from __future__ import annotations

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
    truncate_log(str(tmp_path), files, FILE_SIZE, disk, Decisions())
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
    truncate_log(str(tmp_path), files, SIZE, disk, Decisions())
    calls = [(name, path) for name, path in disk.calls if name != "pwrite"]
    first = files.files[0].path
    assert calls == [("sync_dir", str(folder)), ("open_write", first), ("sync", first)]
