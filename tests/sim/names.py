"""The directories of the simulated disk: the durable names, and the journal of changes.

After a power cut a prefix of the journal holds (models `journal` and `ext4`: any sync commits everything up to the
change it covers), or any subset of it (model `posix`: only the sync of its directory makes a name certain).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from tests.sim.pages import SimFile

split = lru_cache(maxsize=1 << 12)(os.path.split)
Folders = dict[str, dict[str, SimFile | None]]  # directory -> name -> file; None: a directory


@dataclass(frozen=True, slots=True)
class NameChange:
    """One entry of the journal.

    Attributes:
        kind: "link" (create, or the target of a rename), "rename", "unlink", "mkdir" or "size".
        path: the name that it sets or removes; of a rename, the old one.
        file: the file; None for a directory.
        target: of a rename, the new name.
        size: bytes of the file from then on.
    """

    kind: str
    path: str
    file: SimFile | None = None
    target: str = ""
    size: int = 0

    def touches(self, folder: str) -> bool:
        """Return whether the entry changes names of this directory."""
        return self.kind != "size" and folder in (split(self.path)[0], split(self.target)[0])


def apply(folders: Folders, entry: NameChange) -> None:
    """Apply an entry; without its directory it is lost."""
    parent, name = split(entry.path)
    names = folders.get(parent)
    if entry.kind == "mkdir":
        if names is not None:
            names.setdefault(name, None)
            folders.setdefault(entry.path, {})
    elif entry.kind == "link":
        if names is not None:
            names[name] = entry.file
    elif entry.kind == "unlink":
        if names is not None and names.get(name) is entry.file:
            del names[name]
    elif entry.kind == "rename":
        if names is not None and names.get(name) is entry.file:
            del names[name]
        parent, name = split(entry.target)
        names = folders.get(parent)
        if names is not None:
            names[name] = entry.file


class NameJournal:
    """The changes of names and sizes that a power cut may undo.

    Args:
        folders: the present content, all durable.
        ordered: a prefix of the entries holds; else any subset may.

    Attributes:
        entries: uncertain changes, in order.
        sizes: file -> certain size, of files whose size was set since.
    """

    def __init__(self, folders: Folders, ordered: bool) -> None:
        self.durable = copied(folders)
        self.ordered = ordered
        self.entries: list[NameChange] = []
        self.sizes: dict[SimFile, int] = {}

    def add(self, entry: NameChange) -> None:
        """Add an entry."""
        if entry.kind == "size" and entry.file is not None:
            self.sizes.setdefault(entry.file, len(entry.file.durable))
        self.entries.append(entry)

    def sync_file(self, file: SimFile) -> None:
        """Make a file and its size durable; in ordered models everything up to its last entry."""
        if self.ordered:
            self._commit(max((n for n, e in enumerate(self.entries) if e.file is file), default=-1))
        else:
            self.entries = [e for e in self.entries if e.kind != "size" or e.file is not file]
        self.sizes.pop(file, None)

    def sync_folder(self, folder: str) -> None:
        """Make the names of a directory durable."""
        if self.ordered:
            self._commit(max((n for n, e in enumerate(self.entries) if e.touches(folder)), default=-1))
            return
        self.durable.setdefault(folder, {})  # its own name may be uncertain yet
        for entry in self.entries:
            if entry.touches(folder):
                apply(self.durable, entry)
        self.entries = [e for e in self.entries if not e.touches(folder)]

    def _commit(self, last: int) -> None:
        for entry in self.entries[: last + 1]:
            if entry.kind == "size" and entry.file is not None:
                self.sizes[entry.file] = entry.size
            apply(self.durable, entry)
        del self.entries[: last + 1]

    def after(self, mask: int) -> tuple[Folders, dict[SimFile, int]]:
        """Return (directories, sizes that are set) if the entries hold whose bit is set."""
        folders, sizes = copied(self.durable), dict(self.sizes)
        for number, entry in enumerate(self.entries):
            if mask >> number & 1:
                if entry.kind == "size" and entry.file is not None:
                    sizes[entry.file] = entry.size
                else:
                    apply(folders, entry)
        return folders, sizes

    @property
    def states(self) -> int:
        """Number of masks."""
        return len(self.entries) + 1 if self.ordered else 1 << len(self.entries)

    def mask(self, number: int) -> int:
        """Return the mask of a state; state 0 keeps nothing, `states` - 1 keeps all."""
        return (1 << number) - 1 if self.ordered else number


def copied(folders: Folders) -> Folders:
    """Copy the dictionaries of names."""
    return {path: dict(names) for path, names in folders.items()}
