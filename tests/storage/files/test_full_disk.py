"""A full disk is named, also where the write that failed knew no path."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.forensics.copy import copy_some, copy_whole
from flintmq.forensics.rebuild import rebuild
from flintmq.forensics.salvage.into import salvage_into
from flintmq.storage.files.full_disk import naming
from flintmq.store.commitlog.predicate import Predicate


def failure(code: int, *path: str) -> OSError:
    return OSError(code, os.strerror(code), *path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_error_without_a_path_gets_the_target(code: int) -> None:
    with pytest.raises(OSError, match=os.strerror(code)) as caught, naming("/target"):
        raise failure(code)
    assert caught.value.filename == "/target"


def test_others_stay_as_they_are() -> None:
    for error in (failure(errno.ENOSPC, "/its/own"), failure(errno.EIO)):
        with pytest.raises(OSError) as caught, naming("/target"):
            raise error
        assert caught.value.filename in ("/its/own", None)


JOBS: dict[str, Callable[[str, str], Any]] = {
    "copy": copy_whole,
    "copy of some": lambda root, into: copy_some(root, into, Predicate(topics=frozenset({"Orders"}))),
    "rebuild": lambda root, into: rebuild(root, into=into),
    "salvage": salvage_into,
}


@pytest.mark.parametrize("job", JOBS)
def test_jobs_name_their_target(golden: Any, tmp_path: Path, job: str) -> None:
    """A limit of the process on the size of files stands for a full disk; the job is run in a process of its own.

    Without bytecode: Python would leave its files cut off at the limit.
    """
    into = tmp_path / "into"
    code = f"import sys; from tests.storage.files.test_full_disk import JOBS; JOBS[{job!r}](*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(golden("basic").path), str(into)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and os.strerror(errno.EFBIG) in last and str(into) in last, done.stderr[-2000:]
