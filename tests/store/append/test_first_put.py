"""One message into an empty directory, with RocketMQ's files of a gigabyte: what it costs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ONE_PUT = r"""
import json, os, resource, sys, time
from flintmq import Message, MessageStore
began = time.monotonic()
config = json.loads(sys.argv[2])
with MessageStore(sys.argv[1], config=config) as store:
    assert store.put(Message("hello", b"hello")).status.name == "PUT_OK"
seconds = time.monotonic() - began
used = resource.getrusage(resource.RUSAGE_SELF)
# VmHWM and not ru_maxrss: the latter also counts the process that made this one.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
paths = [os.path.join(folder, name) for folder, _, names in os.walk(sys.argv[1]) for name in names]
disk = sum(os.lstat(path).st_blocks * 512 for path in paths)
memory = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"seconds": seconds, "processor": used.ru_utime + used.ru_stime, "memory": memory, "disk": disk}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the engine's platform, and /proc")
@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_hello_takes_less_than_a_second_and_100_mb_of_memory_and_of_disk(tmp_path: Path, disk: str):
    words = [sys.executable, "-c", ONE_PUT, str(tmp_path / "store"), json.dumps({"flushDiskType": disk})]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seconds"] < 1 and told["processor"] < 1, told
    assert told["memory"] < 100_000_000 and told["disk"] < 100_000_000, told
    assert sum(p.stat().st_size for p in (tmp_path / "store").rglob("*") if p.is_file()) > 1 << 30, "files of full size"
