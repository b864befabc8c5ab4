"""Effects: every call to files, clock and randomness.

Code above this layer calls these methods and no function of `os` that touches a disk, so that a simulated disk can
replace the real one. The real one is thin: each method is one system call or a few.

A reader must harm no other process. So files are opened read-only, without following a symbolic link at the last step,
without blocking on a FIFO, and only if they are regular files.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat as stat_module
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Literal, NamedTuple, NoReturn

from flintmq.errors import StoreAccessError
from flintmq.kernels import only_file
from flintmq.kernels.read import walk
from flintmq.storage.files import libc_memory, lock
from flintmq.storage.files.lock import StoreLock
from flintmq.storage.files.system_error import of_system

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE = 0o666  # of new files, as the umask allows
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY

_WHOLE_DISK = (5, 17)  # Linux from which on a sync of a whole ext4 tells all errors: `open_disk`
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # errors of an open that may pass
_guarded: list[str] = []  # roots of stores that this process writes; changed by single calls, so it needs no lock


class _Entered(threading.local):
    """Directories of a thread that `Effects.entered` keeps open."""

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}  # path -> descriptor, inner ones last


_entered = _Entered()


class DirectoryEntry(NamedTuple):
    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0  # bytes of a file; a sparse file counts in full
    on_disk: int | None = None  # bytes that the disk has allocated for a file; None if it is not known

    @classmethod
    def of(cls, entry: os.DirEntry[str]) -> DirectoryEntry:
        """Make one of what the system says of a name. A folder needs no call of the system."""
        if entry.is_symlink():
            return cls(entry.name, "link")
        if entry.is_dir(follow_symlinks=False):
            return cls(entry.name, "folder")
        if not entry.is_file(follow_symlinks=False):
            return cls(entry.name, "other")
        status = entry.stat(follow_symlinks=False)
        return cls(entry.name, "file", status.st_size, status.st_blocks * 512)


def _base(path: str) -> str | None:
    """Return the direct sub-directory of a guarded root that contains a path, or None."""
    root = ""
    for one in tuple(_guarded):
        if path.startswith(one) and len(one) > len(root) and path[len(one) : len(one) + 1] == os.sep:
            root = one
    end = path.find(os.sep, len(root) + 1) if root else -1
    return path[:end] if end >= 0 else None


class _Folder:
    """Opens a directory from `below` without following a symbolic link, for a `with` block."""

    __slots__ = ("_below", "_fd", "_kept", "_path")

    def __init__(self, path: str, below: str) -> None:
        self._path, self._below = path, below
        self._fd = self._kept = -1

    def __enter__(self) -> int:
        path, below, folders = self._path, self._below, _entered.folders
        assert path == below or path.startswith(below + os.sep), f"{path} is not below {below}"
        self._fd = self._kept = folders.get(path, -1)
        if self._fd >= 0:
            return self._fd
        for outer in reversed(folders):
            if len(outer) >= len(below) and path.startswith(outer + os.sep):
                below, self._fd = outer, folders[outer]
                self._kept = self._fd
                break
        try:
            if self._fd < 0:
                self._fd = os.open(below, _FOLDER)
            for name in filter(None, path[len(below) :].split(os.sep)):
                parent, self._fd = self._fd, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._fd)
                if parent != self._kept:
                    os.close(parent)
        except BaseException:
            self.__exit__()
            raise
        return self._fd

    def __exit__(self, *_: object) -> None:
        if self._fd not in (self._kept, -1):
            os.close(self._fd)
        self._fd = self._kept = -1


@contextmanager
def _entering(path: str, below: str) -> Iterator[None]:
    with ExitStack() as stack:
        if path not in _entered.folders:
            with suppress(OSError):
                _entered.folders[path] = stack.enter_context(_Folder(path, below))
                stack.callback(_entered.folders.pop, path)
        yield


def _listed(path: str, below: str | None) -> AbstractContextManager[str | int]:
    """Give a directory to be listed: by its path, or opened from `below` (Effects.open_read)."""
    below = _base(path) if below is None and _guarded else below
    return nullcontext(path) if below is None else _Folder(path, below)


def _not_listed(path: str, error: OSError) -> list[Any]:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return []
    raise StoreAccessError(f"{path}: {error.strerror}; check its permissions") from error


def _refuse(path: str, error: OSError) -> NoReturn:
    """Raise the error for a path of a guarded store, or a signal handler's own as it is."""
    if not of_system(error):
        raise error
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        passes = error.errno in PASSING
        raise (NotOpened if passes else OSError)(error.errno, error.strerror, path) from error
    raise StoreAccessError(
        f"{path}: it, or a directory on the way to it, is a symbolic link or of the wrong kind; FlintMQ writes only to "
        "what a store holds itself: put the data there, or name the place by a storePath key"
    ) from error


@contextmanager
def _at(path: str) -> Iterator[tuple[str, int | None]]:
    """Give a path to a `with` block: in a guarded store its last step and its open directory.

    Raises:
        StoreAccessError: it is reached through a symbolic link in a guarded store.
        OSError: its directory cannot be opened.
    """
    base = _base(path)
    if base is None:
        yield path, None
        return
    try:
        folder = _Folder(os.path.dirname(path), base)
        fd = folder.__enter__()
    except OSError as error:
        _refuse(path, error)
    try:
        yield os.path.basename(path), fd
    except OSError as error:  # the system names only the last step
        _refuse(path, error)
    finally:
        folder.__exit__()


def _create(path: str, size: int, folder: int | None) -> int:
    """Create a file of zeros, open for reading and writing; its name appears with its size.

    A file that gets its name first and its size then may be met empty: by another process, or by the next start after a
    kill in between, and is then taken for a damaged log by whoever reads along. Where the file system has unnamed files
    (O_TMPFILE), the name comes last. Elsewhere it comes first, as in RocketMQ, and recovery takes an empty last file
    for none.

    `path` is a name in `folder`, its open directory, if that is given. Raises OSError: it cannot be made; no file
    remains.
    """
    if size and hasattr(os, "O_TMPFILE"):
        with suppress(OSError):  # whatever the reason is, below it shows again, of the call that people know
            return _named_last(path, size, folder)
    fd = os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, _MODE, dir_fd=folder)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        os.unlink(path, dir_fd=folder)
        raise
    return fd


def _named_last(path: str, size: int, folder: int | None) -> int:
    """Create the file without a name, and name it when it is whole.

    Raises OSError: it cannot be made so; it has no name.
    """
    fd = os.open(os.path.dirname(path) or ".", os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, _MODE, dir_fd=folder)
    try:
        if os.fstat(fd).st_mode & _MODE == _MODE:  # Linux before 6.0 may forget the umask here
            raise PermissionError(path)
        os.ftruncate(fd, size)
        # Some directory must be given, else Python calls link(2), which does not follow /proc's link to the file.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        os.close(fd)
        raise
    return _by_name(fd, path, folder)


def _by_name(fd: int, path: str, folder: int | None) -> int:
    """Return the file opened by its name: lsof would call that of the first descriptor deleted.

    Where that fails, or another program gave the name to another file, it is the first descriptor.
    """
    try:
        named = os.open(path, _WRITE, dir_fd=folder)
    except OSError:
        return fd
    fd, spare = (named, fd) if os.path.sameopenfile(fd, named) else (fd, named)
    with suppress(OSError):  # nothing was written by it
        os.close(spare)
    return fd


def _folder_of_mount(path: str, kind: str) -> str:
    """Return the directory in /sys of the mount of a path, if its kind is this one.

    Raises OSError: the path is not there, or on no block device.
    """
    device = os.stat(path).st_dev
    name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    return f"/sys/fs/{kind}/{name}"


def _tells_all_errors() -> bool:
    """Return whether syncfs is as sure here as a sync of each file: see `open_disk`."""
    release = os.uname()
    return release.sysname == "Linux" and tuple(map(int, re.findall(r"\d+", release.release)[:2])) >= _WHOLE_DISK


class NotOpened(OSError):
    """A file could not be opened for lack of descriptors or memory.

    Nothing was done with it, so no sync failed.
    """


def not_opened(error: OSError) -> OSError:
    """Return the error of an open as NotOpened if a later open may succeed, else unchanged."""
    return NotOpened(error.errno, error.strerror, error.filename) if error.errno in PASSING else error


class Effects:
    """The real disk.

    Methods raise StoreAccessError for a refusal on purpose, OSError for an error of the system.

    Thread: all methods may be called from any thread; positions are always explicit.
    """

    @property
    def watches(self) -> bool:
        """True if every store into a map and every look at the clock must be reported here.

        False for the real disk: there a put may do both within one kernel call.
        """
        return type(self) is not Effects

    holds_lock = False  # whether its user holds the store's lock, so that no other process writes the store

    @property
    def remote(self) -> bool:
        """True if each read is a request to a server, so that planning must avoid reads."""
        return False

    # -- reading ------------------------------------------------------------------------------------------------

    def open_read(self, path: str, below: str | None = None) -> int:
        """Open a file for reading.

        `below`: a directory that path begins with; no step after it may be a symbolic link. None: only the last may
        not.

        Raises:
            FileNotFoundError: there is no such file.
            StoreAccessError: it is a symbolic link, a FIFO, a device or a directory, or it may not be read.
        """
        below = _base(path) if below is None and _guarded else below
        if path.endswith("/lock") and lock.holds(path):
            raise StoreAccessError(
                f"{path}: this process writes the store and has this file open; it is not opened twice"
            )
        try:
            if below is None:
                fd = os.open(path, _READ)
            else:
                folder, _, name = path.rpartition(os.sep)
                with _Folder(folder, below) as parent:
                    fd = os.open(name, _READ, dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            if not of_system(error):
                raise
            what = "is a symbolic link, which a store does not hold" if error.errno == errno.ELOOP else error.strerror
            raise StoreAccessError(f"{path}: {what}; check the file's kind and permissions") from error
        if not stat_module.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise StoreAccessError(f"{path}: not a regular file; move it out of the store")
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    @contextmanager
    def reading(self, path: str, below: str | None = None) -> Iterator[int]:
        fd = self.open_read(path, below)
        try:
            yield fd
        finally:
            self.close(fd)

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        """List the names in a directory, sorted; empty if it is missing.

        A directory may disappear while a reader works.

        With `below` (see open_read) a directory that is, or is reached through, a symbolic link counts as missing.
        """
        try:
            with _listed(path, below) as folder:
                return sorted(os.listdir(folder))
        except OSError as error:
            return _not_listed(path, error)

    def entries(self, path: str, below: str | None = None) -> list[DirectoryEntry]:
        """List a directory as `listdir` does, with the kind and size of each name."""
        found = []
        try:
            with _listed(path, below) as folder, os.scandir(folder) as names:
                for name in sorted(names, key=lambda entry: entry.name):
                    with suppress(FileNotFoundError):  # it vanished meanwhile
                        found.append(DirectoryEntry.of(name))
        except OSError as error:
            return _not_listed(path, error)
        return found

    def entered(self, path: str, below: str) -> AbstractContextManager[None]:
        """Keep a directory open for the length of a `with` block.

        Paths inside it that this thread opens, makes or lists are then reached from there, not step by step from
        `below` (see open_read) each time. No link is followed on the way to it. A directory that is missing or cannot
        be reached is not kept, and each call reports that as usual.
        """
        return _entering(path, below)

    def regular_files(self, path: str, below: str) -> list[tuple[str, int]]:
        """List the regular files in a directory, sorted, with their sizes.

        `path`: the directory; if it is, or is reached through, a symbolic link, it counts as missing.
        """
        return [(one.name, one.size) for one in self.entries(path, below) if one.kind == "file"]

    def only_file(self, path: str, below: str, count: int) -> tuple[list[tuple[str, int]], bytes | None]:
        """List a directory as `regular_files` does, and read the file that is alone in it.

        Returns:
            The files; and the first `count` bytes of the only one if it has so many and the disk knows of no data
            after them, else None.
        """
        found = None
        if path != below:
            parent, _, name = path.rpartition(os.sep)
            with suppress(OSError), _Folder(parent, below) as folder:  # the next call meets an error again
                found = only_file.only_file(folder, os.fsencode(name), count)
        if found is None:
            return self.regular_files(path, below), None
        name_found, size, data = found
        return [(os.fsdecode(name_found), size)], data if len(data) == count else None

    def size(self, path: str) -> int | None:
        """Return the size of a regular file; None if there is none by this name."""
        try:
            found = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat_module.S_ISREG(found.st_mode) else None

    def is_dir(self, path: str) -> bool:
        """Return whether there is a directory (a symbolic link to one counts)."""
        return os.path.isdir(path)

    def modified_ms(self, path: str) -> int | None:
        """Return when a file was last written, Unix milliseconds; None if there is none."""
        try:
            return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def disk_used(self, path: str) -> int:
        """Return the used percentage of the file system below a path, rounded up.

        It is a percentage of the space that users other than root may use. Upstream:
        UtilAll.getDiskPartitionSpaceUsedPercent.
        """
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree
        return -(-100 * used // max(used + found.f_bavail, 1))

    def disk_used_bytes(self, path: str) -> int:
        """Return the bytes in use on the file system below a path.

        Upstream: File.getTotalSpace - getFreeSpace.
        """
        found = os.statvfs(path)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def size_of(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill a buffer from a file position; return the number of bytes, less only at the end."""
        done = 0
        while done < len(buffer):
            got = (
                os.preadv(fd, [buffer[done:]], position + done)
                if hasattr(os, "preadv")
                else self._pread(fd, buffer[done:], position + done)
            )
            if not got:
                break
            done += got
        return done

    @staticmethod
    def _pread(fd: int, buffer: memoryview, position: int) -> int:
        data = os.pread(fd, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Read up to count bytes from a file position; fewer only at the end of the file."""
        data = os.pread(fd, count, position)
        if len(data) == count or not data:
            return data
        buffer = bytearray(count)
        return bytes(buffer[: self.pread_into(fd, memoryview(buffer), position)])

    def send_file(self, to: int, fd: int, position: int, count: int) -> int:
        """Send bytes of a file to a socket that does not block; return how many it took.

        It is 0 at the end of the file.

        Raises BlockingIOError: it takes none for now.
        """
        return os.sendfile(to, fd, position, count)

    def will_read(self, fd: int, begin: int, end: int, *, sure: bool) -> None:
        """Announce that a file will be read in order from `begin` to `end`, certainly or at most.

        The real disk ignores it: its kernel detects sequential reading.
        """

    def read_file(self, path: str, most: int) -> bytes | None:
        """Read the first `most` bytes of a small file; None if there is none by this name."""
        try:
            with self.reading(path) as fd:
                return self.pread(fd, min(most, self.size_of(fd)), 0)
        except FileNotFoundError:
            return None

    def read_proc(self, path: str) -> str:
        """Read a file of /proc, whose size is not known beforehand."""
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def own_address(self) -> bytes:
        """Return this machine's IPv4 address, 4 bytes; random bytes if it has none. Sends nothing."""
        import socket  # rarely needed, and slow to import

        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
                way.connect(("192.0.2.1", 9))  # of no machine (RFC 5737): only makes the kernel choose an address
                return socket.inet_aton(way.getsockname()[0])
        except OSError:
            return self.random_bytes(4)

    def process_id(self) -> int:
        return os.getpid()

    def mounting(self, path: str) -> str:
        """Return an id of the mount that a path is on; empty if the kernel has none.

        For ext4, XFS and f2fs it is the inode of its directory in /sys, which is new for each mount.
        """
        for kind in ("ext4", "xfs", "f2fs"):
            with suppress(OSError):
                return str(os.stat(_folder_of_mount(path, kind)).st_ino)
        return ""

    def map_read(self, fd: int, size: int) -> mmap.mmap:
        """Map the first `size` bytes of a file for reading; the map holds no descriptor.

        If the file shrinks later, reading the map kills the process (SIGBUS).
        """
        return libc_memory.map_file(fd, size)

    def present(self, map_: mmap.mmap, begin: int, end: int) -> bool:
        """Bring bytes of a map into memory, so that reading them now cannot kill the process.

        Returns:
            False if this system cannot do it.
        """
        number = walk.present(map_, begin, end)
        if number in (errno.EINVAL, errno.ENOSYS):
            return False
        if number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return True

    def next_data(self, fd: int, position: int) -> int | None:
        """Return the first position at or after this one that may hold data, or None.

        None means that only a hole follows. If the file system cannot answer, the result is the position itself.
        """
        try:
            return os.lseek(fd, position, os.SEEK_DATA)
        except (OSError, AttributeError) as error:
            return None if getattr(error, "errno", None) == errno.ENXIO else position

    def data_pieces(self, fd: int, begin: int, end: int, most: int) -> Iterator[tuple[int, bytes]]:
        """Yield (position, bytes) of what is not a hole in [begin, end) of a file.

        They end where the file does. `most`: bytes at a time.
        """
        while (data := self.next_data(fd, begin)) is not None and data < end:
            begin = max(begin, data)
            piece = self.pread(fd, min(most, end - begin), begin)
            if not piece:
                return
            yield begin, piece
            begin += len(piece)

    # -- writing; never used by a reader ----------------------------------------------------------------------------

    def guard(self, root: str) -> None:
        """Protect a store that will be written from symbolic links, until `unguard`.

        From now on nothing is opened, made, removed or listed through a link below the direct sub-directories of its
        root. These sub-directories may be links, and so may the root.
        """
        _guarded.append(root)

    def unguard(self, root: str) -> None:
        """End one `guard` of the store."""
        with suppress(ValueError):
            _guarded.remove(root)

    def mkdirs(self, path: str) -> None:
        base = _base(path)
        os.makedirs(path if base is None else base, exist_ok=True)
        while base is not None and base != path:
            base = os.path.join(base, path[len(base) + 1 :].split(os.sep, 1)[0])
            with suppress(FileExistsError), _at(base) as (name, folder):
                os.mkdir(name, dir_fd=folder)

    def make_folder(self, path: str) -> None:
        """Make a directory and its parents, if it is missing. Durability: their names, on return."""
        missing, at = [], path
        while not self.is_dir(at) and at != os.path.dirname(at):  # even the root may be inaccessible
            missing.append(at)
            at = os.path.dirname(at)
        if missing:
            self.mkdirs(path)
        for folder in reversed(missing):
            self.sync_dir(os.path.dirname(folder))

    def create(self, path: str, size: int) -> int:
        """Create a new file of full size (sparse, zeros), open for reading and writing.

        Its name appears with its size, where the file system can do that.

        Raises OSError: it cannot be made; no file remains.
        """
        with _at(path) as (name, folder):
            return _create(name, size, folder)

    def open_write(self, path: str) -> int:
        """Open an existing regular file for reading and writing.

        Raises OSError: it cannot be opened; NotOpened if that may pass.
        """
        try:
            with _at(path) as (name, folder):
                return os.open(name, _WRITE, dir_fd=folder)
        except OSError as error:
            raise not_opened(error) from None

    @contextmanager
    def writing(self, path: str) -> Iterator[int]:
        """Open a file as `open_write` does, for a `with` block."""
        fd = self.open_write(path)
        try:
            yield fd
        finally:
            self.close(fd)

    def allocate(self, fd: int, position: int, count: int) -> None:
        """Reserve disk blocks, so that stores to the map cannot meet a full disk.

        Raises OSError: no space (ENOSPC, EDQUOT). A file system that cannot reserve blocks keeps the file sparse; no
        zeros are written instead.
        """
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, position, count)

    def truncate(self, fd: int, size: int) -> None:
        """Change the size of a file; added bytes are zeros."""
        os.ftruncate(fd, size)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of data at a file position.

        Raises OSError: the disk refused; ENOSPC also if a write stores nothing without an error.
        """
        view = memoryview(data)
        while view:
            done = os.pwrite(fd, view, position)
            if not done:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view, position = view[done:], position + done

    def map_write(self, fd: int, size: int) -> mmap.mmap:
        """Map the first `size` bytes of a file for reading and writing, shared."""
        return mmap.mmap(fd, size)

    def map_anonymous(self, size: int) -> mmap.mmap:
        """Allocate zeroed memory of no file, whose pages are taken when first touched."""
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def map_ring(self, size: int) -> mmap.mmap:
        """Map zeroed memory of no file twice, one after the other.

        `size`: bytes of the memory, a multiple of the page size.
        """
        return libc_memory.map_twice(size)

    def populate(self, map_: mmap.mmap, position: int, count: int) -> None:
        """Make pages of a map present and writable before their first store. No byte changes.

        Raises OSError: this kernel cannot (EINVAL, ENOSYS), or the disk is full or broken.
        """
        libc_memory.advise(map_, position, count, libc_memory.MADV_POPULATE_WRITE)

    def advise_random(self, map_: mmap.mmap) -> None:
        """Advise the kernel to read nothing ahead and to map pages singly (MADV_RANDOM).

        A frequent sync then writes little more than what changed.
        """
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_RANDOM)

    def advise_needed(self, map_: mmap.mmap) -> None:
        """Advise the kernel that the whole map will be used soon."""
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_WILLNEED)

    def advise_huge(self, map_: mmap.mmap) -> None:
        """Advise the kernel to use large pages for anonymous memory that is accessed at random."""
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_HUGEPAGE)

    def lock_memory(self, map_: mmap.mmap, *, on_fault: bool = False) -> None:
        """Lock a map in memory (`on_fault`: each page from its first touch on)."""
        libc_memory.lock(map_, on_fault=on_fault)

    def unlock_memory(self, map_: mmap.mmap) -> None:
        libc_memory.unlock(map_)

    def is_named(self, fd: int, path: str) -> bool:
        """Return whether this path still names the open file; False if the system does not answer."""
        try:
            return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
        except OSError as error:
            if not of_system(error):
                raise
            return False

    def wrote(self, fd: int, position: int, count: int) -> None:
        """Take note of a store to a map of this file. The real disk ignores it."""

    def drop_cache(self, fd: int, position: int, count: int) -> None:
        """Drop clean pages of a file from the cache, so that the next read comes from the disk."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, count, os.POSIX_FADV_DONTNEED)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of the new name."""
        with _at(old) as (name, folder), _at(new) as (to, into):
            os.replace(name, to, src_dir_fd=folder, dst_dir_fd=into)

    def unlink(self, path: str) -> None:
        with _at(path) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: str) -> None:
        """Remove a directory that is empty; one that is not, or is not there, stays as it is."""
        try:
            with _at(path) as (name, folder):
                os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise

    def sync(self, fd: int) -> None:
        """Make a file's data and size durable (fdatasync, or fsync where there is none)."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def start_sync(self, fd: int, position: int, count: int) -> None:
        """Start writing a range that will not change, so that `sync` waits less. Promises nothing."""
        with suppress(OSError):  # not supported by this system: then `sync` writes all of it
            libc_memory.start_sync(fd, position, count)

    def start_sync_all(self, path: str) -> None:
        """Write all changes of a directory's file system, so that later syncs wait less.

        Promises nothing. Other programs' files there are written, too.
        """
        with suppress(OSError):  # not there, or not supported by this system: then each `sync` writes its file
            fd = os.open(path, _FOLDER | os.O_NOFOLLOW)
            try:
                libc_memory.sync_file_system(fd)
            finally:
                os.close(fd)

    def open_disk(self, path: str) -> int | None:
        """Open a directory before files are written, for `sync_disk`.

        None: only a sync of each file is sure. Decided by the kernel's version and the kind of file system:
        Linux tells errors of data since 5.8, of names and sizes since 5.17; and ext4 has the disk empty its own cache
        also where nothing but data was written, which others (XFS) leave to the syncs of files. Errors are shown from
        here on, to this descriptor, whoever else asks; and once an older one that nobody has seen.
        """
        with suppress(OSError):
            if _tells_all_errors() and os.path.isdir(_folder_of_mount(path, "ext4")):
                return os.open(path, _FOLDER)
        return None

    def is_on_disk(self, disk: int, path: str) -> bool:
        """Return whether a file or directory lies on the file system that `open_disk` opened."""
        with suppress(OSError):
            return os.stat(path).st_dev == os.fstat(disk).st_dev
        return False

    def sync_disk(self, disk: int) -> None:
        """Make all data, sizes and names of a file system durable, those of other programs too.

        `disk`: of `open_disk`.

        Raises OSError: something was not written since it was opened, of whatever file.
        """
        libc_memory.sync_file_system(disk)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable (fsync of the directory).

        Raises OSError: the disk refused; NotOpened if nothing was tried.
        """
        base = _base(path)
        folder = _Folder(path, base or path)
        try:
            fd = folder.__enter__()
        except OSError as error:
            if base is None:
                raise not_opened(error) from None
            _refuse(path, error)
        try:
            os.fsync(fd)
        finally:
            folder.__exit__()

    def lock_store(self, root: str) -> StoreLock:
        """Take the lock of the store at root, held until it is released."""
        return StoreLock(root)

    # -- time -------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the wall clock, Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class OtherDisk(Effects):
    """A disk that is not the real one: what that learns at once is asked here name by name.

    Who inherits gives `listdir`, `size`, `is_dir`, `open_read`, `close`, `size_of`, `pread_into` and `next_data`; the
    listings and the other reads are made of these.
    """

    def entries(self, path: str, below: str | None = None) -> list[DirectoryEntry]:
        """List what is there, by `listdir`, `size` and `is_dir`."""
        found = []
        for name in self.listdir(path, below):
            inner = os.path.join(path, name)
            size = self.size(inner)
            if size is not None:
                found.append(DirectoryEntry(name, "file", size))
            else:
                found.append(DirectoryEntry(name, "folder" if self.is_dir(inner) else "other"))
        return found

    def only_file(self, path: str, below: str, count: int) -> tuple[list[tuple[str, int]], bytes | None]:
        """List the files, and read the one that is alone, by the other calls."""
        files = self.regular_files(path, below)
        if len(files) != 1 or files[0][1] < count or len(self.listdir(path, below)) != 1:
            return files, None
        with self.reading(os.path.join(path, files[0][0]), below) as fd:
            return files, self.pread(fd, count, 0) if self.next_data(fd, count) is None else None

    def entered(self, path: str, below: str) -> AbstractContextManager[None]:
        """Keep nothing open: no path is reached step by step."""
        return nullcontext()

    def open_disk(self, path: str) -> int | None:
        """Open nothing: its files are synced one by one."""
        return None

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Read up to count bytes, by `pread_into`."""
        buffer = bytearray(count)
        return bytes(buffer[: self.pread_into(fd, memoryview(buffer), position)])


REAL = Effects()
