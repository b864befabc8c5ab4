"""What holds where Python has no GIL, and what threads share in gets."""

import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

from flintmq.message import PutMessageStatus
from tests.support.engine import message, open_small
from tests.support.threads import at_once

ALL = """
import importlib, pkgutil, sys
import flintmq, flintmq.kernels, flintmq.store.message_store
for module in pkgutil.walk_packages(flintmq.kernels.__path__, "flintmq.kernels."):
    importlib.import_module(module.name)
print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has a GIL")
def test_no_kernel_turns_the_gil_on():
    """Python turns it on, for good, with the first module that does not declare that it needs none."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", ALL], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize("own_lock", ["", "1"])
def test_slow_gets_beside_puts_leave_every_file_to_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_lock: str
):
    """Threads that view one map at the same time each have a view of their own, so none is counted wrongly."""
    monkeypatch.setenv("FLINTMQ_PUT_LOCK", own_lock)
    between = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)  # a put of uncompiled kernels would wait 5 ms for each of its turns
    wrong: list[object] = []
    done = threading.Event()
    with open_small(tmp_path, flushDiskType="SYNC_FLUSH") as store:

        def put() -> None:
            for number in range(300):
                if (found := store.put_many([message(number)])[0]).status is not PutMessageStatus.PUT_OK:
                    wrong.append(found)
            done.set()

        def get() -> None:
            at = 0
            while not done.is_set():
                for one in store.get("T", 0, at).messages:
                    if one.body != message(one.queue_offset).body or one.raw[88:] == b"":
                        wrong.append(one)
                    at = one.queue_offset + 1
                at = at if at % 7 else 0

        try:
            at_once(put, get, get)
        finally:
            sys.setswitchinterval(between)
        assert store.wait_dispatched(60)
        files = store._parts.files.files
    assert wrong == []
    assert not any(file.is_held or not file.map.closed for file in files)
