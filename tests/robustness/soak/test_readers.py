"""Four readers in processes of their own beside a store that appends, rolls over and cleans (T13): by strace they write
nothing there and take no lock. FLINTMQ_READERS_SECONDS for longer."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flintmq.store.message_store import MessageStore
from labs.soak.processes import KEYS, READERS, Aging
from tests.robustness.crash.test_readers import CHANGES, harm
from tests.robustness.failing_calls.test_syscalls import STRACE, WHY_NOT
from tests.support.engine import message, put_all
from tests.support.threads import within

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "-")
SECONDS = float(os.environ.get("FLINTMQ_READERS_SECONDS", "5"))


def test_t13_readers_beside_a_store_that_rolls_and_cleans(tmp_path: Path) -> None:
    assert STRACE is not None
    root = tmp_path / "store"
    keys = KEYS | {"deleteWhen": ";".join(map(str, range(24))), "deleteCommitLogFilesInterval": 1}
    with MessageStore(root, config=keys, effects=Aging(root), unique_keys=False) as store:
        put_all(store, 200, size=300)
        readers = {}
        for n, kind in enumerate(READERS):
            words = [
                STRACE,
                "-f",
                "--seccomp-bpf",
                "-y",
                "-s",
                "300",
                "-o",
                str(tmp_path / kind),
                "-e",
                f"trace={CHANGES}",
            ]
            own = [sys.executable, "-m", "labs.soak.processes", kind, str(root), "-", str(n), "1"]
            with (tmp_path / f"{kind}.said").open("wb") as said:
                readers[kind] = subprocess.Popen(
                    [*words, *own], stdout=said, stderr=subprocess.STDOUT, start_new_session=True
                )
        assert within(lambda: all(f"{root}/commitlog" in _text(tmp_path / kind) for kind in READERS))
        until, number = time.monotonic() + SECONDS, 200
        while time.monotonic() < until:
            for _ in range(20):
                store.put(message(number, size=900))
                number += 1
            store.wait_dispatched(60)
            store._parts.housekeeping.retention.clean_once()
            time.sleep(0.01)
        assert store._parts.files.min_offset > 0, "the log rolled over and was cleaned"
        for reader in readers.values():
            os.killpg(reader.pid, signal.SIGTERM)
        assert [reader.wait(60) for reader in readers.values()] == [0] * 4, {
            k: _text(tmp_path / f"{k}.said") for k in readers
        }
    for kind in READERS:
        lines = _text(tmp_path / kind).splitlines()
        assert [line for line in lines if harm(line, root)] == [], kind
        assert int(_text(tmp_path / f"{kind}.said").split()[-1]) > 0, "and it was given messages"
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        assert store.get("T", 0, number - 1).messages[0].queue_offset == number - 1


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
