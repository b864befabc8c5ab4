"""Whether a store is live: asked without taking the lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.storage import lock

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)  # byte 0, as RocketMQ locks it
print("held", flush=True)
time.sleep(60)
"""


def test_a_store_without_lock_file_is_not_live(tmp_path: Path) -> None:
    assert not lock.is_live(str(tmp_path))


def test_a_lock_file_that_nobody_holds_is_not_live(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    assert not lock.is_live(str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="is_live answers on Linux only")
def test_a_lock_that_another_process_holds_is_live(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.is_live(str(tmp_path))
        assert lock.is_live(str(tmp_path))  # asking has not taken it
        holder.kill()
    assert not lock.is_live(str(tmp_path))


def test_this_process_s_own_lock_is_answered_without_opening_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    path.chmod(0)
    found = path.stat()
    lock._owned.add((found.st_dev, found.st_ino))
    try:
        assert lock.is_live(str(tmp_path))
    finally:
        lock._owned.clear()
