"""System calls of a store's life failed, one at a time (T3, T5, T6; short form of `python -m
labs.failing_calls.syscalls`)."""

import errno
import json
import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from flintmq.kernels.threads.flusher import native
from labs.failing_calls import call_cases, refusing, syscalls
from labs.failing_calls.sites import kind_of
from labs.failing_calls.syscalls import Case
from labs.torture import report
from tests.robustness.crash.verdict import ContractReport

SAMPLE = [
    Case("flintmq-flush", "fdatasync", 3, "EIO", "once"), Case("flintmq-flush", "fdatasync", 2, "ENOSPC", "sticky"),
    Case("flintmq-close", "fdatasync", 3, "EDQUOT", "once"), Case("main", "fsync", 2, "EIO", "once"),
    Case("main", "fsync", 4, "EIO", "sticky"), Case("flintmq-allocat", "fallocate", 1, "ENOSPC", "once"),
    Case("main", "fallocate", 1, "EDQUOT", "sticky"), Case("flintmq-dispatc", "pwrite", 4, "EIO", "once"),
    Case("flintmq-dispatc", "pwrite", 3, "ENOSPC", "sticky"), Case("main", "pwrite", 4, "short", "once"),
    Case("flintmq-flush", "pwrite", 2, "short", "sticky", kind=2), Case("main", "open", 250, "EMFILE", "once"),
    Case("main", "open", 270, "ENOMEM", "sticky"), Case("main", "open", 150, "EINTR", "once"),
    Case("flintmq-close", "ftruncate", 1, "EROFS", "sticky"), Case("main", "rename", 3, "EIO", "once"),
    Case("flintmq-close", "rename", 2, "EROFS", "sticky"), Case("main", "unlink", 1, "EIO", "once"),
    Case("flintmq-allocat", "link", 2, "EIO", "once"), Case("flintmq-allocat", "link", 1, "ENOSPC", "sticky"),
    Case("flintmq-close", "mkdir", 1, "ENOSPC", "once"), Case("main", "mmap", 15, "ENOMEM", "once"),
    Case("main", "mmap", 6, "ENOMEM", "sticky"), Case("main", "pread", 60, "EIO", "once"),
    Case("main", "stat", 100, "EIO", "once"), Case("main", "clone", 4, "ENOMEM", "once"),
    Case("flintmq-close", "rename", 1, "SIGKILL", "once"), Case("main", "open", 280, "SIGKILL", "once"),
    Case("flintmq-dispatc", "pwrite", 4, "SIGKILL", "once"),
    Case("flintmq-flush", "fdatasync", 6, "SIGKILL", "once", goes_on=False),
    Case("main", "fdatasync", 4, "EIO", "once", kind=3), Case("main", "fdatasync", 7, "ENOSPC", "sticky", kind=3),
    Case("main", "fdatasync", 5, "EIO", "once", kind=3, goes_on=False),
    Case("main", "fdatasync", 6, "SIGKILL", "once", kind=3, goes_on=False),
    Case("flintmq-flush", "fdatasync", 1, "EDQUOT", "once", kind=3),
]  # fmt: skip


@pytest.mark.turn(2, of=["src/flintmq/store/", "src/flintmq/storage/"])
@pytest.mark.parametrize("case", SAMPLE, ids=lambda c: f"{c.thread}-{c.call}-{c.number}-{c.error}-{c.how}")
def test_whatever_call_fails_the_contract_holds(tmp_path: Path, case: Case):
    """No hang, no OK that is none, no exception that a caller would not expect, and the whole contract afterwards."""
    if refusing.why_not():
        pytest.skip(refusing.why_not())
    end, found = syscalls.try_case(tmp_path, case)
    assert end.struck and {call.name for call in end.struck} == {case.call}
    assert end.struck[0].thread == case.thread and (len(end.struck) == 1 or case.how == "sticky")
    assert found.wrong == {} and found.stored > 20
    assert end.said == {} if case.error == "SIGKILL" else end.said["where"] in ("open", "put", "read", "close")


def test_every_call_of_every_thread_is_failed_with_every_error():
    seen = {"0 closes": {"main fsync": 2, "main open": 1}, "1 ends there": {"main fsync": 1, "a thread pwrite": 1}}
    found = syscalls.cases(seen)
    assert len(found) == len(set(found))
    assert {(c.error, c.how) for c in found if c.call == "fsync" and c.number == 2} == {
        (error, how) for error in ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "ENOMEM", "EROFS") for how in ("once", "sticky")
    } | {("EINTR", "once"), ("SIGKILL", "once")}
    assert {(c.kind, c.goes_on) for c in found if c.call == "fsync" and c.number == 1} == {(0, True), (1, False)}
    assert {(c.kind, c.goes_on) for c in found if c.number == 2} == {(0, True)}, "where the life makes so many"
    assert {c.error for c in found if c.thread == "a thread"} == set(call_cases.ERRORS)


def test_one_case_of_each_class_comes_first_and_what_is_done_does_not_come_again():
    seen = {"0 closes": {"main fsync": 3, "main open": 2}}
    found = syscalls.cases(seen)
    lives = {"0 closes": call_cases.End(0, sites={"main fsync": ["x", "x", "y"], "main open": ["z", "z"]})}
    told = syscalls.classes(found, lives)
    assert {one[:3] for one in told} == {("main", "fsync", "x"), ("main", "fsync", "y"), ("main", "open", "z")}
    done = {found.index(Case("main", "fsync", 2, "EIO", "once"))}
    todo = syscalls.order(found, told, done)
    assert sorted([*todo, *done]) == list(range(len(found)))
    first = len(set(told)) - 1
    assert len({told[n] for n in todo[:first]}) == first and ("main", "fsync", "x", "EIO", "once") not in map(
        told.__getitem__, todo[:first]
    )
    assert [found[n].call for n in todo[:first]] == ["fsync"] * (first - 14) + ["open"] * 14, "what changes the disk"
    assert todo == syscalls.order(found, told, done), "the same order again"


def test_calls_from_the_same_lines_on_the_same_kind_of_file_are_of_one_class(tmp_path: Path):
    if refusing.why_not():
        pytest.skip(refusing.why_not())
    end = syscalls.strike(tmp_path, syscalls.KINDS[0], True, None)
    assert all(len(sites) == end.seen[key] for key, sites in end.sites.items())
    flushes = Counter(end.sites["flintmq-flush fdatasync"])
    assert len(flushes) <= 4 and all("commitlog/" in site for site in flushes)
    assert native() or all("flush.py:" in site for site in flushes), "the native thread runs no line of Python"
    assert len(set(end.sites["main open"])) < len(end.sites["main open"]) * 2 / 3
    assert kind_of("/s/consumequeue/T/7/00000000000000000400", "/s") == "consumequeue/N/2"
    assert kind_of("/s/abort", "/s") == "abort//0" and kind_of("/proc/self", "/s") == "/proc/self"


def test_the_life_makes_the_calls_that_are_failed(tmp_path: Path):
    """Every class of calls but those that this life does not make; nothing of the interpreter or the ledger."""
    if refusing.why_not():
        pytest.skip(refusing.why_not())
    end = syscalls.strike(tmp_path, syscalls.KINDS[2], True, None)
    made = {key.rsplit(" ", 1)[1] for key in end.seen}
    assert made >= refusing.CALLS.keys() - {"write", "statfs", "sync_file_range", "syncfs"}
    assert {key.rsplit(" ", 1)[0] for key in end.seen} >= {"main", "flintmq-flush", "flintmq-dispatc"}
    ledger = tmp_path / "case" / "ledger"
    for path, counts in ((str(ledger), False), (os.__file__, False), ("pipe:[7]", False), (str(tmp_path), True)):
        assert syscalls.is_the_stores(refusing.Call("open", "main", path), ledger) is counts


def test_a_call_is_refused_with_what_is_said_and_others_are_made(tmp_path: Path):
    if refusing.why_not():
        pytest.skip(refusing.why_not())
    ours, theirs = socket.socketpair()
    read, tell = os.pipe()
    child = os.fork()
    if child == 0:
        refusing.send(theirs, ["mkdir", "pwrite"])
        answers = []
        for name in ("a", "b", "c"):
            try:
                os.mkdir(tmp_path / name)
                answers.append(0)
            except OSError as error:
                answers.append(error.errno)
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        answers += [os.pwrite(file, b"abc", 0), os.write(file, b"abc")]
        os.write(tell, json.dumps(answers).encode())
        os._exit(0)
    said = {str(tmp_path / "b"): refusing.Answer(error=errno.EDQUOT), str(tmp_path / "file"): refusing.Answer(value=1)}
    seen = []

    def decide(call: refusing.Call) -> refusing.Answer | None:
        seen.append((call.name, call.thread, call.path))
        return said.get(call.path)

    with ours:
        assert refusing.Watch(ours, child).run(decide, 20)
    assert os.waitpid(child, 0)[1] == 0
    assert json.loads(os.read(read, 1000)) == [0, errno.EDQUOT, 0, 1, 3]
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "file"] and (tmp_path / "file").read_bytes() == b"abc"
    assert seen == [*(("mkdir", "main", str(tmp_path / n)) for n in "abc"), ("pwrite", "main", str(tmp_path / "file"))]
    theirs.close()
    os.close(read)
    os.close(tell)


def test_a_child_that_does_not_end_is_told(tmp_path: Path):
    if refusing.why_not():
        pytest.skip(refusing.why_not())
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        refusing.send(theirs, ["mkdir"])
        time.sleep(60)
        os._exit(0)
    with ours, theirs:
        assert not refusing.Watch(ours, child).run(lambda call: None, 0.3)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_run_tells_how_far_it_came(tmp_path: Path):
    seen = {"0 closes": {"main fsync": 2}, "1 closes": {"main fsync": 1}}
    state = report.State(tmp_path, done="a1", seen=seen, sums={}, commits=["commit 1, 1 May 2026"], wrong=[])
    state.add("EIO once", cases=2, struck=1, acknowledged=50)
    assert syscalls.bits("a1") == {0, 5, 7} and syscalls.bits("0") == set()
    told = [("main", "fsync", "a b"[n % 3], "EIO", "once") for n in range(9)]
    found = syscalls.series(state, 30, told)
    assert found.done == ["commit 1, 1 May 2026"] and found.told == {
        "cases tried": 3, "of": 30, "wrong": 0, "classes of calls": 3, "faults of classes tried": 3, "of so many": 3,
        "calls of a life, at most": {"fsync": 2},
    }  # fmt: skip
    [row] = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert {name: n for name, n in row.items() if n} == {
        "error": "EIO once",
        "cases": 2,
        "struck": 1,
        "acknowledged": 50,
    }
    assert row["refused"] == row["lost"] == 0


def test_a_run_goes_on_and_tries_again_what_was_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    todo = syscalls.cases({"0 closes": {"main fsync": 1}})
    told = [("main", "fsync", "here", case.error, case.how) for case in todo]
    todo = [todo[n] for n in syscalls.order(todo, told, set())]
    bad, tried = {todo[1]}, []

    def attempt(folder: Path, case: Case) -> tuple[call_cases.End, ContractReport]:
        tried.append(case)
        if case in bad:
            raise syscalls.Wrong("lost one")
        return call_cases.End(0, {"where": "close", "raised": ""}), ContractReport(acknowledged=1)

    monkeypatch.setattr(syscalls, "try_case", attempt)

    def state() -> report.State:
        return report.State(tmp_path / "state.json", done="0", sums={}, commits=[], wrong=[], seen={})

    def run(until: int) -> None:
        syscalls.run(tmp_path, todo, told, state(), lambda: len(tried) >= until)

    monkeypatch.setattr(syscalls, "order", lambda found, told, done: [n for n in range(len(found)) if n not in done])
    run(3)
    assert tried == todo[:3] and syscalls.bits(state()["done"]) == {0, 1, 2}
    assert [(Case(*one["case"]), one["what"]) for one in state()["wrong"]] == [(todo[1], "lost one")]
    run(0)
    assert tried[3:] == [todo[1]] and len(state()["wrong"]) == 1, "the time is up, and it is wrong still"
    bad.clear()
    run(1000)
    assert (
        tried[4:] == [todo[1], *todo[3:]]
        and state()["wrong"] == []
        and len(syscalls.bits(state()["done"])) == len(todo)
    )
    assert sum(row["cases"] for row in state()["sums"].values()) == len(todo)
