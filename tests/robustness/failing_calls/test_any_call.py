"""Any call that changes the disk fails, once or from then on: whatever was answered OK is there afterwards (T5, T6)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.failing_calls.test_syscalls import CONFIG, STRACE, WHY_NOT, WRITER
from tests.support.engine import check_derived, open_small, records, stored

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "-")

FAILURES = [
    ("fdatasync", "EIO"), ("fsync", "EIO"), ("fallocate", "ENOSPC"), ("ftruncate", "ENOSPC"), ("rename", "EIO"),
    ("linkat", "ENOSPC"), ("unlink", "EROFS"), ("pwrite64", "EDQUOT"), ("mkdir", "ENOSPC"), ("fadvise64", "EIO"),
    ("pread64,preadv", "EIO"),
]  # fmt: skip


ALL = os.environ.get("FLINTMQ_HOSTILE") == "all"
WHEN = ["1", "2", "3", "4", "5", "7", "8", "12", "1+", "6+"] if ALL else ["1", "6+"]


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("call", "error"), FAILURES, ids=[call for call, _ in FAILURES])
@pytest.mark.parametrize("disk", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_whatever_call_fails_what_was_ok_is_there(tmp_path: Path, disk: str, call: str, error: str, when: str):
    assert STRACE is not None
    root = tmp_path / "store"
    stored(root, 10)
    (root / "abort").write_text("1")
    rule = f"inject={call}:error={error}:when={when}"
    words = [STRACE, "-f", "-o", str(tmp_path / "log"), "-e", f"trace={call}", "-e", rule]
    config = json.dumps(CONFIG | {"flushDiskType": disk})
    done = subprocess.run(
        [*words, sys.executable, "-c", WRITER, str(root), config, "40"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode >= 0 and "SIG" not in done.stderr, "no signal ends the process"
    assert when != "1" or "INJECTED" in (tmp_path / "log").read_text(), "it was failed"
    answers = [row for row in map(json.loads, done.stdout.splitlines()) if isinstance(row, list)]
    for _ in range(2):
        with open_small(root) as store:
            assert store.wait_dispatched(60)
        there = {r.queue_offset: r.physical_offset for r in records(root)}
        assert list(there) == list(range(len(there))), "one prefix"
        for status, outcome, offset, place in answers:
            assert outcome == "ok" or status != "PUT_OK"
            if outcome == "ok":
                assert there.get(offset) == place, (status, offset)
        assert len(there) <= 10 + sum(outcome != "failed" for _, outcome, *_ in answers)
        check_derived(root)
