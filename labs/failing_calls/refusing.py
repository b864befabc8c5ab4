"""A kernel that refuses chosen system calls of a child: seccomp hands them to its parent, which answers for them.

    child:   send(socket, names)                   # before it begins what is watched
    parent:  watch = Watch(socket, pid)
             watch.run(decide)                     # decide(call) -> None: as always; Answer: instead

The child stands still inside a call until it is answered. A call that is not chosen costs nothing, nor does the start
of a tracer: that is what makes this cheaper than `strace -e inject`. It needs Linux 5.5 and no rights at all.
Source: seccomp_unotify(2), linux/seccomp.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from labs.torture.awake import Awake

# x86_64: class of calls -> {number: (which argument is a path or a descriptor, which one is the path's directory)}.
PATHS, FDS = "path", "fd"
CALLS: dict[str, dict[int, tuple[str, int, int | None]]] = {
    "fdatasync": {75: (FDS, 0, None)},
    "fsync": {74: (FDS, 0, None)},
    "syncfs": {306: (FDS, 0, None)},
    "fallocate": {285: (FDS, 0, None)},
    "pwrite": {18: (FDS, 0, None), 296: (FDS, 0, None)},
    "open": {2: (PATHS, 0, None), 257: (PATHS, 1, 0)},
    "ftruncate": {77: (FDS, 0, None)},
    "rename": {82: (PATHS, 1, None), 264: (PATHS, 3, 2), 316: (PATHS, 3, 2)},
    "link": {86: (PATHS, 1, None), 265: (PATHS, 3, 2)},
    "unlink": {87: (PATHS, 0, None), 263: (PATHS, 1, 0)},
    "mkdir": {83: (PATHS, 0, None), 258: (PATHS, 1, 0)},
    "mmap": {9: (FDS, 4, None)},
    "pread": {17: (FDS, 0, None), 295: (FDS, 0, None)},
    "fadvise": {221: (FDS, 0, None)},
    "madvise": {28: ("", 0, None)},
    "stat": {4: (PATHS, 0, None), 6: (PATHS, 0, None), 5: (FDS, 0, None), 262: (PATHS, 1, 0)},
    "getdents": {217: (FDS, 0, None)},
    "read": {0: (FDS, 0, None)},
    "write": {1: (FDS, 0, None)},
    "fcntl": {72: (FDS, 0, None)},
    "lseek": {8: (FDS, 0, None)},
    "statfs": {137: (PATHS, 0, None), 138: (FDS, 0, None)},
    "sync_file_range": {277: (FDS, 0, None)},
    "clone": {435: ("", 0, None)},
}
NAMES = {number: name for name, numbers in CALLS.items() for number in numbers}
MEMORY = "memory"  # of a call that concerns no file
NOT_YET = "new thread"  # one that has not come to Python yet

_SECCOMP, _SET_FILTER, _NEW_LISTENER, _NO_NEW_PRIVS, _SET_NAME = 317, 1, 1 << 3, 38, 15
_DIES_WITH_PARENT = 1
_RECV, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTICE, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_AT_FDCWD = -100


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


@dataclass(frozen=True)
class Call:
    """One call of the child, not yet made.

    Attributes:
        name: its class, a key of CALLS.
        thread: "main", or the name that Python gave the thread, cut to 15 letters, or NOT_YET.
        path: of the file that it concerns; MEMORY: of none.
        identity: the thread's number.
    """

    name: str
    thread: str
    path: str
    identity: int = 0


@dataclass(frozen=True)
class Answer:
    """What the child is told in place of its call: an errno, or a value; `kill`: it dies there."""

    error: int = 0
    value: int = 0
    kill: bool = False


@cache
def why_not() -> str:
    """Why calls cannot be refused here, or nothing."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"refusing system calls by seccomp is written for Linux on x86_64, not {platform.machine()}"
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):  # a forked copy of the tests must end here, whatever happens
            send(theirs, ["rename"])
            os.rename("/nowhere", "/nowhere")
        os._exit(0)
    theirs.close()
    seen: list[str] = []
    with ours:
        try:
            Watch(ours, child).run(lambda call: seen.append(call.name))
        except OSError as error:
            return f"seccomp does not hand calls to a parent here: {error}"
        finally:
            os.waitpid(child, 0)
    return "" if seen == ["rename"] else "seccomp does not hand calls to a parent here"


def send(channel: socket.socket, names: Iterable[str]) -> None:
    """In the child: from now on, calls of these classes wait for the parent at the other end.

    Its threads get their Python names, by which the parent knows them.

    Raises:
        OSError: the kernel does not do that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    run = threading.Thread.run

    def named(self: threading.Thread) -> None:
        libc.prctl(_SET_NAME, self.name.encode()[:15], 0, 0, 0)
        run(self)

    threading.Thread.run = named  # type: ignore[method-assign]
    numbers = [number for name in names for number in CALLS[name]]
    code = [(_LOAD, 0, 0, 0)]
    code += [(_EQUAL, len(numbers) - n, 0, number) for n, number in enumerate(numbers)]
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY)]
    data = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
    program = _Program(len(code), ctypes.cast(data, ctypes.c_void_p))
    libc.prctl(_DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)  # whom nobody answers would stand still for ever
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    socket.send_fds(channel, [b"x"], [listener])
    os.close(listener)
    channel.close()


class Watch:
    """The parent's end: every chosen call of one child comes by here.

    Attributes:
        asks: False: from now on every call is made as always, and nobody is asked.

    Raises:
        OSError: the child ended before it could be watched.
    """

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self.pid = pid
        _, fds, _, _ = socket.recv_fds(channel, 1, 1)
        if not fds:
            raise OSError("the child ended before it could be watched")
        self.listener, self.asks = fds[0], True
        self._names: dict[int, str] = {pid: "main"}

    def run(self, decide: Callable[[Call], Answer | None], limit_s: float = 60) -> bool:
        """Answer until the child has ended; False: it had not, after so much time.

        Time in which this process itself stood still (a machine that sleeps, a job that was stopped) does not count.
        """
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            ended = os.pidfd_open(self.pid)
            poll = select.poll()
            poll.register(self.listener, select.POLLIN)
            poll.register(ended, select.POLLIN)
            spent = Awake(0.2)
            try:
                while spent() < limit_s:
                    events = dict(poll.poll(100))
                    if events.get(self.listener, 0) & select.POLLIN:
                        self._one(memory.fileno(), decide)
                    elif events:
                        return True
                return False
            finally:
                os.close(ended)
                os.close(self.listener)

    def _one(self, memory: int, decide: Callable[[Call], Answer | None]) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self.listener, _RECV, notice)
        except FileNotFoundError:  # the thread was killed meanwhile
            return
        identity, thread, _, number, _, _, *words = _NOTICE.unpack(notice)
        answer = None
        if self.asks:
            answer = decide(Call(NAMES[number], self._name(thread), self._path(memory, number, words), thread))
        if answer is not None and answer.kill:
            os.kill(self.pid, signal.SIGKILL)
            return
        told = (0, 0, _CONTINUE) if answer is None else (answer.value, -answer.error, 0)
        with suppress(FileNotFoundError):  # the thread was killed before it was answered
            fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(identity, *told))

    def _name(self, thread: int) -> str:
        known = self._names.get(thread)
        if known is None:
            try:
                with open(f"/proc/{self.pid}/task/{thread}/comm") as file:
                    known = file.read().strip()
            except (FileNotFoundError, ProcessLookupError):  # the thread has ended; nobody waits for an answer
                return NOT_YET
            if known == _own_name():
                return NOT_YET
            self._names[thread] = known
        return known

    def _path(self, memory: int, number: int, words: list[int]) -> str:
        kind, at, folder = CALLS[NAMES[number]][number]
        if not kind:
            return MEMORY
        if kind == FDS:
            return self._link(words[at])
        raw = b""
        while b"\0" not in raw and len(raw) < 4096:
            place = words[at] + len(raw)
            raw += os.pread(memory, min(256, 4096 - place % 4096), place)
        path = os.fsdecode(raw.partition(b"\0")[0])
        if folder is None or _signed(words[folder]) == _AT_FDCWD:
            return path
        return os.path.join(self._link(words[folder]), path)

    def _link(self, fd: int) -> str:
        if _signed(fd) < 0:
            return MEMORY
        try:
            return os.readlink(f"/proc/{self.pid}/fd/{_signed(fd)}")
        except OSError:
            return MEMORY


def _signed(word: int) -> int:
    return ctypes.c_int(word & 0xFFFFFFFF).value


@cache
def _own_name() -> str:
    with open("/proc/self/comm") as file:
        return file.read().strip()
