"""T15 by the kernel: a sync of the log takes three seconds. Who waits for it is told `unknown`, nobody else waits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.failing_calls.test_syscalls import CONFIG, FIRST_FILE, STRACE, WHY_NOT
from tests.support.engine import check_derived, records

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "-")

WRITER = r"""
import json, os, sys, time
from flintmq import Message, MessageStore
root, config = sys.argv[1], json.loads(sys.argv[2])
store = MessageStore(root, config=config, unique_keys=False)

def put(text, wait=True):
    began = time.monotonic()
    r = store.put(Message("T", text.encode(), keys=text, wait=wait))
    return [text, r.status.name, r.outcome.value, time.monotonic() - began]

for n in range(10):
    rows = [put(f"before{n}")]
    if rows[0][1] != "PUT_OK": break
rows.append(put("beside", wait=False))
began = time.monotonic()
got = store.get("T", 0, 0)
rows.append(["read", got.messages[0].body.decode(), "", time.monotonic() - began])
for n in range(20):
    rows.append(put(f"after{n}"))
    if rows[-1][1] == "PUT_OK": break
store.close()
print(json.dumps([rows, os.path.exists(os.path.join(root, "abort"))]))
"""

ALL_AT_ONCE = r"""
import json, os, sys, threading, time
from flintmq import Message, MessageStore
root, config = sys.argv[1], json.loads(sys.argv[2])
store = MessageStore(root, config=config, unique_keys=False, sync_in_caller=True)
rows = []

def put(n):
    began = time.monotonic()
    status = store.put(Message("T", b"x", keys=str(n))).status.name
    return [status, time.monotonic() - began]

began = time.monotonic()

def others():
    while time.monotonic() - began < 1:  # longer than a put waits for a sync of another thread: it syncs itself
        time.sleep(0.02)
    threads = [threading.Thread(target=lambda n=n: rows.append(put(n))) for n in range(100, 103)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

beside = threading.Thread(target=others)
beside.start()
for n in range(40):  # the third sync of each thread is slow, of the flusher's too: which is whose varies
    began = time.monotonic()
    held = put(n)
    if held[1] > 2: break
rows.append(held)
beside.join()
for n in range(200, 220):
    after = put(n)
    if after[0] == "PUT_OK": break
store.close()
print(json.dumps([rows, after, os.path.exists(os.path.join(root, "abort"))]))
"""


def test_t15_a_slow_sync_costs_those_who_wait_for_it_and_nobody_else(tmp_path: Path):
    assert STRACE is not None
    root, log = tmp_path / "store", tmp_path / "strace.log"
    rule = "inject=fdatasync:delay_enter=3000000:when=3"
    words = [STRACE, "-f", "-o", str(log), "-P", str(root / FIRST_FILE), "-e", "trace=fdatasync", "-e", rule]
    config = json.dumps(CONFIG | {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 500})
    done = subprocess.run([*words, sys.executable, "-c", WRITER, str(root), config], capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr[-1000:]
    assert "DELAYED" in log.read_text()
    [late, beside, read, *after], abort = json.loads(done.stdout)
    assert late[1:3] == ["FLUSH_DISK_TIMEOUT", "unknown"] and 0.4 < late[3] < 2
    assert beside[1:3] == ["PUT_OK", "ok"] and beside[3] < 0.5, "who does not wait is not kept waiting"
    assert read[1] == "before0" and read[3] < 0.5
    assert {row[1] for row in after[:-1]} <= {"FLUSH_DISK_TIMEOUT"} and after[-1][1:3] == ["PUT_OK", "ok"], (
        "not poisoned"
    )
    assert not abort, "and it stopped cleanly"
    there = [r.body.decode() for r in records(root)]
    assert {late[0], "beside", after[-1][0]} <= set(there)
    check_derived(root)


def test_t15_a_slow_sync_holds_the_put_that_makes_it_and_nobody_else(tmp_path: Path):
    """sync_in_caller: its own sync ends well, however late; it is on disk then."""
    assert STRACE is not None
    root, log = tmp_path / "store", tmp_path / "strace.log"
    rule = "inject=fdatasync:delay_enter=3000000:when=3"
    words = [STRACE, "-f", "-o", str(log), "-P", str(root / FIRST_FILE), "-e", "trace=fdatasync", "-e", rule]
    config = json.dumps(CONFIG | {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 500})
    done = subprocess.run([*words, sys.executable, "-c", ALL_AT_ONCE, str(root), config], capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr[-1000:]
    assert "DELAYED" in log.read_text()
    rows, after, abort = json.loads(done.stdout)
    held = [row for row in rows if row[1] > 2]
    assert [row[0] for row in held] == ["PUT_OK"] and len(rows) == 4, "the one that made the sync"
    assert {row[0] for row in rows if row not in held} <= {"FLUSH_DISK_TIMEOUT", "PUT_OK"}
    assert all(row[1] < 2 for row in rows if row not in held), "they end by the timeout"
    assert after[0] == "PUT_OK" and not abort
