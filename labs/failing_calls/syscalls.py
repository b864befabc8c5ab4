"""Every system call of a store's life failed, with each error, once and from then on: `make syscalls`.

    python -m labs.failing_calls.syscalls [--seconds S] [--state FILE] [--report FILE]
                                                     [--only THREAD,CALL,N,...]

A child recovers a store that was killed, puts through roll-overs, reads, and closes ("goes on"), or dies after the
first answer that is not OK ("crash next"). Call n of one of its threads is refused (`refusing.py`); n runs over all
that a life without faults makes. "Sticky": from then on every such call of any thread is. SIGKILL in place of an error
kills it at that call, `short` lets a write say that it wrote nothing. Then the whole contract is checked. The program
ends with 1 if a case was wrong.

EINTR comes once only: Python asks again until another answer comes, as it must. Not the store's calls, by rule
(`is_the_stores`): those on files of the interpreter and of sources (imports), on pipes, sockets and the ledger, and
those of a thread before its first line of Python, where CPython 3.11 itself waits for ever if memory is refused.

What a case costs is the life and its judgement: a child is forked after all imports, nobody is traced, and its disk
is /dev/shm, where a sync costs nothing. That a sync makes anything durable is not tried here but by power cuts.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path

from flintmq.errors import FlintError
from flintmq.message import Outcome
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import SMALL as KEYS
from flintmq.testing.contract import ContractReport, PutLedger
from labs.failing_calls.call_cases import (
    ENDS,
    KINDS,
    Case,
    Class,
    End,
    Kind,
    bits,
    cases,
    classes,
    most,
    order,
)  # fmt: skip
from labs.failing_calls.refusing import CALLS, MEMORY, NOT_YET, Answer, Call, Watch, send, why_not
from labs.failing_calls.sites import Sites, kind_of
from labs.torture import figures, report
from tests.robustness.crash.lives import Life, puts
from tests.robustness.crash.verdict import COUNTS, judge
from tests.support.engine import tree

NAME = "syscalls"
ON_MEMORY = ("mmap", "madvise", "clone")
HANG_S = 30
PUTS = 25
SUMS = ("cases", "struck", "refused", "died", *COUNTS)
STATE = Path("labs/torture/state/syscalls.json")
_NOT_THE_STORES = tuple(
    {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *sys.path[:3]) if p}
)
_JUDGED: dict[bytes, ContractReport] = {}


class Wrong(AssertionError):
    """A case after which something is not as promised."""


def is_the_stores(call: Call, ledger: Path) -> bool:
    """Whether a call counts: what the interpreter asks for itself, and the ledger's, do not."""
    if call.thread == NOT_YET:
        return False
    if call.path == MEMORY:
        return call.name in ON_MEMORY
    return call.path.startswith("/") and not call.path.startswith((*_NOT_THE_STORES, str(ledger)))


def life(root: Path, ledger: PutLedger, kind: Kind, number: int, goes_on: bool, tell: int) -> None:
    """Open, put, read, close; where it is and what is raised goes to a descriptor that is open."""
    disk, pool, in_caller = kind
    where, raised = "open", ""
    keys = KEYS | {"flushDiskType": disk, "transientStorePoolEnable": pool, "flushIntervalCommitLog": 20}
    try:
        store = MessageStore(root, config=keys, unique_keys=False, sync_in_caller=in_caller)
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
        try:
            os.write(tell, json.dumps({"where": where, "raised": raised}).encode())
        finally:
            os._exit(0)  # whatever happens: the caller's code is not this process's to run


def base(folder: Path, kind: Kind) -> Path:
    """A store that was killed after some puts, and its ledger, to be copied for every case."""
    place = folder / f"base-{KINDS.index(kind)}"
    if not place.exists():
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            life(
                place / "store",
                PutLedger(place / "ledger"),
                kind,
                0,
                goes_on=False,
                tell=os.open(os.devnull, os.O_WRONLY),
            )
        os.waitpid(child, 0)
    return place


def strike(folder: Path, kind: Kind, goes_on: bool, case: Case | None) -> End:
    """One life with this fault, on a copy of the base; None: without any, all its calls counted.

    Raises:
        Wrong: it hangs.
    """
    place, end = folder / "case", End(0)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(base(folder, kind), place)
    ledger = PutLedger(place / "ledger")
    ours, theirs = socket.socketpair()
    sites = Sites() if case is None else None
    read, tell = os.pipe()
    with (place / "stacks").open("w+") as stacks:
        child = os.fork()
        if child == 0:
            ours.close()
            faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
            if sites is not None:
                sites.tell()
            send(theirs, CALLS if case is None else [case.call])
            life(place / "store", ledger, kind, 1, goes_on, tell)
        ledger.close()
        theirs.close()
        os.close(tell)
        with ours:
            watch = Watch(ours, child)
            ended = watch.run(lambda call: decide(call, case, place, end, watch, sites), HANG_S)
        if not ended:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGUSR1)
                time.sleep(1)
                os.kill(child, signal.SIGKILL)
        _, end.status = os.waitpid(child, 0)
        said = os.read(read, 65536)
        os.close(read)
        if not ended:
            stacks.seek(0)
            raise Wrong(f"it hung for {HANG_S} s, struck: {end.struck[:3]}: {stacks.read()[:3000]}")
    end.said = json.loads(said) if said else {}
    return end


def decide(call: Call, case: Case | None, place: Path, end: End, watch: Watch, sites: Sites | None) -> Answer | None:
    """What to answer; counts the call."""
    if not is_the_stores(call, place / "ledger"):
        return None
    key = f"{call.thread} {call.name}"
    end.seen[key] += 1
    if case is None:
        assert sites is not None
        kind = kind_of(call.path, str(place / "store"))
        end.sites.setdefault(key, []).append(f"{kind} {sites.of(call.identity)}")
        return None
    first = key == f"{case.thread} {case.call}" and end.seen[key] == case.number
    if not first and (case.how == "once" or not end.struck):
        return None
    end.struck.append(call)
    watch.asks = case.how == "sticky"
    return case.answer


def try_case(folder: Path, case: Case) -> tuple[End, ContractReport]:
    """Strike, and check the contract on a healthy disk.

    Raises:
        Wrong: it hung, raised what no caller expects, died of no kill, or the contract is broken.
    """
    kind = KINDS[case.kind]
    try:
        end = strike(folder, kind, case.goes_on, case)
        if case.error != "SIGKILL" and not end.said:
            raise Wrong(f"the process died, status {end.status}, after {end.struck[:3]}")
        if "SURPRISE" in end.said.get("raised", ""):
            raise Wrong(end.said["raised"])
        if end.said.get("where") == "put" and end.said["raised"]:
            raise Wrong(f"a put raised: {end.said['raised']}")
        found = judged(folder / "case")
        if found.wrong:
            raise Wrong(f"{found}, struck: {end.struck[:3]}")
        return end, found
    except Wrong as error:
        raise Wrong(f"{case}, {kind}: {error}") from None
    except Exception as error:
        raise Wrong(f"{case}, {kind}: recovery: {type(error).__name__}: {error}") from error


def judged(place: Path) -> ContractReport:
    """The verdict on a store and its ledger. Where every byte of both is that of a pair judged before, it is the same.

    So it is after most openings that were refused: they left what they found. The process that `abort` names is another
    one each time; all of them have ended.
    """
    whole = hashlib.sha256((place / "ledger").read_bytes())
    for name, data in tree(place / "store", ".").items():
        data = data.partition(b"\n")[2] if name.endswith("abort") else data
        whole.update(f"\0{name}\0{len(data)}\0".encode() + data)
    key = whole.digest()
    if key not in _JUDGED:
        found = judge(place / "store", place / "ledger")
        if found.wrong:
            return found
        _JUDGED[key] = found
    return _JUDGED[key]


def counts(folder: Path) -> dict[str, End]:
    """What each thread calls in a life without faults, of each kind and with each end, by "kind end"."""
    found = {}
    for n, kind in enumerate(KINDS):
        for name, goes_on in ENDS.items():
            end = strike(folder, kind, goes_on, None)
            assert end.said == {"where": "close", "raised": ""}, end
            found[f"{n} {name}"] = end
    return found


def series(state: report.State, total: int, told: list[Class]) -> figures.Series:
    """What the run has counted, and how far it came."""
    rows = [[row, *(sums.get(name, 0) for name in SUMS)] for row, sums in sorted(state["sums"].items())]
    calls, done = Counter[str](), bits(state["done"])
    for key, count in most(state["seen"]).items():
        calls[key.rsplit(" ", 1)[1]] += count
    whole, sites = {told[n] for n in done}, {one[:3] for one in told}
    more = {
        "cases tried": len(done), "of": total, "wrong": len(state["wrong"]), "classes of calls": len(sites),
        "faults of classes tried": len(whole), "of so many": len(set(told)),
        "calls of a life, at most": dict(sorted(calls.items())),
    }  # fmt: skip
    return figures.Series(["error", *SUMS], rows, state["commits"], more)


def main() -> int:
    """Run until all cases are done, this time and before. 3: the time was up; 4: calls cannot be refused here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--state", type=Path, default=STATE, help="what is done; remove it to begin again")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only", help="one case, as a failure named it: main,fsync,3,EIO,sticky,0,closes")
    words = parser.parse_args()
    if why_not():
        print(why_not(), file=sys.stderr)
        return 4
    logging.getLogger("flintmq").addHandler(logging.NullHandler())  # what it warns of is on purpose
    until = time.monotonic() + words.seconds
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    folder = Path(tempfile.mkdtemp(prefix="flintmq-syscalls-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        if words.only:
            thread, call, number, error, how, kind, end = words.only.split(",")
            print(*try_case(folder, Case(thread, call, int(number), error, how, int(kind), ENDS[end])), sep="\n")
            return 0
        state = report.State(words.state, done="0", seen=None, sums={}, commits=[], wrong=[])
        lives = counts(folder)
        if state["seen"] is None:
            state["seen"] = {name: dict(sorted(end.seen.items())) for name, end in lives.items()}
        found = cases(state["seen"])
        told = classes(found, lives)
        run(folder, found, told, state, lambda: bool(stopped) or time.monotonic() > until)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if words.report is not None:
        figures.record(words.report, NAME, series(state, len(found), told))
    print(*figures.shown(NAME, series(state, len(found), told)), sep="\n")
    if state["wrong"]:
        return 1
    return 0 if len(bits(state["done"])) == len(found) else 3


def attempt(folder: Path, case: Case, state: report.State) -> None:
    """Try a case and note what came of it."""
    try:
        end, found = try_case(folder, case)
    except Wrong as error:
        state["wrong"].append({"case": astuple(case), "what": f"{error}"[:600]})
        print(f"WRONG: {error}\nagain: --only with its words, and `closes` or `ends there`", flush=True)
        return
    state.add(
        f"{case.error} {case.how}", cases=1, struck=int(bool(end.struck)), died=int(not end.said),
        refused=int(bool(end.said.get("raised")) and end.said["where"] == "open"),
        **{name: getattr(found, name) for name in COUNTS},
    )  # fmt: skip


def run(folder: Path, found: list[Case], told: list[Class], state: report.State, ends: Callable[[], bool]) -> None:
    """Go on with the cases; what is done is saved, also when it ends by an error."""
    again = [Case(*one["case"]) for one in state["wrong"]]
    done = bits(state["done"])
    commit = report.commit()
    try:
        for case in again:  # mended meanwhile?
            state["wrong"].pop(0)
            attempt(folder, case, state)
        for n in order(found, told, done):
            if ends():
                break
            attempt(folder, found[n], state)
            done.add(n)
            report.note(state, commit)
            state["done"] = f"{sum(1 << one for one in done):x}" if len(done) % 100 == 0 else state["done"]
            if len(done) % 100 == 0:
                state.save()
                print(f"{len(done):,} of {len(found):,} cases, {len({told[n] for n in done}):,} of {len(set(told)):,} "
                      f"faults of a class, {len(state['wrong'])} wrong", flush=True)  # fmt: skip
    finally:
        state["done"] = f"{sum(1 << one for one in done):x}"
        state.save()


if __name__ == "__main__":
    sys.exit(main())
