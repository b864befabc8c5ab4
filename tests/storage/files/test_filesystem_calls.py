"""The real disk's door: what is asked of the system and with which flags, and what is done where it lacks a call."""

import errno
import mmap
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from flintmq.errors import StoreAccessError
from flintmq.storage.files import filesystem, libc_memory
from flintmq.storage.files.filesystem import REAL
from tests.support.own_time import own_time

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
OPENED: dict[str, tuple[Callable[[str], Any], list[int]]] = {
    "open_read": (REAL.open_read, [os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW]),
    "open_write": (REAL.open_write, [os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW]),
    "create": (lambda path: REAL.create(path, 1), [os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, NEW]),
    "create, empty": (lambda path: REAL.create(path, 0), [NEW]),
    "sync_dir": (REAL.sync_dir, [os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC]),
}


@pytest.mark.parametrize("name", OPENED)
def test_how_files_are_opened(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Not for a child process; and no symbolic link, so that nobody is led out of the store."""
    call, flags = OPENED[name]
    asked: list[int] = []

    def refused(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        asked.append(flags)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with pytest.raises(FileNotFoundError):
            call("x")
    assert asked == flags


def test_new_files_may_be_read_and_written_as_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        REAL.close(REAL.create(str(tmp_path / "a"), 1))
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666


def test_a_file_that_cannot_get_its_size_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "ftruncate", full)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space left"):
        REAL.create(str(tmp_path / "a"), 10)
    assert os.listdir(tmp_path) == [] and len(os.listdir("/proc/self/fd")) == descriptors


def test_a_symbolic_link_is_not_the_file_that_it_leads_to(tmp_path: Path) -> None:
    fd = REAL.create(str(tmp_path / "file"), 10)
    os.utime(tmp_path / "file", ns=(0, 1_000_000_000))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    os.utime(link, ns=(0, 2_000_000_000), follow_symlinks=False)
    assert REAL.size(str(link)) is None and REAL.modified_ms(str(link)) == 2000
    assert not REAL.is_named(fd, str(link))
    REAL.close(fd)


def test_a_folder_may_be_there_already(tmp_path: Path) -> None:
    for _ in range(2):
        REAL.mkdirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_read_is_one_call_and_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    pread, preadv, calls = os.pread, os.preadv, list[str]()
    monkeypatch.setattr(os, "pread", lambda *of: calls.append("pread") or pread(*of))
    monkeypatch.setattr(os, "preadv", lambda *of: calls.append("preadv") or preadv(*of))
    buffer = bytearray(20)
    with REAL.reading(str(tmp_path / "file")) as fd:
        assert REAL.pread_into(fd, memoryview(buffer), 30) == 20 and buffer == bytes(range(30, 50))
        assert REAL.pread(fd, 20, 30) == bytes(range(30, 50))
        assert REAL.pread(fd, 20, 100) == b""
    assert calls == ["preadv", "pread", "pread"]


def test_what_the_kernel_tells_is_ascii_whatever_this_process_speaks(tmp_path: Path) -> None:
    """A mount point in /proc/mounts may have any bytes."""
    (tmp_path / "mounts").write_bytes("/é\n".encode())
    assert REAL.read_proc(str(tmp_path / "mounts")) == "/\ufffd\ufffd\n"


@pytest.mark.parametrize(("kind", "number"), [("ext4", "77"), ("xfs", "77"), ("f2fs", "77"), ("btrfs", "")])
def test_a_mounting_is_known_by_its_directory_in_sys(monkeypatch: pytest.MonkeyPatch, kind: str, number: str) -> None:
    paths = {"/store": {"st_dev": os.makedev(8, 5)}, f"/sys/fs/{kind}/sda5": {"st_ino": 77}}

    def stat(path: str) -> object:
        if path not in paths:
            raise FileNotFoundError(path)
        return type("Found", (), paths[path])

    links = {"/sys/dev/block/8:5": "../../devices/pci/sda/sda5"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        patch.setattr(os, "readlink", lambda path: links[path])
        found = REAL.mounting("/store"), REAL.mounting("/none")
    assert found == (number, "")


def test_blocks_are_reserved_where_the_system_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = REAL.create(str(tmp_path / "a"), 1 << 20)
    with monkeypatch.context() as patch:
        patch.delattr(os, "posix_fallocate")
        REAL.allocate(fd, 0, 1 << 16)
        assert os.fstat(fd).st_blocks == 0, "sparse stays sparse"
    REAL.allocate(fd, 0, 1 << 16)
    assert os.fstat(fd).st_blocks * 512 >= 1 << 16
    REAL.close(fd)


def test_the_cache_is_dropped_where_the_system_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *of: asked.append(of))
    REAL.drop_cache(7, 4096, 8192)
    monkeypatch.delattr(os, "posix_fadvise")
    REAL.drop_cache(7, 4096, 8192)
    assert asked == [(7, 4096, 8192, os.POSIX_FADV_DONTNEED)]


MAP = mmap.mmap(-1, 8192)
ADVICE: list[tuple[Callable[[], object], str, tuple[object, ...], dict[str, object]]] = [
    (lambda: REAL.populate(MAP, 4096, 100), "advise", (MAP, 4096, 100, libc_memory.MADV_POPULATE_WRITE), {}),
    (lambda: REAL.advise_random(MAP), "advise", (MAP, 0, 8192, libc_memory.MADV_RANDOM), {}),
    (lambda: REAL.advise_needed(MAP), "advise", (MAP, 0, 8192, libc_memory.MADV_WILLNEED), {}),
    (lambda: REAL.advise_huge(MAP), "advise", (MAP, 0, 8192, libc_memory.MADV_HUGEPAGE), {}),
    (lambda: REAL.lock_memory(MAP), "lock", (MAP,), {"on_fault": False}),
    (lambda: REAL.lock_memory(MAP, on_fault=True), "lock", (MAP,), {"on_fault": True}),
    (lambda: REAL.unlock_memory(MAP), "unlock", (MAP,), {}),
    (lambda: REAL.map_ring(8192), "map_twice", (8192,), {}),
]


@pytest.mark.parametrize(("call", "name", "rest", "more"), ADVICE)
def test_what_is_asked_of_the_kernel_about_a_map(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], object],
    name: str,
    rest: tuple[object, ...],
    more: dict[str, object],
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(libc_memory, name, lambda *rest, **more: asked.append((rest, more)))
    call()
    assert asked == [(rest, more)]


def test_memory_of_no_file_is_this_process_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with REAL.map_anonymous(8192) as map_:
        assert map_[:] == bytes(8192)
        map_[8191] = 1
    asked: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", lambda *rest, **more: asked.append((rest, more)))
        REAL.map_anonymous(8192)
    assert asked == [((-1, 8192), {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS})]


def test_the_lock_is_that_of_the_store(tmp_path: Path) -> None:
    lock = REAL.lock_store(str(tmp_path))
    assert lock.held and (tmp_path / "lock").exists()
    lock.release()


def test_the_lock_that_this_process_holds_is_not_opened_again(tmp_path: Path) -> None:
    """On some systems a close of that file would drop the lock. Another file, or a free lock, is opened as any."""
    held = REAL.lock_store(str(tmp_path))
    (tmp_path / "linked").hardlink_to(tmp_path / "lock")
    (tmp_path / "below").mkdir()
    for path in (tmp_path / "linked", tmp_path / "below" / "lock"):
        path.touch()
        REAL.close(REAL.open_read(str(path)))
    with pytest.raises(StoreAccessError) as refused:
        REAL.open_read(str(tmp_path / "lock"))
    words = "this process writes the store and has this file open; it is not opened twice"
    assert str(refused.value) == f"{tmp_path}/lock: {words}"
    held.release()
    REAL.close(REAL.open_read(str(tmp_path / "lock")))


def test_the_own_address_is_that_of_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found without a packet: a datagram socket is connected to an address of no machine (RFC 5737)."""
    asked: list[object] = []

    class Way:
        def __init__(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> None:
            asked.append((family, kind))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            asked.append("closed")

        def connect(self, address: tuple[str, int]) -> None:
            asked.append(address[0])

        def getsockname(self) -> tuple[str, int]:
            return "10.1.2.3", 5000

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", Way)
        assert REAL.own_address() == b"\x0a\x01\x02\x03"
        assert asked == [(socket.AF_INET, socket.SOCK_DGRAM), "192.0.2.1", "closed"]

        def unreachable(*_: object) -> None:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

        patch.setattr(Way, "connect", unreachable)
        first, second = REAL.own_address(), REAL.own_address()
    assert (len(first), len(second)) == (4, 4) and first != second, "random, as without a network"
    assert len(REAL.random_bytes(12)) == 12


def test_the_wall_clock_is_in_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    own_time(monkeypatch, filesystem, time_ns=lambda: 1_700_000_000_123_999_999)
    assert REAL.now_ms() == 1_700_000_000_123


# -- new files: the name appears with the size; where that cannot be, it comes first; no failure leaves a name --------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=["guarded", "open to links"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory in which files are made, in a store that is guarded and in one that is not."""
    (tmp_path / "commitlog").mkdir()
    if request.param == "guarded":
        REAL.guard(str(tmp_path))
    yield tmp_path / "commitlog"
    REAL.unguard(str(tmp_path))


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: str, when: Any) -> list[int]:
    """Let a function of `os` fail where `when` says so of its arguments; return a list that grows with each failure."""
    real, struck = getattr(os, name), list[int]()

    def call(*of: Any, **more: Any) -> Any:
        if when(*of):
            struck.append(1)
            raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
        return real(*of, **more)

    monkeypatch.setattr(os, name, call)
    return struck


def always(*_: Any) -> bool:
    return True


def unnamed(path: str, flags: int, *_: Any) -> bool:
    return flags & os.O_TMPFILE == os.O_TMPFILE


def test_whoever_lists_the_directory_meets_no_empty_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no call on the way is there a name without the size: a kill there would leave it so."""
    try:
        os.close(os.open(place, os.O_RDWR | os.O_TMPFILE))
    except OSError as error:
        pytest.skip(f"the file system of {place} has no unnamed files: {error.strerror}")
    seen: list[list[int]] = []
    for name in ("open", "ftruncate", "link", "close"):
        real = getattr(os, name)

        def call(*of: Any, real: Any = real, **more: Any) -> Any:
            seen.append([path.stat().st_size for path in place.iterdir()])
            return real(*of, **more)

        monkeypatch.setattr(os, name, call)
    fd = REAL.create(str(place / "a"), 4096)
    assert [4096] in seen and [] in seen and all(sizes in ([], [4096]) for sizes in seen)
    monkeypatch.undo()
    assert os.fstat(fd).st_size == 4096 and os.readlink(f"/proc/self/fd/{fd}") == str(place / "a"), "not (deleted)"
    os.pwrite(fd, b"x", 4095)
    os.close(fd)
    assert (place / "a").read_bytes() == bytes(4095) + b"x" and (place / "a").stat().st_nlink == 1


@pytest.mark.parametrize("error", ["EOPNOTSUPP", "EISDIR", "ENOENT", "ELOOP", "ENOSYS", "EPERM", "EMFILE", "EIO"])
@pytest.mark.parametrize("name", ["open", "link"])
def test_a_system_without_unnamed_files_gets_the_name_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    before, struck = descriptors(), failing(monkeypatch, name, error, unnamed if name == "open" else always)
    fd = REAL.create(str(place / "a"), 4096)
    assert struck == [1] and os.fstat(fd).st_size == 4096 and REAL.is_named(fd, str(place / "a"))
    os.close(fd)
    assert descriptors() == before


def test_a_system_that_never_heard_of_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    fd = REAL.create(str(place / "a"), 4096)
    assert os.fstat(fd).st_size == 4096
    os.close(fd)


def test_a_kernel_that_forgets_the_umask(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux before 6.0 does so for unnamed files where a file system has no access lists."""
    real = os.open

    def forgetful(path: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        fd = real(path, flags, mode, **more)
        if unnamed(path, flags):
            os.fchmod(fd, mode)
        return fd

    monkeypatch.setattr(os, "open", forgetful)
    before = os.umask(0o027)
    try:
        os.close(REAL.create(str(place / "a"), 4096))
    finally:
        os.umask(before)
    assert (place / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["open", "ftruncate"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE", "EROFS"])
def test_no_failure_leaves_a_name_or_a_descriptor(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str
) -> None:
    before = descriptors()
    made = unnamed if name == "open" else always
    struck = failing(monkeypatch, name, error, lambda *of: made(*of) or (name == "open" and of[1] & os.O_CREAT))
    with pytest.raises(OSError) as told:
        REAL.create(str(place / "a"), 4096)
    monkeypatch.undo()
    assert told.value.errno == getattr(errno, error)
    assert struck == [1, 1] and os.listdir(place) == [] and descriptors() == before


@pytest.mark.parametrize("what", ["it cannot be opened", "it is gone", "another has it", "a link has it"])
def test_a_name_that_is_not_the_files_any_more(place: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Whatever happens to the name, the descriptor is that of the new file, and the name stays as it is."""
    (place.parent / "other").write_bytes(b"of somebody else")
    before, link = descriptors(), os.link

    def linked(*of: Any, **more: Any) -> None:
        link(*of, **more)
        if what in ("it is gone", "a link has it"):
            (place / "a").unlink()
        if what == "another has it":
            os.replace(place.parent / "other", place / "a")
        elif what == "a link has it":
            (place / "a").symlink_to(place.parent / "other")

    monkeypatch.setattr(os, "link", linked)
    if what == "it cannot be opened":
        failing(monkeypatch, "open", "EMFILE", lambda path, *_: os.path.basename(path) == "a")
    fd = REAL.create(str(place / "a"), 4096)
    monkeypatch.undo()
    assert os.fstat(fd).st_size == 4096 and os.pread(fd, 5, 0) == bytes(5)
    assert REAL.is_named(fd, str(place / "a")) is (what == "it cannot be opened")
    assert what not in ("another has it", "a link has it") or (place / "a").read_bytes() == b"of somebody else"
    os.close(fd)
    assert descriptors() == before


@pytest.mark.parametrize("what", ["file", "link", "directory"])
def test_what_has_the_name_stays(place: Path, what: str) -> None:
    other = place / "a"
    if what == "file":
        other.write_bytes(b"mine")
    elif what == "link":
        other.symlink_to(place / "nothing")
    else:
        other.mkdir()
    before = descriptors()
    with pytest.raises(FileExistsError) as told:
        REAL.create(str(other), 4096)
    assert told.value.filename == str(other) and os.listdir(place) == ["a"] and descriptors() == before
    assert what != "file" or other.read_bytes() == b"mine"


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        REAL.create(str(tmp_path / "nowhere" / "a"), 4096)


def test_a_name_of_this_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.close(REAL.create("a", 10))
    assert (tmp_path / "a").stat().st_size == 10
