"""System calls of a store's life failed by strace (T3, T5, T6; short form of `python -m tests.crash.syscalls`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import syscalls
from tests.crash.syscalls import Case
from tests.torture import report

SAMPLE = [
    ("fdatasync", 3, "EIO", "once"), ("fdatasync", 2, "ENOSPC", "sticky"), ("fdatasync", 9, "EDQUOT", "once"),
    ("fsync", 2, "EIO", "once"), ("fsync", 4, "EIO", "sticky"), ("fallocate", 1, "ENOSPC", "once"),
    ("fallocate", 1, "EDQUOT", "sticky"), ("pwrite64", 5, "EIO", "once"), ("pwrite64", 3, "ENOSPC", "sticky"),
    ("pwrite64", 4, "short", "once"), ("pwrite64", 2, "short", "sticky"), ("openat", 300, "EMFILE", "once"),
    ("openat", 310, "ENOMEM", "sticky"), ("openat", 150, "EINTR", "once"), ("ftruncate", 4, "EROFS", "sticky"),
    ("rename", 3, "EIO", "once"), ("rename", 5, "EROFS", "sticky"), ("unlink", 1, "EIO", "once"),
    ("mkdir", 2, "ENOSPC", "once"), ("mmap", 20, "ENOMEM", "once"), ("mmap", 6, "ENOMEM", "sticky"),
    ("pread64,preadv", 60, "EIO", "once"), ("fdatasync", 6, "SIGKILL", "once"), ("rename", 4, "SIGKILL", "once"),
    ("openat", 320, "SIGKILL", "once"), ("pwrite64", 6, "SIGKILL", "once"),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [Case(*words) for words in SAMPLE], ids=lambda case: "-".join(case.rule.split("=")[1:])
)
def test_whatever_call_fails_the_contract_holds(tmp_path: Path, case: Case):
    """No hang, no OK that is none, no exception that a caller would not expect, and the whole contract afterwards."""
    if syscalls.why_not():
        pytest.skip(syscalls.why_not())
    end, found = syscalls.try_case(tmp_path, case)
    assert found.wrong == {} and found.stored > 20
    assert end.said == {} if case.error == "SIGKILL" else end.said["where"] in ("open", "put", "read", "close")


def test_every_call_is_failed_with_every_error():
    found = syscalls.cases({"fsync": 2, "pwrite64": 1, "openat": 1})
    assert len(found) == len(set(found))
    assert {(c.error, c.how) for c in found if c.call == "fsync" and c.number == 2} == {
        (error, how) for error in ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "ENOMEM", "EROFS") for how in ("once", "sticky")
    } | {("EINTR", "once"), ("SIGKILL", "once")}
    assert found[-1].call == "openat", "what changes the disk comes first"
    assert Case("fsync", 3, "EIO", "sticky").rule == "inject=fsync:error=EIO:when=3+"
    assert Case("pwrite64", 3, "short", "once").rule == "inject=pwrite64:retval=0:when=3"
    assert {c.kind for c in found} == set(syscalls.KINDS) and {c.goes_on for c in found} == {True, False}


def test_the_table_tells_how_far_it_came(tmp_path: Path):
    state = report.State(tmp_path, done=2, most={"fsync": 2}, sums={})
    state.add("EIO once", cases=2, struck=1, acknowledged=50)
    head, _, _, _, row, both = syscalls.lines(state, 30)
    assert head.startswith("2 of 30 cases, commit ") and head.endswith("fsync 2.")
    assert row.startswith("| EIO once | 2 | 1 | 0 | 0 | 50 |") and both.startswith("| all | 2 | 1 |")
