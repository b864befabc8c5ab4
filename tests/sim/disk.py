"""A disk in memory that computes what a power cut could leave; a second backend of Effects.

Three models of legal behaviour: `journal` (XFS; names in order), `ext4` (the same, and stores to a page whose sync
failed never reach the disk), `posix` (names in any order; after a failed sync the old bytes are shown). `states`
numbers the states. Everything is drawn from a seed: the same calls give the same `trace`. `Effects` is in
`storage/files/filesystem.py`.
"""

from __future__ import annotations

import errno
import os
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from flintmq.errors import StoreAccessError
from flintmq.storage.files.filesystem import OtherDisk, not_opened
from flintmq.storage.files.lock import StoreLock
from tests.sim.names import Folders, NameChange, NameJournal, apply, split
from tests.sim.pages import PAGE, SimFile, SimMap

MODELS = ("journal", "posix", "ext4")
ROOT = "/sim"
BEGIN_MS = 1_700_000_000_000
PROCESS = 4242


class PowerCut(BaseException):
    """The machine stops at this call; nothing after it happens."""


@dataclass(frozen=True)
class Image:
    """The content of a disk.

    Attributes:
        files: path -> bytes; None for a directory. Parents come first.
        clock: Unix milliseconds.
        boot: number of the machine's boot.
        power: whether a power cut left it; else `kill -9` did, or nothing.
    """

    files: dict[str, bytes | None]
    clock: int = BEGIN_MS
    boot: int = 0
    power: bool = False


class SimLock(StoreLock):
    """The lock of a store that no other process can reach."""

    def __init__(self) -> None:
        self.fd, self.pid, self.path = 0, os.getpid(), "lock"

    def is_in_place(self) -> bool:
        return True

    def release(self) -> None:
        self.fd = -1


class SimDisk(OtherDisk):
    """One disk.

    Args:
        seed: of everything that is drawn.
        model: one of MODELS.
        image: its content, all durable; None: the empty directory ROOT.
        watched: whether the states after a power cut will be asked for. It costs time.

    Attributes:
        calls: number of calls that may fail or change something.
        trace: a checksum of them all.
        plan: number of a call -> its fault: an errno, "short" (half of a pwrite, then ENOSPC), "flip" (one bit of a
            pwrite), "power".
        sticky: (number, errno): the errno of every call from that number on; None.
        at_call: called before each of them, and after each reported store into a map.
        generation: increases with every change of what a power cut may leave.
        clock: wall clock, Unix milliseconds; `ticks`: the monotonic one, seconds.
        used: percent of the disk.
    """

    def __init__(self, seed: int, model: str = "ext4", image: Image | None = None, *, watched: bool = True) -> None:
        assert model in MODELS, model
        self.model, self.watched = model, watched
        self.chance = random.Random(seed)
        self.calls = self.trace = self.generation = 0
        self.plan: dict[int, int | str] = {}
        self.sticky: tuple[int, int] | None = None
        self.refused: list[tuple[int, str, str]] = []
        self.at_call: Callable[[str, str], None] | None = None
        image = image or Image({ROOT: None})
        self.clock, self.ticks, self.boot, self.used = image.clock, 0.0, image.boot, 10
        self._dead = False
        self._number = 0
        self.folders: Folders = {"/": {}}
        for path, data in image.files.items():
            parent, name = split(path)
            self.folders[parent][name] = None if data is None else self._file(data)
            if data is None:
                self.folders[path] = {}
        self.journal = NameJournal(self.folders, model != "posix") if watched else None
        self._open: dict[int, tuple[SimFile, str]] = {}
        self._maps: dict[int, SimFile] = {}
        self._next_fd = 100

    def _file(self, data: bytes = b"") -> SimFile:
        self._number += 1
        return SimFile(self._number, data, self.clock, self.model == "ext4")

    # -- the door -----------------------------------------------------------------------------------------------

    def _tick(self, name: str, path: str, data: object = b"") -> int | str | None:
        """Count a call and raise its planned fault; return "short" or "flip" for pwrite to apply."""
        if self._dead:
            raise PowerCut(name)
        self.calls += 1
        if not self.watched and not self.plan and self.sticky is None:
            return None
        if self.watched:
            self.look()
        self.trace = zlib.crc32(cast(bytes, data), zlib.crc32(f"{name} {path}".encode(), self.trace))
        if self.at_call is not None:
            self.at_call(name, path)
        fault: int | str | None = self.plan.get(self.calls)
        if self.sticky is not None and self.calls >= self.sticky[0] and fault is None:
            fault = self.sticky[1]
        if fault is None or name == "wrote":
            return None
        self.refused.append((self.calls, name, path))
        if fault == "power":
            self._dead = True
            raise PowerCut(name)
        if isinstance(fault, int):
            error = OSError(fault, os.strerror(fault), path)
            # A sync_dir fails while it opens the directory, except with ENOMEM, which its sync may raise.
            opens = name == "open_write" or (name == "sync_dir" and fault != errno.ENOMEM)
            raise not_opened(error) if opens else error
        return fault

    def stop(self) -> None:
        """Stop the machine: every later call raises PowerCut."""
        self._dead = True

    def _changed(self) -> None:
        self.generation += 1

    def look(self) -> None:
        """Record stores into maps that were not reported by `wrote`."""
        for file in self._maps.values():
            if file.look(self.chance):
                self._changed()

    def _record(self, entry: NameChange) -> None:
        if entry.kind != "size":
            apply(self.folders, entry)
        if self.journal is not None:
            self.journal.add(entry)
        self._changed()

    def _stored(self, file: SimFile, begin: int, end: int) -> None:
        file.modified = self.clock
        if self.watched:
            file.stored(begin, end, self.chance)
            self._changed()

    def find(self, path: str) -> SimFile | None:
        """Return the file of this name."""
        parent, name = split(path)
        names = self.folders.get(parent)
        return None if names is None else names.get(name)

    def _found(self, path: str) -> SimFile:
        file = self.find(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return file

    def _fd(self, file: SimFile, path: str) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = file, path
        return self._next_fd

    @property
    def held(self) -> list[str]:
        """Paths of descriptors that were not closed."""
        return [path for _, path in self._open.values()]

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def watches(self) -> bool:
        return True

    def lock_store(self, root: str) -> StoreLock:
        return SimLock()

    def open_read(self, path: str, below: str | None = None) -> int:
        if path in self.folders:
            raise StoreAccessError(f"{path}: not a regular file; move it out of the store")
        file = self._found(path)
        self._tick("open_read", path)
        return self._fd(file, path)

    def read_file(self, path: str, most: int) -> bytes | None:
        """Make the same calls as the base class, at less cost."""
        parent, name = split(path)
        names = self.folders.get(parent)
        file = None if names is None else names.get(name)
        if file is None:
            if path in self.folders:
                self.open_read(path)
            return None
        self._tick("open_read", path)
        self._tick("pread", path)
        return bytes(memoryview(file.shown)[:most])

    def close(self, fd: int) -> None:
        del self._open[fd]

    def listdir(self, path: str, below: str | None = None) -> list[str]:
        return sorted(self.folders.get(path, ()))

    def size(self, path: str) -> int | None:
        file = self.find(path)
        return None if file is None else len(file.shown)

    def is_dir(self, path: str) -> bool:
        return path in self.folders

    def modified_ms(self, path: str) -> int | None:
        file = self.find(path)
        return None if file is None else file.modified

    def disk_used(self, path: str) -> int:
        return self.used

    def size_of(self, fd: int) -> int:
        return len(self._open[fd][0].shown)

    def pread_into(self, fd: int, buffer: memoryview, position: int) -> int:
        data = self.pread(fd, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        file, path = self._open[fd]
        self._tick("pread", path)
        return bytes(memoryview(file.shown)[position : position + count])

    def process_id(self) -> int:
        return PROCESS

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def own_address(self) -> bytes:
        return bytes([127, 0, 0, 1])

    def mounting(self, path: str) -> str:
        return ""

    def read_proc(self, path: str) -> str:
        return f"boot-{self.boot}" if path.endswith("boot_id") else ""

    def map_read(self, fd: int, size: int) -> Any:
        return self._map(fd)

    def present(self, map_: Any, begin: int, end: int) -> bool:
        return True

    def next_data(self, fd: int, position: int) -> int | None:
        shown = self._open[fd][0].shown
        for page in range(position // PAGE * PAGE, len(shown), PAGE):
            begin = max(page, position)
            if shown.count(0, begin, page + PAGE) != min(page + PAGE, len(shown)) - begin:
                return begin
        return None

    # -- writing ------------------------------------------------------------------------------------------------

    def mkdirs(self, path: str) -> None:
        if path in self.folders:
            return
        self.mkdirs(os.path.dirname(path))
        self._tick("mkdirs", path)
        self._record(NameChange("mkdir", path))

    def create(self, path: str, size: int) -> int:
        if self.find(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if os.path.dirname(path) not in self.folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._tick("create", path, str(size).encode())
        file = self._file()
        self._record(NameChange("link", path, file))
        fd = self._fd(file, path)
        if size:
            self._resize(file, path, size)
        return fd

    def open_write(self, path: str) -> int:
        file = self._found(path)
        self._tick("open_write", path)
        return self._fd(file, path)

    def allocate(self, fd: int, position: int, count: int) -> None:
        file, path = self._open[fd]
        self._tick("allocate", path, f"{position} {count}".encode())
        if position + count > len(file.shown):
            self._resize(file, path, position + count)

    def truncate(self, fd: int, size: int) -> None:
        file, path = self._open[fd]
        self._tick("truncate", path, str(size).encode())
        self._resize(file, path, size)

    def _resize(self, file: SimFile, path: str, size: int) -> None:
        before = len(file.shown)
        if self.journal is not None:
            self._record(NameChange("size", path, file, size=size))
        file.resize(size)
        self._stored(file, min(size, before), max(size, before))

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        file, path = self._open[fd]
        data = bytes(data)
        fault = self._tick("pwrite", path, data)
        if fault == "short":
            data = data[: len(data) // 2]
        elif fault == "flip" and data:
            at = self.chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]
        if position + len(data) > len(file.shown):
            file.resize(position + len(data))
        file.shown[position : position + len(data)] = data
        self._stored(file, position, position + len(data))
        if fault == "short":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _map(self, fd: int) -> Any:
        file, path = self._open[fd]
        self._tick("map_write", path)
        self._maps[file.number] = file
        return file.shown

    def map_write(self, fd: int, size: int) -> Any:
        return self._map(fd)

    def map_anonymous(self, size: int) -> Any:
        return SimMap(size)

    def populate(self, map_: Any, position: int, count: int) -> None:
        pass

    def advise_random(self, map_: Any) -> None:
        pass

    def advise_needed(self, map_: Any) -> None:
        pass

    def advise_huge(self, map_: Any) -> None:
        pass

    def lock_memory(self, map_: Any, *, on_fault: bool = False) -> None:
        pass

    def unlock_memory(self, map_: Any) -> None:
        pass

    def is_named(self, fd: int, path: str) -> bool:
        return self._open[fd][0] is self.find(path)

    def wrote(self, fd: int, position: int, count: int) -> None:
        file, path = self._open[fd]
        self._stored(file, position, position + count)
        self._tick("wrote", path, file.shown[position : position + count])

    def drop_cache(self, fd: int, position: int, count: int) -> None:
        file, path = self._open[fd]
        self._tick("drop_cache", path)
        if file.bad:
            file.dropped(position, position + count, self.chance)
            self._changed()

    def rename(self, old: str, new: str) -> None:
        file = self._found(old)
        self._tick("rename", f"{old} {new}")
        self._record(NameChange("rename", old, file, new))

    def unlink(self, path: str) -> None:
        file = self._found(path)
        self._tick("unlink", path)
        self._record(NameChange("unlink", path, file))

    def remove_folder(self, path: str) -> None:
        """Do nothing: a directory is there as long as a file is in it, or it was made."""

    def sync(self, fd: int) -> None:
        file, path = self._open[fd]
        try:
            self._tick("sync", path)
        except OSError:
            file.failed(self.model == "posix")
            self._changed()
            raise
        if self.journal is not None:
            file.synced()
            self.journal.sync_file(file)
            self._changed()

    def start_sync(self, fd: int, position: int, count: int) -> None:
        pass

    def start_sync_all(self, path: str) -> None:
        pass

    def open_disk(self, path: str) -> int | None:
        if self.model != "ext4" or path not in self.folders:
            return None
        return self._fd(SimFile(0), path)

    def is_on_disk(self, disk: int, path: str) -> bool:
        return path in self.folders or self.find(path) is not None

    def sync_disk(self, disk: int) -> None:
        """Make all durable; a failure is one of the files below the directory that was opened."""
        _, path = self._open[disk]
        named = [(os.path.join(folder, name), file) for folder, names in self.folders.items()
                 for name, file in names.items() if file is not None]  # fmt: skip
        try:
            self._tick("sync_disk", path)
        except OSError:
            for name, file in named:
                if name.startswith(path + os.sep):
                    file.failed(shows_old=False)
            self._changed()
            raise
        if self.journal is not None:
            for _, file in named:
                file.synced()
                self.journal.sync_file(file)
            for folder in list(self.folders):
                self.journal.sync_folder(folder)
            self._changed()

    def sync_dir(self, path: str) -> None:
        self._tick("sync_dir", path)
        if self.journal is not None:
            self.journal.sync_folder(path)
            self._changed()

    # -- time ---------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self.clock

    def monotonic(self) -> float:
        return self.ticks

    def sleep(self, seconds: float) -> None:
        self.clock += int(seconds * 1000)
        self.ticks += seconds

    # -- content ------------------------------------------------------------------------------------------------

    def shown(self) -> Image:
        """Return the disk after `kill -9`: everything that the kernel shows."""
        files: dict[str, bytes | None] = {}
        for path in sorted(self.folders):
            if path != "/":
                files[path] = None
            for name, file in sorted(self.folders[path].items()):
                if file is not None:
                    files[os.path.join(path, name)] = bytes(file.shown)
        return Image(files, self.clock, self.boot)
