"""Record every call that an engine makes to the disk while it opens, recovers and closes stores of all kinds.

    python experiments/disk-calls/record.py OUT.txt

Run it before and after a change that must not change them, and compare the two files. Stores are copies of the golden
ones and stores made here; each is opened after a clean stop, a kill, a kill of RocketMQ, a power cut, with a torn tail,
with a lost last file, and with dispatch left to another process. Threads are off, so calls have one order. Descriptors
and the names of index files (a time) are left out.
"""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from flintmq import Message, MessageStore
from flintmq.errors import FlintError
from flintmq.storage.files.filesystem import Effects

GOLDEN = Path(__file__).parents[2] / "tests" / "compat" / "golden"
QUIET = {"now_ms", "monotonic", "close"}
calls: list[str] = []
root = ""


class Recorder(Effects):
    """The real disk; each call is noted."""


def shown(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        return re.sub(r"index/\d{17}", "index/T", value.replace(root, "ROOT"))
    return str(value) if isinstance(value, (int, float, type(None))) else type(value).__name__


def noting(name, method):
    def call(self, *args, **named):
        words = [shown(one) for one in (*args, *named.values())]
        calls.append(" ".join([name, *words]))
        return method(self, *args, **named)

    return call


for name in dir(Effects):
    method = inspect.getattr_static(Effects, name)
    if not name.startswith("_") and name not in QUIET and inspect.isfunction(method):
        setattr(Recorder, name, noting(name, method))


def opened(label: str, **keys: object) -> None:
    """Open the store, put, close; or note why it is refused."""
    calls.append(f"== {label}")
    try:
        with MessageStore(root, effects=Recorder(), services=False, **keys) as store:
            calls.append(f"== recovered {store.recovered.as_dict()}".replace(root, "ROOT"))
            calls.append(f"== {store.put(Message('T0', b'after', keys='k')).status.name}")
            store.flush()
            calls.append("== close")
    except FlintError as error:
        calls.append(f"== {type(error).__name__}: {error}".replace(root, "ROOT"))


def tear(path: Path) -> None:
    """Make the last record of the log half a record."""
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    path.write_bytes(data[: end - 40] + bytes(len(data) - end + 40))


def stops(label: str, source: Path, **keys: object) -> None:
    """The store after each kind of stop."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for stop, abort in (
        ("clean", None),
        ("killed", f"123\n{boot}"),
        ("RocketMQ killed", "123"),
        ("power cut", "123\n00000000-0000-0000-0000-000000000000"),
    ):
        for damage in ("whole", "torn", "lost", "no mark", "no derived files"):
            for more in ({}, {"dispatch": "external"}, {"accept_lost_log": True}):
                shutil.rmtree(root, ignore_errors=True)
                subprocess.run(["cp", "-a", "--sparse=always", source, root], check=True)
                logs = sorted(Path(root, "commitlog").glob("*"))
                if abort is not None:
                    Path(root, "abort").write_text(abort)
                if damage == "torn" and logs:
                    tear(next(path for path in reversed(logs) if path.read_bytes().strip(b"\0")))
                elif damage == "lost" and logs:
                    logs[-1].unlink()
                elif damage == "no mark":
                    Path(root, "flintmq.mark").unlink(missing_ok=True)
                elif damage == "no derived files":
                    shutil.rmtree(Path(root, "consumequeue"), ignore_errors=True)
                    shutil.rmtree(Path(root, "index"), ignore_errors=True)
                opened(f"{label}, {stop}, {damage}, {more}", **keys, **more)


def main() -> None:
    global root
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "store")
        keys = {"mapped_file_size_commit_log": 65536, "mapped_file_size_consume_queue": 2000, "max_index_num": 500,
                "max_hash_slot_num": 100}  # fmt: skip
        own = Path(folder, "own")
        with MessageStore(own, **keys) as store:
            for number in range(400):
                store.put(Message(f"T{number % 3}", b"x" * 300, keys=f"k{number}", queue_id=number % 2))
        stops("own", own, **keys)
        for name in ("basic", "stale"):
            with tarfile.open(GOLDEN / f"{name}.tar.xz") as tar:
                tar.extractall(Path(folder, name), filter="data")
            stops(name, next(path.parent for path in Path(folder, name).rglob("commitlog")))
    Path(sys.argv[1]).write_text("\n".join(calls) + "\n")
    print(len(calls), "calls")


main()
