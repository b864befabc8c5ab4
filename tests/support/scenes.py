"""The damaged stores that docs/operations/runbooks/ and docs/guide/first-hour.md talk about, the same bytes each time.

`SCENES[name](path)` makes one, replacing what is at `path`. They are golden stores of RocketMQ, or written by FlintMQ's
engine on a fixed clock, with one accident each.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from flintmq.message import Message
from flintmq.testing import damage
from tests.compat.stores import Golden
from tests.support.crashed import Clock, killed, zero
from tests.support.engine import open_small, records

LOG = "commitlog"
HOLD = """
import fcntl, os, sys, time
with open(sys.argv[1], "rb+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    print("locked", flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end and os.fstat(file.fileno()).st_nlink:
        time.sleep(0.05)
"""
"""What a broker does to its lock file; it ends when the store goes, and after two minutes in any case."""


def golden(name: str, path: Path) -> Path:
    """A golden store at this path."""
    shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.move(Golden(name, Path(folder)).path, path)
    return path


def wont_start(path: Path) -> None:
    """A disk flipped a bit of the log, and a copy lost the end of a queue file: RocketMQ refuses that size."""
    golden("basic", path)
    damage.flip(path / LOG / "00000000000000131072", 40100)
    damage.cut(path / "consumequeue" / "Orders" / "1" / "00000000000000002000", 500)


def in_use(path: Path) -> None:
    """Another process has the store."""
    golden("crash", path)
    words = [sys.executable, "-c", HOLD, str(path / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        holder.returncode = 0  # it is left alone, and ends with the store


def bad_config(path: Path) -> None:
    """Topics and subscriptions were cut short while they were written; one has a good copy beside it."""
    golden("config", path)
    for name in ("topics.json", "topics.json.bak", "subscriptionGroup.json"):
        damage.cut(path / "config" / name, 700)


def power_cut(path: Path) -> None:
    """RocketMQ lost its power in the middle of a burst: the last sectors of the log never reached the disk."""
    golden("crash", path)
    damage.zero(path / LOG / "00000000000000065536", 85504 - 65536, 512)


def power_cut_hole(path: Path) -> None:
    """As power_cut, and a sector in the middle of what was not yet flushed never arrived, although later ones did."""
    power_cut(path)
    damage.zero(path / LOG / "00000000000000032768", 12800, 512)


def power_cut_damage(path: Path) -> None:
    """As power_cut, and the disk lost a sector that it had said to have written, seconds before."""
    power_cut(path)
    damage.zero(path / LOG / "00000000000000000000", 13312, 512)


def power_cut_engine(path: Path) -> None:
    """FlintMQ's engine lost its power: nine orders were on disk, the tenth arrived in part, the others not at all."""
    shutil.rmtree(path, ignore_errors=True)
    with open_small(path, Clock()) as store:
        for number in range(12):
            store.put(Message("Orders", b"order %d " % number * 20, keys=f"order-{number}"))
            store.flush()
    found = records(path)
    (path / "flintmq.queues").unlink()  # a store that runs has none
    killed(path, flushed=found[9].physical_offset)
    (path / "abort").write_text("4711\nanother boot of the machine\n")
    torn = found[9].physical_offset // 512 * 512 + 512
    zero(path, torn, found[-1].physical_offset + found[-1].size - torn)


def nearly_full(path: Path) -> None:
    """A whole broker directory: four groups consume, none has read all."""
    golden("config", path)


def died(path: Path) -> None:
    """RocketMQ was ended in the middle of a burst, as a full disk does it."""
    golden("crash", path)


def missing(path: Path) -> None:
    """Units of a queue were lost, and a group's offset lies behind the end of its queue."""
    golden("config", path)
    damage.zero(path / "consumequeue" / "Trade" / "2" / "00000000000000000000", 8 * 20, 5 * 20)
    offsets = path / "config" / "consumerOffset.json"
    text = offsets.read_text(encoding="utf-8")
    assert text.count('"Trade@TagGroup":{0:17,1:21,2:18,3:18') == 1
    offsets.write_text(text.replace('"Trade@TagGroup":{0:17,1:21,2:18,3:18', '"Trade@TagGroup":{0:17,1:21,2:18,3:95'))


SCENES: dict[str, Callable[[Path], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        wont_start, in_use, bad_config, power_cut, power_cut_hole, power_cut_damage, power_cut_engine, nearly_full,
        died, missing,
    )
}  # fmt: skip
