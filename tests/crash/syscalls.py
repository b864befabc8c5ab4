"""Every system call of a store's life failed by strace, with each error, once and from then on: `make syscalls`.

    python -m tests.crash.syscalls [--seconds S] [--state DIR] [--report FILE] [--only CALL,N,ERROR,HOW]

A child recovers a store that was killed, puts through roll-overs, reads, and closes ("goes on"), or dies after the
first answer that is not OK ("crash next"). strace joins it before it opens the store and fails call n of a thread; n
runs over all that a life without faults makes. SIGKILL in place of an error kills it at that call, `short` lets a write
say that it wrote nothing. Then the whole contract is checked on a healthy disk. A case that is wrong ends the program
with 1.

EINTR comes once only: Python asks again until another answer comes, as it must.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.message import Outcome
from flintmq.store.message_store import MessageStore
from tests.crash.lives import KEYS, Ledger, Life, puts
from tests.crash.verdict import COUNTS, Told, judge
from tests.torture import report

NAME = "syscalls"
CALLS = ("fdatasync", "fsync", "fallocate", "pwrite64", "openat", "ftruncate", "rename", "unlink", "mkdir", "mmap",
         "pread64,preadv", "fadvise64", "madvise")  # fmt: skip
READS = ("openat", "pread64,preadv")
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "ENOMEM", "EROFS", "EINTR", "SIGKILL", "short")
HOW = ("once", "sticky")
KINDS = (("SYNC_FLUSH", False), ("ASYNC_FLUSH", False), ("SYNC_FLUSH", True))
HANG_S = 30
PUTS = 25
SUMS = ("cases", "struck", "refused", "died", *COUNTS)


class Wrong(AssertionError):
    """A case after which something is not as promised."""


@dataclass(frozen=True, order=True)
class Case:
    """One fault: call number n of a class of calls, by thread; what it answers; once or from then on."""

    call: str
    number: int
    error: str
    how: str

    @property
    def rule(self) -> str:
        """For strace."""
        what = {"SIGKILL": "signal=SIGKILL", "short": "retval=0"}.get(self.error, f"error={self.error}")
        return f"inject={self.call}:{what}:when={self.number}{'+' * (self.how == 'sticky')}"

    @property
    def kind(self) -> tuple[str, bool]:
        """flushDiskType and pool: in turn."""
        return KINDS[(self.number + ERRORS.index(self.error)) % len(KINDS)]

    @property
    def goes_on(self) -> bool:
        """Whether the life goes on after the fault; else it ends there."""
        return (self.number + ERRORS.index(self.error) // len(KINDS) + HOW.index(self.how)) % 2 == 0


@dataclass
class End:
    """How a life ended.

    Attributes:
        status: of the process.
        said: what it said at its end: where it was, and what was raised; empty if it was killed.
        struck: how many calls were failed.
        log: what strace saw.
    """

    status: int
    said: dict[str, str] = field(default_factory=dict)
    struck: int = 0
    log: str = ""


@cache
def why_not() -> str:
    """Why strace cannot join a process here, or nothing."""
    if shutil.which("strace") is None:
        return "strace is not installed (make debian)"
    child = subprocess.Popen(["sleep", "5"])
    try:
        words = ["strace", "-f", "-o", os.devnull, "-e", "trace=fsync", "-p", str(child.pid)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as strace:
            said = strace.stderr.readline()  # type: ignore[union-attr]
            strace.terminate()
        return "" if "attached" in said else f"strace cannot join a process here: {said.strip()[:100]}"
    finally:
        child.kill()
        child.wait()


def life(root: Path, ledger: Ledger, kind: tuple[str, bool], number: int, goes_on: bool, tell: int) -> None:
    """Open, put, read, close; where it is and what is raised goes to a descriptor that is open."""
    disk, pool = kind
    where, raised = "open", ""
    keys = KEYS | {"flushDiskType": disk, "transientStorePoolEnable": pool, "flushIntervalCommitLog": 20}
    try:
        store = MessageStore(root, config=keys)
        where = "put"
        for n in range(PUTS):
            answer = puts(store, ledger, Life(number, number + n, disk, pool=pool), 0, iter((n,)))
            if not goes_on and answer is not Outcome.OK:
                return
        where = "read"
        store.flush()
        for topic in ("T0", "T1", "T2"):
            store.get(topic, 0, 0)
            store.query(topic, f"{number}-0-3")
        where = "close"
        if goes_on:
            store.close()
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        no_thread = "can't start new thread" in str(error)  # how Python tells of ENOMEM for a stack
        if not isinstance(error, FlintError | OSError | MemoryError) and not no_thread:
            raised = f"SURPRISE {raised}"
    finally:
        os.write(tell, json.dumps({"where": where, "raised": raised}).encode())
        os._exit(0)


def base(folder: Path, kind: tuple[str, bool]) -> Path:
    """A store that was killed after some puts, and its ledger, to be copied for every case."""
    place = folder / f"base-{kind[0]}-{kind[1]}"
    if not place.exists():
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            life(
                place / "store", Ledger(place / "ledger"), kind, 0, goes_on=False, tell=os.open(os.devnull, os.O_WRONLY)
            )
        os.waitpid(child, 0)
    return place


def strike(folder: Path, kind: tuple[str, bool], goes_on: bool, rule: str, calls: str) -> End:
    """One life under strace, on a copy of the base.

    Raises:
        Wrong: it hangs.
    """
    place, log = folder / "case", folder / "strace.log"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base(folder, kind), place)
    stacks = (place / "stacks").open("w+")
    ready, go = os.pipe()
    read, tell = os.pipe()
    ledger = Ledger(place / "ledger")  # before strace counts
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        faulthandler.dump_traceback_later(HANG_S - 5, file=stacks)
        life(place / "store", ledger, kind, 1, goes_on, tell)
    ledger.close()
    os.close(ready)
    os.close(tell)
    words = ["strace", "-f", "-o", str(log), "-e", f"trace={calls}", *(["-e", rule] if rule else []), "-p", str(child)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as strace:
        assert "attached" in strace.stderr.readline()  # type: ignore[union-attr]
        os.write(go, b"1")
        os.close(go)
        until, status = time.monotonic() + HANG_S, None
        while status is None and time.monotonic() < until:
            time.sleep(0.003)
            ended, code = os.waitpid(child, os.WNOHANG)
            status = code if ended else None
        if status is None:
            with suppress(ProcessLookupError):
                os.kill(child, 9)
            os.waitpid(child, 0)
    said = os.read(read, 65536)
    os.close(read)
    with stacks:
        stacks.seek(0)
        where = stacks.read()
    if status is None:
        raise Wrong(f"it hung for {HANG_S} s: {where}{log.read_text()[-600:]}")
    text = log.read_text()
    return End(status, json.loads(said) if said else {}, text.count("INJECTED"), text)


def try_case(folder: Path, case: Case) -> tuple[End, Told]:
    """Strike, and check the contract on a healthy disk.

    Raises:
        Wrong: it hung, raised what no caller expects, died of no kill, or the contract is broken.
    """
    try:
        end = strike(folder, case.kind, case.goes_on, case.rule, case.call)
        if case.error != "SIGKILL" and not end.said:
            raise Wrong(f"the process died, status {end.status}")
        if "SURPRISE" in end.said.get("raised", ""):
            raise Wrong(end.said["raised"])
        if end.said.get("where") == "put" and end.said["raised"]:
            raise Wrong(f"a put raised: {end.said['raised']}")
        found = judge(folder / "case" / "store", folder / "case" / "ledger")
        if found.wrong:
            raise Wrong(str(found))
        return end, found
    except Wrong as error:
        raise Wrong(f"{case}, {case.kind}, {'goes on' if case.goes_on else 'ends there'}: {error}") from None
    except Exception as error:
        raise Wrong(f"{case}, {case.kind}: recovery: {type(error).__name__}: {error}") from error


def counts(folder: Path) -> dict[str, int]:
    """How often one thread makes each class of calls in a life without faults, at most."""
    most: dict[str, int] = {}
    for kind in KINDS:
        end = strike(folder, kind, True, "", ",".join(CALLS))
        assert end.said == {"where": "close", "raised": ""}, end
        for call in CALLS:
            variants = "(?:at2?)?" if call in ("rename", "unlink", "mkdir") else ""
            names = call.replace(",", "|") + variants
            threads = Counter(re.findall(rf"^(\d+) +(?:{names})\(", end.log, re.MULTILINE))
            most[call] = max(most.get(call, 0), *threads.values(), 0)
    return most


def cases(most: dict[str, int]) -> list[Case]:
    """All of them, those of calls that change the disk first, in an order in which every beginning is a sample."""
    found = [
        Case(call, number, error, how)
        for call, count in most.items()
        for number in range(1, count + 1)
        for error in ERRORS
        for how in HOW
        if (error, how) not in (("EINTR", "sticky"), ("SIGKILL", "sticky")) and (error != "short" or call == "pwrite64")
    ]
    random.Random("syscalls").shuffle(found)
    return sorted(found, key=lambda case: case.call in READS)


def lines(state: report.State, total: int) -> list[str]:
    """What the run writes into the page."""
    rows = [[row, *(sums.get(name, 0) for name in SUMS)] for row, sums in sorted(state["sums"].items())]
    sums = ["all", *(sum(row[n] for row in rows) for n in range(1, len(SUMS) + 1))]
    calls = ", ".join(f"{call} {count}" for call, count in state["most"].items())
    head = f"{state['done']:,} of {total:,} cases, {report.commit()}. Calls of one thread, at most: {calls}."
    return [head, "", *report.table(["error", *SUMS], [*rows, sums])]


def main() -> int:
    """Run until all cases are done, this time and before. 3: the time was up; 4: there is no strace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=Path("artifacts/syscalls"))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only", help="one case, as a failure named it: fsync,3,EIO,sticky")
    words = parser.parse_args()
    if why_not():
        print(why_not(), file=sys.stderr)
        return 4
    until = time.monotonic() + words.seconds
    folder = Path(tempfile.mkdtemp(prefix="flintmq-syscalls-"))
    try:
        if words.only:
            call, number, error, how = words.only.rsplit(",", 3)
            print(*try_case(folder, Case(call, int(number), error, how)), sep="\n")
            return 0
        state = report.State(words.state, done=0, most=None, sums={})
        if state["most"] is None:
            state["most"] = counts(folder)
        todo = cases(state["most"])
        for case in todo[state["done"] :]:
            if time.monotonic() > until:
                break
            end, found = try_case(folder, case)
            state.add(
                f"{case.error} {case.how}", cases=1, struck=int(end.struck > 0 or not end.said), died=int(not end.said),
                refused=int(bool(end.said.get("raised")) and end.said["where"] == "open"),
                **{name: getattr(found, name) for name in COUNTS},
            )  # fmt: skip
            state["done"] += 1
            if state["done"] % 20 == 0:
                state.save()
            if state["done"] % 200 == 0:
                print(f"{state['done']:,} of {len(todo):,} cases", flush=True)
        state.save()
    except Wrong as error:
        print(f"WRONG: {error}\nagain: --only with call, number, error, how")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if words.report is not None:
        report.write(words.report, NAME, lines(state, len(todo)))
    print(*lines(state, len(todo)), sep="\n")
    return 0 if state["done"] >= len(todo) else 3


if __name__ == "__main__":
    sys.exit(main())
