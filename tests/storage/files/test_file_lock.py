"""The lock of a file that is replaced as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.storage.files.file_lock import FileLock

TAKES = """
import sys
from flintmq.errors import UsageError
from flintmq.storage.files.file_lock import FileLock
try:
    FileLock(sys.argv[1], "consumer")
except UsageError as error:
    print(error)
"""


def test_one_writer_at_a_time(tmp_path: Path):
    file = str(tmp_path / "offsets")
    lock = FileLock(file, "consumer")
    with pytest.raises(UsageError, match=r"another consumer"):
        FileLock(file, "consumer")
    other = subprocess.run([sys.executable, "-c", TAKES, file], capture_output=True, text=True, timeout=60)
    assert "another consumer" in other.stdout, other.stderr
    lock.release()
    lock.release()
    FileLock(file, "consumer").release()


def test_a_file_that_is_replaced_stays_locked(tmp_path: Path):
    file = tmp_path / "offsets"
    lock = FileLock(str(file), "consumer")
    (tmp_path / "new").write_text("{}")
    os.replace(tmp_path / "new", file)
    with pytest.raises(UsageError, match=r"another consumer"):
        FileLock(str(file), "consumer")
    lock.release()


def test_what_cannot_be_locked(tmp_path: Path):
    with pytest.raises(UsageError, match="make it first"):
        FileLock(str(tmp_path / "none" / "offsets"), "consumer")
    (tmp_path / "offsets.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreAccessError, match=r"offsets\.lock"):
        FileLock(str(tmp_path / "offsets"), "consumer")
    assert not (tmp_path / "elsewhere").exists()
