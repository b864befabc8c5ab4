"""Real system calls that fail, by strace: what the kernel says reaches the answers (T5, T6, short form)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flintmq import MessageStore
from flintmq.errors import StoreError
from flintmq.message import PutMessageStatus
from flintmq.storage.files.filesystem import REAL
from tests.support.engine import check_derived, open_small, put_all, records, stored, tree

STRACE = shutil.which("strace")
FIRST_FILE = "commitlog/" + "0" * 20

WRITER = r"""
import json, os, sys
from flintmq import Message, MessageStore, StoreError
root, config, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
store = MessageStore(root, config=config, unique_keys=False)
for n in range(count):
    r = store.put(Message("T", b"%06d" % n + bytes(300), keys=f"k{n}"))
    print(json.dumps([r.status.name, r.outcome.value, r.queue_offset, r.physical_offset]), flush=True)
unclean = False
try:
    store.close()
except StoreError:
    unclean = True
abort = os.path.exists(os.path.join(root, "abort"))
assert abort is unclean, "the close tells what it leaves"
print(json.dumps(abort), flush=True)
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
    root: Path, call: str, rule: str, part: str = FIRST_FILE, count: int = 30, writer: str = WRITER, **keys: Any
) -> tuple[list[Any], bool]:
    """(answers, whether `abort` is left) of a writer whose call is failed as the rule says, on this file only."""
    assert STRACE is not None
    log = root.parent / "strace.log"
    words = [STRACE, "-f", "-o", str(log), "-P", str(root / part), "-e", f"trace={call}", "-e", f"inject={call}:{rule}"]
    config = json.dumps(CONFIG | keys)
    done = subprocess.run(
        [*words, sys.executable, "-c", writer, str(root), config, str(count)],
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
    from tests.support.engine import message

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
    """mmap.flush holds the interpreter; one failing call less to think of."""
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


KILLED = r"""
import os, signal, sys
from flintmq import Message, MessageStore
keys = {"flushIntervalConsumeQueue": 1 << 30, "mappedFileSizeCommitLog": 1 << 20}
store = MessageStore(sys.argv[1], config=keys, unique_keys=False)
for n in range(300):
    assert store.put(Message(f"T{n % 50}", b"%06d" % n, queue_id=n // 50))
assert store.wait_dispatched()
os.kill(os.getpid(), signal.SIGKILL)
"""
START = r"""
import sys
from flintmq import MessageStore, StoreError
store = MessageStore(sys.argv[1], unique_keys=False)
try:
    store.close()
except StoreError:
    print("unclean")
"""


def start(root: Path, *rule: str) -> tuple[str, str]:
    """Open and close a store; what it said, and its syncs."""
    assert STRACE is not None
    log = root.parent / "strace.log"
    words = [STRACE, "-f", "-o", str(log), "-e", "trace=fsync,fdatasync,syncfs", *rule]
    done = subprocess.run([*words, sys.executable, "-c", START, str(root)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout, log.read_text()


def test_many_queues_are_durable_after_a_kill_and_a_failed_sync_of_the_file_system_is_told(tmp_path: Path):
    """One call stands for 300 files and their directories where it tells all errors: so its failure is theirs."""
    root, sure = tmp_path / "store", REAL.open_disk(str(tmp_path))
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    subprocess.run(["cp", "-a", "--sparse=always", root, tmp_path / "again"], check=True)
    said, syncs = start(root, "-e", "inject=syncfs:error=EIO:when=1")
    assert "INJECTED" in syncs and (root / "abort").exists() == (sure is not None)
    assert said == ("unclean\n" if sure is not None else ""), "elsewhere the call is a hint, and each file is synced"
    if sure is not None:
        os.close(sure)
        said, syncs = start(tmp_path / "again")
        assert said == "" and syncs.count("syncfs(") == 1 and len(re.findall("fsync|fdatasync", syncs)) < 60
    for one in (root, tmp_path / "again"):
        with MessageStore(one) as store:
            bodies = [b"%06d" % n for n in range(300)]
            assert sorted(m.body for m in store) == bodies
            assert [store.get(f"T{n % 50}", n // 50, 0).messages[0].body for n in range(300)] == bodies


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


def test_line_1_a_sync_ends_well_before_each_answer(tmp_path: Path):
    """Between two answers the log file that holds the record was synced; its name was before its first record."""
    assert STRACE is not None
    root, log = tmp_path / "store", tmp_path / "strace.log"
    config = json.dumps(CONFIG | {"flushDiskType": "SYNC_FLUSH"})
    words = [STRACE, "-f", "-y", "-s", "200", "-o", str(log), "-e", "trace=fdatasync,fsync,write,openat,linkat"]
    done = subprocess.run(
        [*words, sys.executable, "-c", WRITER, str(root), config, "30"], capture_output=True, timeout=60
    )
    assert done.returncode == 0
    synced: set[str] = set()  # log files, since the last answer
    begun: dict[str, str] = {}  # thread -> what it syncs
    files: list[str] = []
    named = ""
    answers = 0
    for line in log.read_text().splitlines():
        call = re.search(r"\b(fdatasync|fsync)\(\d+<([^>]*)>", line)
        if call is not None:
            begun[line.split()[0]] = call[2]
        if re.search(r"\b(fdatasync|fsync)\b.*= 0$", line):
            path = begun[line.split()[0]]
            synced.add(path)
            named = files[-1] if files and path.endswith("/commitlog") else named
        # The second form is that of file systems without unnamed files.
        made = re.search(r'linkat\(.*, \d+<([^>]*/commitlog)>, "(\d{20})", AT_SYMLINK_FOLLOW', line) or re.search(
            r'openat\(\d+<([^>]*/commitlog)>, "(\d{20})", O_RDWR\|O_CREAT', line
        )
        if made is not None:
            files.append(f"{made[1]}/{made[2]}")
        told = re.search(r'write\(1<.*"\[\\"PUT_OK\\", \\"ok\\", \d+, (\d+)\]', line)
        if told is not None:
            file = f"{root}/commitlog/{int(told[1]) // 4096 * 4096:020d}"
            assert file in synced, f"no sync of {file} before answer {answers}"
            assert file <= named, "and its name is on disk"
            answers += 1
            synced.clear()
    assert answers == 30 and len(files) >= 3


def test_line_2_a_sync_that_fails_ends_an_async_store_too(tmp_path: Path):
    """Nobody waits for it, but what comes behind a lost page would be no suffix: no later put is OK."""
    writer = WRITER.replace("    r = store.put", "    if n > 5: __import__('time').sleep(0.05)\n    r = store.put")
    answers, abort = run(
        tmp_path / "store", "fdatasync", "error=EIO:when=2", writer=writer, flushIntervalCommitLog=10,
        flushCommitLogThoroughInterval=10,
    )  # fmt: skip
    names = [name for name, *_ in answers]
    good = names.index("SERVICE_NOT_AVAILABLE")
    assert names == ["PUT_OK"] * good + ["SERVICE_NOT_AVAILABLE"] * (30 - good) and 0 < good < 30
    assert {outcome for _, outcome, *_ in answers[good:]} == {"failed"} and abort
    with open_small(tmp_path / "store") as store:
        assert [m.queue_offset for m in store] == list(range(good)), "the kernel has all that was acknowledged"
    check_derived(tmp_path / "store")


def test_a_command_whose_last_sync_fails_says_so(tmp_path: Path):
    """ASYNC_FLUSH: the message was answered before, and the close that syncs it is all that can tell."""
    assert STRACE is not None
    root = tmp_path / "store"
    with open_small(root) as store:  # its file is synced when it is made
        put_all(store, 1)
    words = [STRACE, "-f", "-o", os.devnull, "-P", str(root / FIRST_FILE), "-e", "trace=fdatasync"]
    rule = ["-e", "inject=fdatasync:error=EIO"]
    done = subprocess.run(
        [*words, *rule, sys.executable, "-m", "flintmq", "put", str(root), "T", "body"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    [told] = [line for line in done.stderr.splitlines() if "could not be stopped cleanly" in line]
    assert done.returncode == StoreError.exit_code and "Input/output error" in told
    assert (root / "abort").exists()


def test_line_3_a_commit_from_the_pool_that_fails_ends_all_puts(tmp_path: Path):
    answers, abort = run(
        tmp_path / "store", "pwrite64", "error=EIO:when=3", flushDiskType="SYNC_FLUSH", transientStorePoolEnable=True
    )
    names = [name for name, *_ in answers]
    bad = names.index("FLUSH_DISK_TIMEOUT")
    assert names[:bad] == ["PUT_OK"] * bad and bad > 0
    assert names[bad + 1 :] == ["SERVICE_NOT_AVAILABLE"] * (30 - bad - 1) and abort
    with open_small(tmp_path / "store") as store:
        found = [m.queue_offset for m in store]
        assert found[:bad] == list(range(bad)) and len(found) <= bad + 1
    check_derived(tmp_path / "store")


def test_line_3_a_start_whose_disk_fails_is_refused_and_loses_nothing(tmp_path: Path):
    """Line 3's end: the truth is re-read from the disk, and where that fails nothing is promised."""
    assert STRACE is not None
    root = tmp_path / "store"
    stored(root, 30)
    (root / "abort").write_text("1")
    before = tree(root)
    words = [STRACE, "-f", "-o", os.devnull, "-P", str(root / FIRST_FILE), "-e", "trace=fdatasync"]
    rule = ["-e", "inject=fdatasync:error=EIO:when=1"]
    done = subprocess.run(
        [*words, *rule, sys.executable, "-c", WRITER, str(root), json.dumps(CONFIG), "1"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0 and "Input/output error" in done.stderr and done.stdout == ""
    assert tree(root) == before and (root / "abort").exists()
    with open_small(root) as store:
        assert len(list(store)) == 30


FULL_DISK = r"""
import json, os, sys
from flintmq import Message, MessageStore
root, config = sys.argv[1], json.loads(sys.argv[2])
store = MessageStore(root, config=config, unique_keys=False)
ok, names = 0, set()
for n in range(3000):
    r = store.put(Message("T", b"%06d" % n + bytes(5000), keys=f"k{n}"))
    names.add((r.status.name, r.outcome.value))
    ok += r.outcome.value == "ok"
    if r.outcome.value == "ok" and len(names) > 1: break
    if len(names) > 1 and os.path.exists(root + ".ballast"): os.unlink(root + ".ballast")
store.flush()  # with the pool, only then can it be read
assert [m.body[:6] for m in store] == [b"%06d" % m for m in range(ok - 1)] + [b"%06d" % n]
store.close()
print(json.dumps([ok, sorted(names), os.path.exists(os.path.join(root, "abort"))]))
"""


@pytest.mark.parametrize("pool", [False, True])
def test_d21_a_full_disk_is_an_answer_and_not_the_end_of_the_process(tmp_path: Path, pool: bool):
    """A real one: tmpfs of 8 MiB, files of 1 MiB mapped. Upstream's stores into the map end in SIGBUS."""
    ballast = f"head -c 2000000 /dev/zero > {tmp_path}/store.ballast"
    mount = f'mount -t tmpfs -o size=8m none {tmp_path} && {ballast} && exec "$@"'
    may = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, text=True)
    if may.returncode:
        pytest.skip(f"no mount namespace to put a small tmpfs into: {may.stderr.strip()[:100]}")
    config = {
        "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20000, "maxHashSlotNum": 100,
        "maxIndexNum": 400, "transientStorePoolEnable": pool,
    }  # fmt: skip
    words = [sys.executable, "-c", FULL_DISK, str(tmp_path / "store"), json.dumps(config)]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, "sh", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-1500:])
    ok, names, abort = json.loads(done.stdout)
    assert ok > 500 and names == [["CREATE_MAPPED_FILE_FAILED", "failed"], ["PUT_OK", "ok"]] and not abort
