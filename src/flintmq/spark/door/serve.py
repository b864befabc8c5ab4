"""Plans and scans for the source in the JVM: the Python process of one driver or executor.

    python -m flintmq.spark.door.serve

Its parent writes a token to the standard input and gets the path of a Unix socket back, in a directory that only this
user may enter; empty lines before it say that the process lives. It ends when its standard input does: with the JVM,
however that ends. Each connection is served by a process of its own, forked with everything imported; it ends when the
other side hangs up. A plan has one for itself; tasks, one after the other, share one.

A killed process cannot remove its directory. It held the lock of it, as its forks do, as long as they live: the next
process that starts removes directories that nobody holds.
"""

from __future__ import annotations

import fcntl
import gc
import os
import selectors
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from flintmq.errors import UsageError
from flintmq.spark.versions import check_spark

NAME = "flintmq-door-"  # how the directories of sockets begin
WORD = "flintmq-door "  # PythonSide.java waits for it
BEAT = 1.0  # seconds
PRIVATE = 0o700  # mode that mkdtemp gives a directory


def main() -> None:
    """Serve until the standard input ends."""
    token = sys.stdin.readline().strip()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    _import_all(answers)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then cancels its queries
    _remove_left_ones()
    folder = _own_folder()
    try:
        with socket.socket(socket.AF_UNIX) as door:
            path = folder / "door"
            door.bind(str(path))
            door.listen(64)
            print(f"{WORD}{path}", file=answers)
            _serve(door, token)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(door: socket.socket, token: str) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(door, selectors.EVENT_READ)
        while sys.stdin not in {key.fileobj for key, _ in selector.select()}:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()  # nobody shall connect to a fork whose parent has ended
                _serve_and_exit(line, token)
            line.close()


def _serve_and_exit(line: socket.socket, token: str) -> None:
    """Serve a connection as a forked process, which ends here."""
    from flintmq.spark.door.answers import serve_connection

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        serve_connection(line, token)
        code = 0
    except (BrokenPipeError, ConnectionResetError):  # the other side wants no more
        code = 0
    except Exception:
        traceback.print_exc()  # the other side sees that the line ends
    finally:
        sys.stderr.flush()
        os._exit(code)


def _import_all(answers: object) -> None:
    """Import what each request needs, once; that takes seconds on a busy machine."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT):
            print(file=answers)  # type: ignore[call-overload]

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        check_spark()
        import flintmq.spark.door.answers  # noqa: F401
    except UsageError as error:
        sys.exit(str(error))
    finally:
        done.set()
        beating.join()  # a fork has one thread
    gc.collect()
    gc.freeze()


def _own_folder() -> Path:
    """Make the directory of the socket, of mode 0700, and take its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=NAME))
        handle = _locked(folder)
        if handle is not None and folder.is_dir():  # else another one took it for a left one, and removed it
            return folder


def _remove_left_ones() -> None:
    """Remove the directories that nobody holds, each with its socket, if it has one.

    Somebody else may have a directory of such a name: one with anything but our socket stays as it is, and so does an
    empty one that others may enter.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}*"):
        handle = _locked(folder)
        if handle is None:
            continue
        with suppress(OSError):
            if [path.name for path in folder.iterdir() if path.is_socket()] == os.listdir(folder) == ["door"]:
                (folder / "door").unlink()
                folder.rmdir()
            elif stat.S_IMODE(folder.stat().st_mode) == PRIVATE:
                folder.rmdir()  # if it is empty
        os.close(handle)


def _locked(folder: Path) -> int | None:
    """Take the lock of a directory; return its descriptor, or None where somebody else has it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


if __name__ == "__main__":
    main()
