"""Line 7 by the system calls that readers make beside a store that is written: they change nothing and lock nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.failing_calls.test_syscalls import STRACE, WHY_NOT
from tests.support.engine import open_small, put_all, tree

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "-")

CHANGES = (
    "write,pwrite64,pwritev,pwritev2,writev,sendfile,copy_file_range,ftruncate,truncate,fallocate,rename,renameat,renameat2,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,chown,fchown,utimensat,flock,"
    "fcntl,openat,open,creat,mmap,fsync,fdatasync,msync,setxattr,fsetxattr"
)  # fmt: skip
READER = r"""
import sys
from flintmq import open_store
with open_store(sys.argv[1]) as store:
    found = list(store.messages())
    assert len(found) >= 50 and store.get("T", 0, 7).queue_offset == 7
    assert [m.keys for m in store.query("T", "k33")] == ["k33"]
    store.offset_at_time("T", 0, found[10].store_timestamp)
    store.topics(), store.queues("T")
"""
COMMANDS = {
    "python": ["-c", READER],
    "inspect": ["-m", "flintmq", "inspect"],
    "verify": ["-m", "flintmq", "verify"],
    "scan": ["-m", "flintmq", "scan"],
    "query": ["-m", "flintmq", "query"],
    "recover": ["-m", "flintmq", "recover"],
}
REST = {"query": ["T", "k33"], "recover": ["--dry-run"]}


def harm(line: str, root: Path) -> bool:
    """Whether a traced call changes something below the store, or takes a lock there."""
    if str(root) not in line or re.search(r"= -1 E|\bwrite\([12]<pipe", line):  # what is printed names the store
        return False
    if re.search(r"\b(openat|open)\(", line):
        return bool(re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", line))
    if "mmap(" in line:
        return "PROT_WRITE" in line and "MAP_SHARED" in line
    if "fcntl(" in line:
        return bool(re.search(r"F_(OFD_)?SETLKW?\b", line))
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_line_7_a_reader_writes_nothing_and_takes_no_lock(tmp_path: Path, name: str):
    assert STRACE is not None
    root, log = tmp_path / "store", tmp_path / "strace.log"
    with open_small(root) as store:
        put_all(store, 50)
        store.flush()
        store.wait_dispatched(60)
        before = {**tree(root), "lock": (root / "lock").read_bytes()}
        words = [sys.executable, *COMMANDS[name], str(root), *REST.get(name, [])]
        done = subprocess.run(
            [STRACE, "-f", "-y", "-s", "300", "-o", str(log), "-e", f"trace={CHANGES}", *words],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout, done.stderr)
        bad = [line for line in log.read_text().splitlines() if harm(line, root)]
        assert bad == []
        assert f"{root}/commitlog" in log.read_text(), "and it did read"
        after = {**tree(root), "lock": (root / "lock").read_bytes()}
        assert {name: after.pop(name) for name in before} == before
        assert all(name.startswith("commitlog/") for name in after), "the writer may have made its next file"
        put_all(store, 20, first=50)
    with open_small(root) as store:
        assert len(list(store)) == 70, "and its writer went on"


def test_the_measure_sees_a_writer(tmp_path: Path):
    assert STRACE is not None
    root, log = tmp_path / "store", tmp_path / "strace.log"
    code = (
        "import sys; from flintmq import MessageStore; MessageStore(sys.argv[1], dev=True, unique_keys=False).close()"
    )
    words = [STRACE, "-f", "-y", "-s", "300", "-o", str(log), "-e", f"trace={CHANGES}"]
    subprocess.run([*words, sys.executable, "-c", code, str(root)], check=True, timeout=60)
    lines = [line for line in log.read_text().splitlines() if harm(line, root)]
    seen = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)", "\n".join(lines), re.MULTILINE))  # or "<... openat resumed>"
    assert {"openat", "fcntl", "fdatasync", "unlink"} <= seen
