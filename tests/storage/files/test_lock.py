"""The lock of a store: taken by one, asked by others without taking it."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq.errors import StoreAccessError, StoreLockedError
from flintmq.storage.files import lock
from flintmq.storage.files.lock import StoreLock, is_live

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)  # byte 0, as RocketMQ locks it
print("held", flush=True)
time.sleep(60)
"""

TAKER = """
import sys
from flintmq.errors import StoreAccessError, StoreLockedError
from flintmq.storage.files.lock import StoreLock, is_live
try:
    StoreLock(sys.argv[1])
    print("taken")
except StoreLockedError as error:
    print("refused", is_live(sys.argv[1]), error)
"""


def taken_by_another(root: Path) -> str:
    """What another process says that tries to take the lock."""
    done = subprocess.run([sys.executable, "-c", TAKER, str(root)], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_store_without_lock_file_is_not_live(tmp_path: Path) -> None:
    assert not lock.is_live(str(tmp_path))


def test_a_lock_file_that_nobody_holds_is_not_live(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    assert not lock.is_live(str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="is_live answers on Linux only")
def test_a_lock_that_another_process_holds_is_live(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.is_live(str(tmp_path))
        assert lock.is_live(str(tmp_path))  # asking has not taken it
        holder.kill()
    assert not lock.is_live(str(tmp_path))


def test_this_process_s_own_lock_is_answered_without_opening_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = StoreLock(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *_: pytest.fail("any close of the lock file would drop the lock"))
        assert is_live(str(tmp_path))
        with pytest.raises(StoreLockedError):
            StoreLock(str(tmp_path))
    assert taken_by_another(tmp_path).startswith("refused True"), "still held"
    held.release()


def test_one_store_one_writer(tmp_path: Path) -> None:
    first = StoreLock(str(tmp_path))
    assert first.held
    with pytest.raises(StoreLockedError, match=f"{tmp_path}: this process has opened the store already"):
        StoreLock(str(tmp_path))
    with pytest.raises(StoreLockedError):  # by another name
        (tmp_path / "again").symlink_to(tmp_path)
        StoreLock(str(tmp_path / "again"))
    assert "another process writes this store" in taken_by_another(tmp_path)
    first.release()
    assert (tmp_path / "lock").read_bytes() == b"lock"
    assert not first.held and not is_live(str(tmp_path))
    assert taken_by_another(tmp_path) == "taken\n"
    second = StoreLock(str(tmp_path))
    assert second.held and is_live(str(tmp_path))
    second.release()


def test_release_may_be_called_again_and_takes_nothing_from_the_next_one(tmp_path: Path) -> None:
    first = StoreLock(str(tmp_path))
    first.release()
    second = StoreLock(str(tmp_path))
    first.release()
    assert second.held and is_live(str(tmp_path)) and "another process" in taken_by_another(tmp_path)
    second.release()


@pytest.mark.skipif(sys.platform != "linux", reason="the child is asked by fork, and is_live answers on Linux only")
def test_a_forked_child_does_not_hold_it_and_cannot_drop_it(tmp_path: Path) -> None:
    held = StoreLock(str(tmp_path))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 2 if held.held else 0
            held.release()
            try:
                StoreLock(str(tmp_path))
                code += 4
            except StoreLockedError:
                pass
            except BaseException:
                code += 8
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert held.held and "another process" in taken_by_another(tmp_path)
    held.release()


def test_what_is_done_in_a_forked_child_leaves_a_table_that_can_be_used(tmp_path: Path) -> None:
    """Done here: it closes the files, and another store object may take the lock."""
    held = StoreLock(str(tmp_path))
    lock._forget()
    assert not held.held and held not in lock._held
    StoreLock(str(tmp_path)).release()


def test_a_lock_that_java_holds_is_refused(tmp_path: Path) -> None:
    """Java locks byte 0 of `lock` by fcntl, as the holder here does."""
    (tmp_path / "lock").write_bytes(b"lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match="another process"):
            StoreLock(str(tmp_path))
        holder.kill()
    StoreLock(str(tmp_path)).release()


def test_a_lock_file_that_is_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreAccessError, match="lock: is a symbolic link, which a store does not hold"):
        StoreLock(str(tmp_path))
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


def test_a_lock_that_is_no_file_is_told_as_the_system_tells_it(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreAccessError, match="lock: Is a directory; check the file's kind and permissions$"):
        StoreLock(str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is a POSIX lock")
def test_a_release_unlocks_what_a_child_has_inherited(tmp_path: Path) -> None:
    """A child between fork and exec has the open files too; a copy of the descriptors is the same."""
    held = StoreLock(str(tmp_path))
    inherited = os.dup(held.fd), os.dup(held._folder)
    held.release()
    assert taken_by_another(tmp_path) == "taken\n"
    for fd in inherited:
        os.close(fd)
    assert held not in lock._held


def test_a_release_that_the_system_refuses_closes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    held, descriptors = StoreLock(str(tmp_path)), len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(lock, "_lock_byte", refuse)
        held.release()
    assert not held.held and len(os.listdir("/proc/self/fd")) == descriptors - 2
    assert taken_by_another(tmp_path) == "taken\n"


def test_a_process_without_standard_input_closes_its_files_too(tmp_path: Path) -> None:
    """Its first open file is descriptor 0."""
    kept = os.dup(0)
    try:
        os.close(0)
        held = StoreLock(str(tmp_path))
        assert 0 in (held.fd, held._folder)
        held.release()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (errno.EAGAIN, StoreLockedError, "another process writes this store"),
        (errno.EACCES, StoreLockedError, "another process writes this store"),
        (
            errno.ENOLCK,
            StoreAccessError,
            "lock: cannot be locked .*No locks available.*store; keep it on a file system with locks$",
        ),
    ],
)
def test_a_file_system_without_locks_is_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, error: type[Exception], words: str
) -> None:
    """NFS without its lock service: nobody is to be stopped, the place is wrong."""

    def refuse(*_: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(lock, "_lock_byte", refuse)
    with pytest.raises(error, match=words):
        StoreLock(str(tmp_path))
    monkeypatch.undo()
    StoreLock(str(tmp_path)).release()


@pytest.mark.parametrize("place", ["missing", "file", "file/below"])
def test_a_place_that_is_no_directory(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreAccessError, match="check the directory"):
        StoreLock(str(tmp_path / place))


def test_where_the_answer_cannot_be_had_a_store_is_not_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of another process's lock: on other systems, of a file that may not be read, where the call is refused."""
    (tmp_path / "lock").write_bytes(b"lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert is_live(str(tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr(os, "uname", lambda: type("Found", (), {"sysname": "Darwin"}))
            assert not is_live(str(tmp_path))

        def refused(*_: object, **__: object) -> int:
            raise PermissionError

        descriptors = len(os.listdir("/proc/self/fd"))
        for module, name in ((lock.fcntl, "fcntl"), (os, "open")):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, refused)
                assert is_live(str(tmp_path)) is False
        assert len(os.listdir("/proc/self/fd")) == descriptors
        holder.kill()


@contextmanager
def child_that_locks(path: Path, start: int, count: int) -> Iterator[bool]:
    """Another process that tries to lock these bytes (0: to the end), and goes on with them; gives whether it could."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(path, "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)
                os.write(tell, b"y")
                signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        yield os.read(told, 1) == b"y"
    finally:
        os.close(told)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_lock_is_that_of_byte_0_and_no_other(tmp_path: Path) -> None:
    """RocketMQ locks this byte; whoever locks others is nobody's concern."""
    held = StoreLock(str(tmp_path))
    with child_that_locks(tmp_path / "lock", 0, 1) as locked:
        assert not locked
    with child_that_locks(tmp_path / "lock", 1, 0) as locked:
        assert locked
    held.release()
    for start, count, live in ((0, 1, True), (1, 0, False)):
        with child_that_locks(tmp_path / "lock", start, count) as locked:
            assert locked and is_live(str(tmp_path)) is live


def test_a_link_to_the_lock_of_another_store_says_nothing_of_this_one(tmp_path: Path) -> None:
    other, this = tmp_path / "other", tmp_path / "this"
    for folder in (other, this):
        folder.mkdir()
    (this / "lock").symlink_to(other / "lock")
    held = StoreLock(str(other))
    assert is_live(str(other)) and not is_live(str(this))
    with pytest.raises(StoreAccessError, match="is a symbolic link"):  # and not that this process has it open
        StoreLock(str(this))
    held.release()
    with child_that_locks(other / "lock", 0, 1):
        assert is_live(str(other)) and not is_live(str(this))


def test_how_a_lock_s_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask: without following a link, and without waiting for a FIFO; to take: for all whom the umask lets."""
    before = os.umask(0)
    try:
        StoreLock(str(tmp_path)).release()
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666
    asked: list[int] = []

    def refused(path: str, flags: int) -> int:
        asked.append(flags)
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert not is_live(str(tmp_path))
    assert asked == [os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK]


def test_locks_whose_files_went_at_once_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_identity", lambda path: None)
    held = []
    for name in "ab":
        (tmp_path / name).mkdir()
        held.append(StoreLock(str(tmp_path / name)))
    for one in held:
        one.release()
    assert not any(one.held for one in held)


FOREIGN: dict[str, Callable[[Path], object]] = {  # what anybody in the holder's process may do with the files there
    "read": lambda path: path.read_bytes(),
    "written": lambda path: path.open("r+b").close(),
    "copied": lambda path: shutil.copytree(path.parent, path.parent.parent / "copy"),
    "asked": lambda path: is_live(str(path.parent)),
    "opened again": lambda path: _open_again(path),
    "inherited": lambda path: subprocess.run(["true"], close_fds=False, check=True),
    "forked": lambda path: os.waitpid(os.fork() or os._exit(0), 0),
    "locked and unlocked": lambda path: _lock_and_unlock(path),
    "hard link gone": lambda path: (os.link(path, path.parent / "other"), os.unlink(path.parent / "other")),
}


def _open_again(path: Path) -> None:
    with pytest.raises(StoreLockedError):
        StoreLock(str(path.parent))


def _lock_and_unlock(path: Path) -> None:
    """As a tool would that asks by trying."""
    with path.open("r+b") as file, pytest.raises(BlockingIOError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere any close of the file drops the lock")
@pytest.mark.parametrize("what", FOREIGN)
def test_nothing_that_others_in_this_process_do_with_the_file_drops_the_lock(what: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    held = StoreLock(str(root))
    FOREIGN[what](root / "lock")
    assert held.held and held.is_in_place() and is_live(str(root))
    with child_that_locks(root / "lock", 0, 1) as locked:  # as Java does
        assert not locked
    with pytest.raises(StoreLockedError):
        StoreLock(str(root))
    held.release()
    with child_that_locks(root / "lock", 0, 1) as locked:
        assert locked


GONE: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "replaced": lambda path: (path.with_name("new").write_bytes(b"lock"), path.with_name("new").replace(path)),
    "renamed": lambda path: path.rename(path.with_name("lock.old")),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_name("lock.old")), path.symlink_to("lock.old")),
    "store gone": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.parametrize("what", GONE)
def test_who_takes_the_lock_file_away_lets_no_second_one_in(what: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    held = StoreLock(str(root))
    GONE[what](root / "lock")
    assert held.held and not held.is_in_place()
    if root.exists():
        assert taken_by_another(root).startswith("refused")
    held.release()
    if what in ("removed", "replaced", "renamed"):
        assert taken_by_another(root) == "taken\n"


def test_only_who_says_that_the_file_is_gone_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = StoreLock(str(tmp_path))
    for number, stands in ((errno.EIO, True), (errno.EACCES, True), (errno.ENOENT, False), (errno.ENOTDIR, False)):

        def refused(*_: object, number: int = number, **__: object) -> os.stat_result:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", refused)
            with pytest.raises(OSError):
                held.is_in_place()  # a frame of other code: it is a signal handler's
            patch.setattr(lock, "of_system", lambda error: True)
            assert held.is_in_place() is stands, number
    held.release()


@pytest.mark.parametrize("refused", ["unknown to Python", "unknown to the kernel"])
def test_where_the_system_has_no_lock_of_an_open_file_a_posix_lock_is_taken(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_OFD", None if refused == "unknown to Python" else 9999)  # fcntl: EINVAL
    held = StoreLock(str(tmp_path))
    assert is_live(str(tmp_path)) and taken_by_another(tmp_path).startswith("refused True")
    with child_that_locks(tmp_path / "lock", 0, 1) as locked:
        assert not locked
    with child_that_locks(tmp_path / "lock", 1, 0) as locked:
        assert locked
    held.release()
    with child_that_locks(tmp_path / "lock", 0, 1) as locked:
        assert locked
        with pytest.raises(StoreLockedError, match="another process"):
            StoreLock(str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="is_live answers on Linux only")
def test_a_fork_s_child_knows_when_the_holder_goes_and_does_not_keep_the_lock(tmp_path: Path) -> None:
    """It has the open file too, and an open file's lock lasts as long as anybody has that."""
    ended, end = os.pipe()
    told, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        held = StoreLock(str(tmp_path))
        if os.fork() == 0:
            os.close(end)
            os.write(tell, b"%d" % is_live(str(tmp_path)))
            os.read(ended, 1)  # until the holder is gone and the test has looked
            os.write(tell, b"%d" % is_live(str(tmp_path)))
            os._exit(0)
        signal.pause()
        held.release()
    os.close(ended)
    try:
        assert os.read(told, 1) == b"1", "the child sees its parent's lock"
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        assert taken_by_another(tmp_path) == "taken\n", "though the child runs on"
    finally:
        os.close(end)
    assert os.read(told, 1) == b"0"
    os.close(told), os.close(tell)
