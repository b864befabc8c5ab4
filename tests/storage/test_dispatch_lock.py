"""Who dispatches into a directory: locks of processes, and of two objects in one."""

import os
import threading
import time

import pytest

from flintmq.errors import StoreLockedError, UsageError
from flintmq.storage import dispatch_lock
from flintmq.storage.dispatch_lock import DispatchLock, ExternalClaim, alone, dispatches_itself, holder, retire
from flintmq.storage.lock import StoreLock


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
    monkeypatch.setattr(dispatch_lock.time, "sleep", lambda seconds: claims.append(ExternalClaim(str(tmp_path))))
    lock = StoreLock(str(tmp_path))
    assert not dispatches_itself(str(tmp_path)) and len(claims) == 1
    lock.release()


def test_work_under_a_lock_is_done_by_one_and_not_after_it_is_retired(tmp_path):
    path, order = str(tmp_path / "share"), []
    open(path, "xb").close()

    def work(name):
        with alone(path):
            order.append(name)
            time.sleep(0.05)
            order.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
    with alone(path):
        assert not retire(path, 0.0)
    assert retire(path, 0.0) and retire(path, 0.0)
    with pytest.raises(UsageError, match="the job that asked for this work is over"), alone(path):
        pass


def test_who_waited_for_a_lock_that_was_retired_gives_up(tmp_path):
    path, given_up = str(tmp_path / "share"), []
    open(path, "xb").close()

    def late():
        try:
            with alone(path):
                pass
        except UsageError:
            given_up.append(True)

    with alone(path):
        thread = threading.Thread(target=late)
        thread.start()
        time.sleep(0.1)
        os.unlink(path)
    thread.join()
    assert given_up == [True]
