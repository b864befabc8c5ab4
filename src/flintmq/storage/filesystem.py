"""The only door to files and time.

Everything above calls these functions and nothing of `os` that touches a disk, so that a simulated disk can take their
place. The real backend is thin: each method is one system call or a few.

Reading rules, so that a reader harms nobody: files are opened read-only, without following a symbolic link at
the last step, without blocking on a FIFO, and only if they are regular files.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat as stat_module
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from flintmq.errors import StoreAccessError
from flintmq.kernels import walk
from flintmq.storage import libc_memory, lock
from flintmq.storage.lock import StoreLock

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of an open that a later one may not meet
_guarded: list[str] = []  # roots of stores that this process writes; changed by single calls, so it needs no lock
_entered = threading.local()  # .folders: what `Effects.entered` keeps open, path -> descriptor, inner ones behind


def _base(path: str) -> str | None:
    """The direct sub-directory of a guarded root in which a path lies; None if it lies in none."""
    root = ""
    for one in tuple(_guarded):
        if path.startswith(one) and len(one) > len(root) and path[len(one) : len(one) + 1] == os.sep:
            root = one
    end = path.find(os.sep, len(root) + 1) if root else -1
    return path[:end] if end >= 0 else None


def _link_error(path: str, error: OSError) -> Exception:
    """What is told where a path of a guarded store cannot be opened, of a symbolic link in particular."""
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        passes = error.errno in PASSING
        return (NotOpened if passes else OSError)(error.errno, error.strerror, path)
    return StoreAccessError(
        f"{path}: it, or a directory on the way to it, is a symbolic link or of the wrong kind; FlintMQ writes only to "
        "what a store holds itself: put the data there, or name the place by a storePath key"
    )


class NotOpened(OSError):
    """Something could not be opened for lack of descriptors or memory; nothing was done with it, so no sync failed."""


def not_opened(error: OSError) -> OSError:
    """A refused open as NotOpened, if a later one may well succeed; else the error itself."""
    return NotOpened(error.errno, error.strerror, error.filename) if error.errno in PASSING else error


class Effects:
    """The real disk. Methods raise StoreAccessError for what is refused on purpose, OSError for what the system says.

    Thread: all methods may be called from any thread; positions are always explicit.
    """

    @property
    def watches(self) -> bool:
        """Whether every store into a map and every look at the clock must come through here.

        False for the real disk: there a put may do both within one kernel call.
        """
        return type(self) is not Effects

    holds_lock = False  # whether whoever reads through this holds the store's lock, so that nobody else writes

    @property
    def remote(self) -> bool:
        """Whether each read is a request to a server, so that planning must not read what it can do without."""
        return False

    # -- reading ------------------------------------------------------------------------------------------------

    def open_read(self, path: str, below: str | None = None) -> int:
        """A descriptor for reading.

        Args:
            path: the file.
            below: a directory that path begins with; no step behind it may be a symbolic link. None: only the last.

        Raises:
            FileNotFoundError: there is no such file.
            StoreAccessError: it is a symbolic link, a FIFO, a device or a directory, or it may not be read.
        """
        below = _base(path) if below is None and _guarded else below
        if path.endswith("/lock") and lock.holds(path):
            raise StoreAccessError(f"{path}: this process writes the store and holds this file; nobody else opens it")
        try:
            if below is None:
                fd = os.open(path, _READ)
            else:
                with self._folder(os.path.dirname(path), below) as folder:
                    fd = os.open(os.path.basename(path), _READ, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            what = "is a symbolic link, which a store does not hold" if error.errno == errno.ELOOP else error.strerror
            raise StoreAccessError(f"{path}: {what}; check the file's kind and permissions") from error
        if not stat_module.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise StoreAccessError(f"{path}: not a regular file; move it out of the store")
        return fd

    def close(self, fd: int) -> None:
        """Give a descriptor back."""
        os.close(fd)

    @contextmanager
    def reading(self, path: str, below: str | None = None) -> Iterator[int]:
        """open_read for the length of a `with` block."""
        fd = self.open_read(path, below)
        try:
            yield fd
        finally:
            self.close(fd)

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        """Names in a directory, sorted; empty when the directory is missing (it may vanish under a reader).

        With `below` (see open_read) a directory that is or lies behind a symbolic link counts as missing.

        Raises:
            StoreAccessError: the directory may not be listed.
        """
        below = _base(path) if below is None and _guarded else below
        try:
            if below is None:
                return sorted(os.listdir(path))
            with self._folder(path, below) as folder:
                return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            if error.errno == errno.ELOOP:
                return []
            raise StoreAccessError(f"{path}: {error.strerror}; check its permissions") from error

    @contextmanager
    def entered(self, path: str, below: str) -> Iterator[None]:
        """Keep a directory open for the length of a `with` block: what this thread opens, makes or lists inside it is
        reached from there, and not step by step from `below` (see open_read) each time. No link is followed on the way
        to it; one that is missing, or cannot be reached so, is not kept, and each call tells of it as ever."""
        folders: dict[str, int] = _entered.__dict__.setdefault("folders", {})
        folder = None if path in folders else self._folder(path, below)
        try:
            if folder is not None:
                folders[path] = folder.__enter__()
        except OSError:
            folder = None
        try:
            yield
        finally:
            if folder is not None:
                del folders[path]
                folder.__exit__(None, None, None)

    @staticmethod
    @contextmanager
    def _folder(path: str, below: str) -> Iterator[int]:
        """A descriptor of a directory, reached from `below` without following a symbolic link."""
        assert path == below or path.startswith(below + os.sep), f"{path} is not below {below}"
        fd, kept = -1, -1
        for outer in reversed(_entered.__dict__.get("folders", ())):
            if len(outer) >= len(below) and (path == outer or path.startswith(outer + os.sep)):
                below, fd = outer, (kept := _entered.folders[outer])
                break
        try:
            if fd < 0:
                fd = os.open(below, _FOLDER)
            for name in filter(None, path[len(below) :].split(os.sep)):
                parent, fd = fd, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
                if parent != kept:
                    os.close(parent)
            yield fd
        finally:
            if fd not in (kept, -1):
                os.close(fd)

    def size(self, path: str) -> int | None:
        """Bytes of a regular file; None when there is none by this name."""
        try:
            found = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat_module.S_ISREG(found.st_mode) else None

    def is_dir(self, path: str) -> bool:
        """Whether a directory stands there (a symbolic link to one counts)."""
        return os.path.isdir(path)

    def modified_ms(self, path: str) -> int | None:
        """When a file was last written, Unix milliseconds; None when there is none by this name."""
        try:
            return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError):
            return None

    def disk_used(self, path: str) -> int:
        """Percent, rounded up, of the file system below a path that is used, of what users other than root may use.

        Source: upstream UtilAll.getDiskPartitionSpaceUsedPercent.
        """
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree
        return -(-100 * used // max(used + found.f_bavail, 1))

    def size_of(self, fd: int) -> int:
        """Bytes of an open file."""
        return os.fstat(fd).st_size

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        """Fill buffer from a file position; gives the bytes read, fewer only at the end of the file."""
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
        """Up to count bytes from a file position; shorter only at the end of the file."""
        data = os.pread(fd, count, position)
        if len(data) == count or not data:
            return data
        buffer = bytearray(count)
        return bytes(buffer[: self.pread_into(fd, memoryview(buffer), position)])

    def will_read(self, fd: int, begin: int, end: int, *, sure: bool) -> None:
        """A file will be read from one position on, in order, up to another (sure), or maybe less far.

        Nothing to do on a real disk, which sees it by itself.
        """

    def read_file(self, path: str, most: int) -> bytes | None:
        """The first `most` bytes of a small file; None when there is none by this name."""
        try:
            with self.reading(path) as fd:
                return self.pread(fd, min(most, self.size_of(fd)), 0)
        except FileNotFoundError:
            return None

    def read_proc(self, path: str) -> str:
        """What the kernel tells in a file of /proc, whose size it does not know beforehand."""
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()

    def random_bytes(self, count: int) -> bytes:
        """Bytes that nobody can foresee."""
        return os.urandom(count)

    def own_address(self) -> bytes:
        """This machine's IPv4 address, 4 bytes; drawn where it has none but its own. Nothing is sent."""
        import socket  # needed by few, and costs every import of this package

        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
                way.connect(("192.0.2.1", 9))  # of no machine (RFC 5737): it tells by which address one would be asked
                return socket.inet_aton(way.getsockname()[0])
        except OSError:
            return self.random_bytes(4)

    def process_id(self) -> int:
        """Number of this process."""
        return os.getpid()

    def mounting(self, path: str) -> str:
        """Which mounting of a file system this path lies on; empty where the kernel does not tell.

        ext4, XFS, f2fs: the number of its directory in /sys, which every mounting gets anew.
        """
        try:
            device = os.stat(path).st_dev
            name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        except OSError:
            return ""
        for kind in ("ext4", "xfs", "f2fs"):
            with suppress(OSError):
                return str(os.stat(f"/sys/fs/{kind}/{name}").st_ino)
        return ""

    def map_read(self, fd: int, size: int) -> mmap.mmap:
        """The first `size` bytes of a file, mapped for reading.

        A file that shrinks later kills the process (SIGBUS).
        """
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)

    def present(self, map_: mmap.mmap, begin: int, end: int) -> bool:
        """Bring bytes of a map into memory, so that reading them right away cannot end the process.

        Returns:
            False if this system cannot do it.

        Raises:
            OSError: they cannot be read.
        """
        number = walk.present(map_, begin, end)
        if number in (errno.EINVAL, errno.ENOSYS):
            return False
        if number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return True

    def next_data(self, fd: int, position: int) -> int | None:
        """First position at or after this one that may hold data; None if only a hole follows.

        Where the file system cannot tell, the position itself.
        """
        try:
            return os.lseek(fd, position, os.SEEK_DATA)
        except (OSError, AttributeError) as error:
            return None if getattr(error, "errno", None) == errno.ENXIO else position

    # -- writing: what rebuild, export and write_store need; never used by a reader --------------------------------

    def guard(self, root: str) -> None:
        """A store that will be written: from now on nothing is opened, made, removed or listed behind a symbolic link
        below the direct sub-directories of its root, which may be links, as the root may. Until `unguard`."""
        _guarded.append(root)

    def unguard(self, root: str) -> None:
        """The store is not written any more, by one of those who guarded it."""
        with suppress(ValueError):
            _guarded.remove(root)

    @contextmanager
    def _parent(self, path: str, base: str) -> Iterator[int]:
        """A descriptor of the directory in which a path of a guarded store lies.

        Raises:
            StoreAccessError: it lies behind a symbolic link.
            OSError: it cannot be opened.
        """
        try:
            folder = self._folder(os.path.dirname(path), base)
            fd = folder.__enter__()
        except OSError as error:
            raise _link_error(path, error) from error
        try:
            yield fd
        except OSError as error:  # it knows the last step only
            raise _link_error(path, error) from error
        finally:
            folder.__exit__(None, None, None)

    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents.

        Raises:
            StoreAccessError: it would lie behind a symbolic link in a guarded store.
            OSError: it cannot be made.
        """
        base = _base(path)
        os.makedirs(path if base is None else base, exist_ok=True)
        while base is not None and base != path:
            base = os.path.join(base, path[len(base) + 1 :].split(os.sep, 1)[0])
            with suppress(FileExistsError), self._parent(base, _base(base) or base) as folder:
                os.mkdir(os.path.basename(base), dir_fd=folder)

    def make_folder(self, path: str) -> None:
        """Make a directory and its parents, if it is missing. Durability: their names, on return."""
        missing, at = [], path
        while not self.is_dir(at) and at != os.path.dirname(at):  # a disk may deny even the root
            missing.append(at)
            at = os.path.dirname(at)
        if missing:
            self.mkdirs(path)
        for folder in reversed(missing):
            self.sync_dir(os.path.dirname(folder))

    def create(self, path: str, size: int) -> int:
        """A new file of full size (sparse, zeros), open for reading and writing. It must not exist.

        Raises:
            FileExistsError: there is one by this name.
            OSError: it cannot be made; none is left behind.
        """
        flags, base = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _base(path)
        if base is None:
            fd = os.open(path, flags, 0o666)
        else:
            with self._parent(path, base) as folder:
                fd = os.open(os.path.basename(path), flags, 0o666, dir_fd=folder)
        try:
            os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            self.unlink(path)
            raise
        return fd

    def open_write(self, path: str) -> int:
        """An existing regular file, open for reading and writing.

        Raises:
            StoreAccessError: it lies behind a symbolic link in a guarded store.
            OSError: it cannot be opened; NotOpened if that may pass.
        """
        flags, base = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, _base(path)
        try:
            if base is None:
                return os.open(path, flags)
            with self._parent(path, base) as folder:
                return os.open(os.path.basename(path), flags, dir_fd=folder)
        except OSError as error:
            raise not_opened(error) from None

    def allocate(self, fd: int, position: int, count: int) -> None:
        """Reserve disk blocks, so that stores into the map cannot meet a full disk.

        Raises:
            OSError: no space (ENOSPC, EDQUOT). Where the file system cannot reserve, zeros are not written: sparse
                stays sparse.
        """
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, position, count)

    def truncate(self, fd: int, size: int) -> None:
        """Give a file another size; what is added is zeros."""
        os.ftruncate(fd, size)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of data at a file position.

        Raises:
            OSError: the disk refused; ENOSPC also where a write stores nothing and gives no reason.
        """
        view = memoryview(data)
        while view:
            done = os.pwrite(fd, view, position)
            if not done:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view, position = view[done:], position + done

    def map_write(self, fd: int, size: int) -> mmap.mmap:
        """The first `size` bytes of a file, mapped for reading and writing, shared."""
        return mmap.mmap(fd, size)

    def map_anonymous(self, size: int) -> mmap.mmap:
        """Memory of no file: zeros, taken from the system page by page when first touched."""
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def populate(self, map_: mmap.mmap, position: int, count: int) -> None:
        """Make pages of a map present and writable ahead of their first store. No byte changes.

        Raises:
            OSError: this kernel cannot (EINVAL, ENOSYS), or the disk is full or broken.
        """
        libc_memory.advise(map_, position, count, libc_memory.MADV_POPULATE_WRITE)

    def advise_random(self, map_: mmap.mmap) -> None:
        """No read-ahead, and pages in small pieces: a frequent sync then writes little more than what changed.

        Raises:
            OSError: refused.
        """
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_RANDOM)

    def advise_needed(self, map_: mmap.mmap) -> None:
        """The whole map will be used soon.

        Raises:
            OSError: refused.
        """
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_WILLNEED)

    def advise_huge(self, map_: mmap.mmap) -> None:
        """Memory of no file that is met at random: pages as large as the system has.

        Raises:
            OSError: refused.
        """
        libc_memory.advise(map_, 0, len(map_), libc_memory.MADV_HUGEPAGE)

    def lock_memory(self, map_: mmap.mmap, *, on_fault: bool = False) -> None:
        """Keep a map in memory (`on_fault`: each page from its first touch on).

        Raises:
            OSError: refused, mostly by the limit of locked memory (`ulimit -l`).
        """
        libc_memory.lock(map_, on_fault=on_fault)

    def unlock_memory(self, map_: mmap.mmap) -> None:
        """Undo lock_memory.

        Raises:
            OSError: refused.
        """
        libc_memory.unlock(map_)

    def is_named(self, fd: int, path: str) -> bool:
        """Whether this path still names the open file."""
        try:
            there = os.stat(path, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(fd))

    def wrote(self, fd: int, position: int, count: int) -> None:
        """Told after a store into a map of this file. Nothing to do on a real disk."""

    def drop_cache(self, fd: int, position: int, count: int) -> None:
        """Forget clean pages of a file, so that the next read comes from the disk."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, count, os.POSIX_FADV_DONTNEED)

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file of that name.

        Raises:
            StoreAccessError: one of them lies behind a symbolic link in a guarded store.
            OSError: refused.
        """
        bases = _base(old), _base(new)
        if bases == (None, None):
            os.replace(old, new)
            return
        names: list[str] = [old, new]
        folders: list[int | None] = [None, None]
        with ExitStack() as stack:
            for n, base in enumerate(bases):
                if base is not None:
                    folders[n] = stack.enter_context(self._parent(names[n], base))
                    names[n] = os.path.basename(names[n])
            os.replace(*names, src_dir_fd=folders[0], dst_dir_fd=folders[1])

    def unlink(self, path: str) -> None:
        """Remove a file's name.

        Raises:
            StoreAccessError: it lies behind a symbolic link in a guarded store.
            OSError: refused.
        """
        base = _base(path)
        if base is None:
            os.unlink(path)
            return
        with self._parent(path, base) as folder:
            os.unlink(os.path.basename(path), dir_fd=folder)

    def sync(self, fd: int) -> None:
        """Make a file's data and size durable."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def start_sync(self, fd: int, position: int, count: int) -> None:
        """Let the disk begin with a range that stays as it is: `sync` then has less to wait for. Promises nothing."""
        with suppress(OSError):  # not on this system: then `sync` does all of it
            libc_memory.start_sync(fd, position, count)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable.

        Raises:
            StoreAccessError: it is or lies behind a symbolic link in a guarded store.
            OSError: the disk refused; NotOpened if nothing was tried.
        """
        base = _base(path)
        if base is not None:
            try:
                folder = self._folder(path, base)
                fd = folder.__enter__()
            except OSError as error:
                raise _link_error(path, error) from error
            try:
                os.fsync(fd)
            finally:
                folder.__exit__(None, None, None)
            return
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise not_opened(error) from None
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock_store(self, root: str) -> StoreLock:
        """The right to write the store at root, held until it is given back.

        Raises:
            StoreLockedError: somebody else has it.
            StoreAccessError: its file cannot be made or locked, or is a symbolic link.
        """
        return StoreLock(root)

    # -- time -------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Wall clock, Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never steps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


REAL = Effects()
