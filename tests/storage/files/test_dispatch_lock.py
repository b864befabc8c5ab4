"""Who dispatches into a directory: locks of processes, and of two objects in one."""

import os
import socket
import threading
import time
from functools import partial

import pytest

from flintmq.errors import StoreLockedError, UsageError
from flintmq.storage.files import dispatch_lock
from flintmq.storage.files.dispatch_lock import (
    DispatchLock,
    ExternalClaim,
    dispatches_itself,
    exclusive,
    holder,
    retire,
)
from flintmq.storage.files.lock import StoreLock
from tests.support.own_time import own_time
from tests.support.threads import at_once


def test_one_at_a_time_and_the_other_is_told_who(tmp_path):
    assert holder(str(tmp_path)) is None
    lock = DispatchLock(str(tmp_path))
    assert holder(str(tmp_path)).startswith(f"process {os.getpid()} on ")
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()} on .* dispatches into it; stop that one"):
        DispatchLock(str(tmp_path))
    lock.release()
    lock.release()
    assert holder(str(tmp_path)) is None
    DispatchLock(str(tmp_path)).release()


def test_a_lock_goes_with_its_process(tmp_path):
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        DispatchLock(str(tmp_path))
        os.write(told, b"x")
        time.sleep(60)
    os.read(ready, 1)
    assert holder(str(tmp_path)).startswith(f"process {child} on ")
    os.kill(child, 9)
    os.waitpid(child, 0)
    DispatchLock(str(tmp_path)).release()


def test_who_writes_a_store_dispatches_itself_unless_it_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch_lock, "SECOND_LOOK_S", 0.0)
    root = str(tmp_path)
    assert not dispatches_itself(root)
    lock = StoreLock(root)
    assert dispatches_itself(root)
    claim = ExternalClaim(root)
    assert not dispatches_itself(root)
    claim.release()
    assert dispatches_itself(root)
    lock.release()
    assert not dispatches_itself(root)


def test_a_starting_engine_gets_a_second_look(tmp_path, monkeypatch):
    claims = []
    own_time(monkeypatch, dispatch_lock, sleep=lambda seconds: claims.append(ExternalClaim(str(tmp_path))))
    lock = StoreLock(str(tmp_path))
    assert not dispatches_itself(str(tmp_path)) and len(claims) == 1
    lock.release()


def test_work_under_a_lock_is_done_by_one_and_not_after_it_is_retired(tmp_path):
    path, order = str(tmp_path / "share"), []
    open(path, "xb").close()

    def work(name):
        with exclusive(path):
            order.append(name)
            time.sleep(0.05)
            order.append(name)

    at_once(*(partial(work, name) for name in "ab"))
    assert order in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
    with exclusive(path):
        assert not retire(path, 0.0)
    assert retire(path, 0.0) and retire(path, 0.0)
    with pytest.raises(UsageError, match="the job that asked for this work is over"), exclusive(path):
        pass


def test_who_waited_for_a_lock_that_was_retired_gives_up(tmp_path):
    path, given_up = str(tmp_path / "share"), []
    open(path, "xb").close()

    def late():
        try:
            with exclusive(path):
                pass
        except UsageError:
            given_up.append(True)

    with exclusive(path):
        thread = threading.Thread(target=late)
        thread.start()
        time.sleep(0.1)
        os.unlink(path)
    thread.join()
    assert given_up == [True]


def test_the_files_are_where_other_processes_look_and_anybody_may_read_them(tmp_path):
    before = os.umask(0)
    try:
        held = [DispatchLock(str(tmp_path)), ExternalClaim(str(tmp_path)), ExternalClaim(str(tmp_path))]
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / ".flintmq-dispatch").iterdir()}
    assert modes == {"lock": 0o644, "external": 0o644}
    for one in held:
        one.release()
    assert [path.name for path in tmp_path.iterdir()] == [".flintmq-dispatch"], "the store's own lock is another file"


def test_the_lock_says_who_has_it_and_since_when(tmp_path, monkeypatch):
    own_time(monkeypatch, dispatch_lock, gmtime=lambda: time.struct_time((2026, 1, 2, 13, 4, 5, 4, 2, 0)))
    DispatchLock(str(tmp_path)).release()
    (tmp_path / ".flintmq-dispatch" / "lock").write_text("somebody with a longer name " * 20)
    lock = DispatchLock(str(tmp_path))
    assert (tmp_path / ".flintmq-dispatch" / "lock").read_text() == (
        f"process {os.getpid()} on {socket.gethostname()}, since 2026-01-02T13:04:05Z,\n"
    )
    lock.release()


@pytest.mark.parametrize(("content", "told"), [
    (b"", "another process"), (b"a \xff\n", "a \ufffd"), (b"x" * 300, "x" * 200),
])  # fmt: skip
def test_whatever_the_holder_wrote_the_other_is_told_what_to_do(tmp_path, monkeypatch, content, told):
    """A holder that has just begun has written nothing; one that is no dispatcher of ours, anything."""
    monkeypatch.setattr(dispatch_lock, "WAIT_S", 0.0)
    lock = DispatchLock(str(tmp_path))
    (tmp_path / ".flintmq-dispatch" / "lock").write_bytes(content)
    assert holder(str(tmp_path)) == told
    with pytest.raises(StoreLockedError) as refused:
        DispatchLock(str(tmp_path))
    text = f"{tmp_path}: {told} dispatches into it; stop that one, or give another directory"
    assert str(refused.value) == text
    lock.release()


@pytest.mark.parametrize("kind", [DispatchLock, ExternalClaim])
def test_a_process_without_standard_input_lets_go_once_too(monkeypatch, kind):
    """There the first file that is opened is descriptor 0."""
    closed, lock = [], kind.__new__(kind)
    lock.fd = 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed.append)
        lock.release()
        lock.release()
    assert closed == [0]


def test_that_nobody_writes_a_store_is_told_at_once(tmp_path, monkeypatch):
    own_time(monkeypatch, dispatch_lock, sleep=lambda seconds: pytest.fail("there is nothing to wait for"))
    assert not dispatches_itself(str(tmp_path))
    lock, claim = StoreLock(str(tmp_path)), ExternalClaim(str(tmp_path))
    assert not dispatches_itself(str(tmp_path))
    claim.release()
    lock.release()


def test_a_lock_is_retired_when_who_works_under_it_is_ready_in_time(tmp_path, monkeypatch):
    path, clock, slept = str(tmp_path / "share"), [10.0], []
    open(path, "xb").close()
    worker = exclusive(path)
    worker.__enter__()

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            worker.__exit__(None, None, None)
        clock[0] = 12.0

    own_time(monkeypatch, dispatch_lock, sleep=sleep, monotonic=lambda: clock[0])
    assert retire(path, 2.0) and slept == [0.05, 0.05], "the last moment is in time"
    assert not os.path.exists(path)
