"""Real system calls that fail, by strace: what the kernel says reaches the answers (T5, T6, short form)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import PutMessageStatus
from tests.store.engine import check_derived, open_small, records

STRACE = shutil.which("strace")
FIRST_FILE = "commitlog/" + "0" * 20

WRITER = r"""
import json, os, sys
from flintmq import Message, MessageStore
root, config, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
store = MessageStore(root, config=config)
for n in range(count):
    r = store.put(Message("T", b"%06d" % n + bytes(300), keys=f"k{n}"))
    print(json.dumps([r.status.name, r.outcome.value, r.queue_offset, r.physical_offset]), flush=True)
store.close()
print(json.dumps(os.path.exists(os.path.join(root, "abort"))), flush=True)
"""
CONFIG = {
    "mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 8, "maxIndexNum": 32,
}  # fmt: skip


def can_inject() -> str:
    """Why strace cannot be used here, or nothing."""
    if STRACE is None:
        return "strace is not installed (apt-get install strace)"
    words = [STRACE, "-f", "-o", os.devnull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1", "true"]
    done = subprocess.run(words, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"strace cannot trace here: {done.stderr.strip()[:100]}"


WHY_NOT = can_inject()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "-")


def run(
    root: Path, call: str, rule: str, part: str = FIRST_FILE, count: int = 30, **keys: Any
) -> tuple[list[Any], bool]:
    """(answers, whether `abort` is left) of a writer whose call is failed as the rule says, on this file only."""
    assert STRACE is not None
    log = root.parent / "strace.log"
    words = [STRACE, "-f", "-o", str(log), "-P", str(root / part), "-e", f"trace={call}", "-e", f"inject={call}:{rule}"]
    config = json.dumps(CONFIG | keys)
    done = subprocess.run(
        [*words, sys.executable, "-c", WRITER, str(root), config, str(count)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert "INJECTED" in log.read_text(), f"no {call} was failed"
    *answers, abort = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == count
    return answers, abort


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_sync_that_fails_once_ends_all_puts(tmp_path: Path, error: str):
    """Line 3, by the kernel: the fourth flush of the log fails, all later ones would succeed."""
    answers, abort = run(tmp_path / "store", "fdatasync", f"error={error}:when=4", flushDiskType="SYNC_FLUSH")
    names = [name for name, *_ in answers]
    bad = names.index("FLUSH_DISK_TIMEOUT")
    assert names[:bad] == ["PUT_OK"] * bad and bad >= 3
    assert names[bad + 1 :] == ["SERVICE_NOT_AVAILABLE"] * (30 - bad - 1)
    assert [outcome for _, outcome, *_ in answers][bad : bad + 2] == ["unknown", "failed"]
    assert abort, "an unclean stop"
    with open_small(tmp_path / "store") as store:
        found = [m.queue_offset for m in store]
        assert found[:bad] == list(range(bad)) and len(found) <= bad + 1
        assert store.put(_message()).status is PutMessageStatus.PUT_OK, "a restart has read the truth"
    check_derived(tmp_path / "store")


def _message() -> Any:
    from tests.store.engine import message

    return message(0)


def test_a_file_that_gets_no_blocks_is_an_answer_and_passes(tmp_path: Path):
    """Line 3's scope: no space at allocation is no failed sync. The second file cannot be made twice."""
    second = f"commitlog/{4096:020d}"
    answers, abort = run(tmp_path / "store", "fallocate", "error=ENOSPC:when=1..2", second)
    failed = [n for n, (name, *_) in enumerate(answers) if name != "PUT_OK"]
    assert len(failed) == 2 and failed[1] == failed[0] + 1
    assert {tuple(answers[n][:2]) for n in failed} == {("CREATE_MAPPED_FILE_FAILED", "failed")}
    assert not abort
    assert [r.queue_offset for r in records(tmp_path / "store")] == list(range(28))
    check_derived(tmp_path / "store")


def test_the_log_is_synced_by_fdatasync_and_never_by_msync(tmp_path: Path):
    """reliability B6: mmap.flush holds the interpreter; one failing call less to think of."""
    assert STRACE is not None
    log = tmp_path / "strace.log"
    config = json.dumps(CONFIG | {"flushDiskType": "SYNC_FLUSH"})
    words = [STRACE, "-f", "-o", str(log), "-e", "trace=msync,fdatasync,sync_file_range,syncfs"]
    done = subprocess.run(
        [*words, sys.executable, "-c", WRITER, str(tmp_path / "store"), config, "10"], capture_output=True, timeout=60
    )
    assert done.returncode == 0
    text = log.read_text()
    assert text.count("fdatasync(") >= 10
    assert "msync(" not in text and "sync_file_range(" not in text and "syncfs(" not in text


@pytest.mark.parametrize("number", [1, 3, 8, 15])
def test_killed_by_the_kernel_inside_a_sync(tmp_path: Path, number: int):
    """SIGKILL at the n-th fdatasync of a thread: what was answered before is there."""
    assert STRACE is not None
    root = tmp_path / "store"
    config = json.dumps(CONFIG | {"flushDiskType": "SYNC_FLUSH"})
    rule = f"inject=fdatasync:signal=SIGKILL:when={number}"
    words = [STRACE, "-f", "-o", os.devnull, "-e", "trace=fdatasync", "-e", rule]
    done = subprocess.run(
        [*words, sys.executable, "-c", WRITER, str(root), config, "30"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0, "it was killed"
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    with open_small(root) as store:
        there = {m.queue_offset: m.physical_offset for m in store}
    assert all(there[offset] == place for name, _, offset, place in answers if name == "PUT_OK")
    check_derived(root)
