"""A disk whose plug can be pulled: what a power cut may leave of it, as files.

Next to the real files it keeps what is certain: the bytes that a sync of the file covered, the names that a sync of
the directory covered. `image` gives what a power cut could leave this moment: at worst that and nothing else, or, drawn
from a seed, for each sector of 512 bytes what is certain or what was stored since. It is no whole model of a disk: a
sector is never torn, and names are either those that are certain or those that are there.
"""

import itertools
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.storage.files.filesystem import Effects

SECTOR = 512
BOOTS = itertools.count()


class Unplugged(Effects):
    """The real disk, and what of it a power cut cannot take; what lies below `root` now is certain.

    `at_sync` is called before each sync, when most is uncertain; with `kernel_puts` puts may store by one kernel call.
    """

    def __init__(self, root: Path, at_sync: Callable[[], Any] | None = None, kernel_puts: bool = False) -> None:
        self.root, self.at_sync, self.kernel_puts = str(root), at_sync, kernel_puts
        self.boot = next(BOOTS)
        self.lock = threading.RLock()
        self.held: list[int] = []
        self.data: dict[int, bytes] = {}  # inode -> bytes that a sync covered
        self.names: dict[str, dict[str, int]] = {}  # directory -> name -> inode, that a sync covered
        for folder, _, files in os.walk(self.root):
            self.names[folder] = _names(folder)
            for name in files:
                path = os.path.join(folder, name)
                self.data[os.stat(path).st_ino] = Path(path).read_bytes()

    @property
    def watches(self) -> bool:
        return not self.kernel_puts

    def create(self, path: str, size: int) -> int:
        with self.lock:
            fd = super().create(path, size)
            self.data.pop(os.fstat(fd).st_ino, None)  # a number that an earlier file had
        return fd

    def unlink(self, path: str) -> None:
        self._hold(path)
        super().unlink(path)

    def rename(self, old: str, new: str) -> None:
        self._hold(new)
        super().rename(old, new)

    def _hold(self, path: str) -> None:
        """Keep a file that loses its name: its number must not be given to another one, its name may come back."""
        with self.lock:
            if os.path.isfile(path):
                self.held.append(os.open(path, os.O_RDONLY))

    def forget(self) -> None:
        while self.held:
            os.close(self.held.pop())

    def sync(self, fd: int) -> None:
        with self.lock:
            self._tell()
            self.data[os.fstat(fd).st_ino] = os.pread(fd, os.fstat(fd).st_size, 0)

    def sync_dir(self, path: str) -> None:
        with self.lock:
            self._tell()
            self.names[path] = _names(path)

    def read_proc(self, path: str) -> str:
        """Another boot of the machine for every disk."""
        return f"boot-{self.boot}" if path.endswith("boot_id") else super().read_proc(path)

    def _tell(self) -> None:
        if self.at_sync is not None:
            self.at_sync()

    def image(self, chance: random.Random | None = None) -> dict[str, bytes | None]:
        """Relative path -> bytes (None: a directory) after a power cut now; without `chance` the worst."""
        found: dict[str, bytes | None] = {}
        with self.lock:
            self._add(self.root, "", chance, chance is not None and chance.random() < 0.5, found)
        return found

    def _add(self, folder: str, inside: str, chance: random.Random | None, shown: bool, found: dict[str, Any]) -> None:
        for name, inode in (_names(folder) if shown else self.names.get(folder, {})).items():
            path, relative = os.path.join(folder, name), os.path.join(inside, name)
            if os.path.isdir(path):
                found[relative] = None
                self._add(path, relative, chance, shown, found)
            else:
                certain = self.data.get(inode, b"")  # a file that lost its name stays what it was
                there = Path(path).read_bytes() if _inode(path) == inode else certain
                found[relative] = _mixed(certain, there, chance)


def _mixed(certain: bytes, there: bytes, chance: random.Random | None) -> bytes:
    """Each sector of one or the other."""
    if chance is None or certain == there:
        return certain
    size = max(len(certain), len(there))
    both = certain.ljust(size, b"\0"), there.ljust(size, b"\0")
    mostly = chance.choice((0.1, 0.5, 0.9))
    return b"".join(both[chance.random() < mostly][at : at + SECTOR] for at in range(0, size, SECTOR))


def _names(folder: str) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def _inode(path: str) -> int | None:
    return os.stat(path).st_ino if os.path.exists(path) else None


def write(image: dict[str, bytes | None], root: Path) -> None:
    root.mkdir(parents=True)
    for relative, data in image.items():
        if data is None:
            (root / relative).mkdir(parents=True)
        else:
            (root / relative).write_bytes(data)
