"""All cases of failing system calls: which call, of which thread, with which error, in which life; and their order."""

from __future__ import annotations

import errno
import random
from collections import Counter
from dataclasses import dataclass, field

from labs.failing_calls.refusing import Answer, Call

READS = ("open", "pread", "read", "stat", "getdents", "lseek", "statfs", "fcntl")
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "ENOMEM", "EROFS", "EINTR", "SIGKILL", "short")
HOW = ("once", "sticky")
Kind = tuple[str, bool, bool]  # flushDiskType, transient pool, sync_in_caller
KINDS: tuple[Kind, ...] = (
    ("SYNC_FLUSH", False, False),
    ("ASYNC_FLUSH", False, False),
    ("SYNC_FLUSH", True, False),
    ("SYNC_FLUSH", False, True),
)
Counts = dict[str, dict[str, int]]  # "kind end" -> "thread call" -> how many
Class = tuple[str, str, str, str, str]
ENDS = {"closes": True, "ends there": False}


@dataclass(frozen=True, order=True)
class Case:
    """One fault: call number n of a class of calls, of one thread; what it answers; once or from then on.

    Attributes:
        kind: of the store, a number of KINDS.
        goes_on: whether the life goes on after the fault and closes; else the first answer that is not OK ends it.
    """

    thread: str
    call: str
    number: int
    error: str
    how: str
    kind: int = 0
    goes_on: bool = True

    @property
    def answer(self) -> Answer:
        """What the child is told."""
        if self.error == "SIGKILL":
            return Answer(kill=True)
        return Answer() if self.error == "short" else Answer(error=getattr(errno, self.error))


@dataclass
class End:
    """How a life ended.

    Attributes:
        status: of the process.
        said: what it said at its end: where it was, and what was raised; empty if it was killed.
        struck: the calls that were refused.
        seen: how many calls of each class each thread made, by "thread call".
        sites: where each of them came from, in a life without faults.
    """

    status: int
    said: dict[str, str] = field(default_factory=dict)
    struck: list[Call] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    sites: dict[str, list[str]] = field(default_factory=dict)


def most(seen: Counts) -> dict[str, int]:
    """How many calls of each class a thread makes in any of these lives, by "thread call"."""
    keys = sorted({key for one in seen.values() for key in one})
    return {key: max(one.get(key, 0) for one in seen.values()) for key in keys}


def cases(seen: Counts) -> list[Case]:
    """All of them. Each is tried in one of the lives whose thread makes so many of these calls, in turn."""
    found = []
    for key, count in most(seen).items():
        thread, call = key.rsplit(" ", 1)
        for number in range(1, count + 1):
            lives = [name for name, one in sorted(seen.items()) if one.get(key, 0) >= number]
            for turn, (error, how) in enumerate(faults(call)):
                kind, _, end = lives[(number + turn) % len(lives)].partition(" ")
                found.append(Case(thread, call, number, error, how, int(kind), ENDS[end]))
    return found


def classes(found: list[Case], lives: dict[str, End]) -> list[Class]:
    """Of each case: thread, call, where in the sources and on what kind of file, error, how.

    A call that this machine's lives do not make is of a class with others such.
    """
    ends = {goes_on: name for name, goes_on in ENDS.items()}
    told = []
    for case in found:
        sites = lives[f"{case.kind} {ends[case.goes_on]}"].sites.get(f"{case.thread} {case.call}", [])
        site = sites[case.number - 1] if case.number <= len(sites) else ""
        told.append((case.thread, case.call, site, case.error, case.how))
    return told


def order(found: list[Case], told: list[Class], done: set[int]) -> list[int]:
    """What is still to do: first one case of each class, then the others; each part begins with what changes the disk.

    Within a part every beginning is a sample.
    """
    left = [n for n in range(len(found)) if n not in done]
    random.Random("syscalls").shuffle(left)
    known, first = {told[n] for n in done}, set()
    for n in left:
        if told[n] not in known:
            known.add(told[n])
            first.add(n)
    return sorted(left, key=lambda n: (n not in first, found[n].call in READS))


def faults(call: str) -> list[tuple[str, str]]:
    """What is done to a call of this class."""
    return [
        (error, how)
        for error in ERRORS
        for how in HOW
        if (error, how) not in (("EINTR", "sticky"), ("SIGKILL", "sticky"))
        and (error != "short" or call in ("pwrite", "write"))
    ]


def bits(text: str) -> set[int]:
    """The numbers of the bits that are set, of a number in hexadecimal; so a state says what is done."""
    return {n for n, bit in enumerate(reversed(f"{int(text, 16):b}")) if bit == "1"}
