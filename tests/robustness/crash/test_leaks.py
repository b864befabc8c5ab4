"""T22: after any failure nothing is left in the process: no descriptor, no map, no thread, no memory."""

import errno
import gc
import logging
import os
import threading
from pathlib import Path

import pytest

from flintmq.errors import FlintError
from flintmq.store.message_store import MessageStore
from tests.robustness.crash.lives import KEYS
from tests.support.engine import message
from tests.support.faults import Faulty

LAST = 120  # a life makes some sixty to a hundred calls
STEP = 3  # every third call; the two ways of storing begin at different ones


class Refusing(Faulty):
    """The real disk; refuses its n-th call that changes it, or all from there on."""

    def __init__(self, number: int, sticky: bool, error: int) -> None:
        super().__init__()
        self.number, self.sticky, self.error, self.seen = number, sticky, error, 0
        self.before = self.maybe_refuse

    def maybe_refuse(self, name: str, path: str) -> None:
        self.seen += 1
        if self.seen == self.number or (self.sticky and self.seen > self.number):
            raise OSError(self.error, os.strerror(self.error), path)


def held(root: Path) -> list[str]:
    """What of this store the process still has open or mapped, and threads of stores: other tests' may come and go."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # the one that listed
    found = [path for path in found if str(root) in path]
    found += [line for line in Path("/proc/self/maps").read_text().splitlines() if str(root) in line]
    return found + sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("flintmq"))


def live(root: Path, number: int, *, sticky: bool, pool: bool) -> bool:
    """A life whose n-th call is refused; whether it came that far."""
    disk = Refusing(number, sticky, (errno.EIO, errno.ENOSPC, errno.EMFILE)[number % 3])
    keys = {"flushDiskType": "SYNC_FLUSH" if number % 2 else "ASYNC_FLUSH", "transientStorePoolEnable": pool}
    store = None
    try:
        store = MessageStore(root, config=KEYS | keys, effects=disk, unique_keys=False)
        for n in range(12):
            store.put(message(n, size=3000))
        list(store.query("T", "k3"))
        store.get("T", 0, 0)
    except (OSError, FlintError):
        pass
    if store is not None:
        try:
            store.close()
        except (OSError, FlintError):
            pass
    return disk.seen >= number


def resident() -> int:
    """Bytes of memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc to look into")
@pytest.mark.parametrize("pool", [False, True], ids=["mapped", "pool"])
def test_t22_no_failure_leaves_anything_in_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: bool):
    """Found by it: the index stayed open and mapped in a store that stopped uncleanly."""
    monkeypatch.setattr(logging.getLogger("flintmq"), "disabled", True)  # pytest keeps what is logged, and its frames
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("flintmq."):
            monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    before = held(tmp_path)
    struck, memory = 0, 0
    for lives, number in enumerate(range(1 + int(pool), LAST, STEP)):
        root = tmp_path / f"store{number % 5}"  # so that most lives find what an earlier one left
        struck += live(root, number, sticky=number % 4 == 0, pool=pool)
        gc.collect()
        assert held(tmp_path) == before, f"after call {number} was refused"
        if lives == 10:
            memory = resident()
    assert struck > 20, "calls of opening, puts, roll-over and closing"
    assert resident() - memory < 8 << 20
