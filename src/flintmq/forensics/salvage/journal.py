"""The journal of one salvage in place, which can be finished after a kill, and undone.

All bytes before and after a change are first written and synced below `quarantine/salvage-NNNN.new`; the rename to
`salvage-NNNN` commits them. After that `apply` carries out `journal.json`, and may be called again after a kill: every
step can be repeated. `undo` does the same backwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.tree import walk_tree
from flintmq.storage.files.whole_file import replace_file, sync_file

QUARANTINE = "quarantine"
JOURNAL = "journal.json"
RANGES, BEFORE, AFTER, OLD, NEW = "ranges", "before", "after", "old", "new"  # directories of a journal
SCRATCH = "scratch"  # files that only planning needs
APPLY, DONE, UNDO, UNDONE = "apply", "done", "undo", "undone"  # states
MOST = 64 << 20  # bytes of a journal file that are read
_NAME = re.compile(r"salvage-[0-9]{4,}")
_STEP = 1 << 20


@dataclass
class SalvageJournal:
    """One journal.

    `changes`: in order; each has `op` and the path `file`, below root or absolute: create (size), resize (old and new
    size, before: the bytes cut off), write (position, length, before and after: the bytes), swap (old, new: whether
    something is there before and after).
    """

    root: str
    folder: str
    effects: Effects
    state: str = APPLY  # APPLY, DONE, UNDO or UNDONE
    changes: list[dict[str, Any]] = field(default_factory=list)
    planned: dict[str, Any] = field(default_factory=dict)
    checkpoint: str = ""  # digest of the store's checkpoint once all changes were made

    @staticmethod
    def all(root: str, effects: Effects) -> list[SalvageJournal]:
        """Return the journals of a store, oldest first."""
        base = os.path.join(root, QUARANTINE)
        names = sorted((n for n in effects.listdir(base) if _NAME.fullmatch(n)), key=lambda name: int(name[8:]))
        return [SalvageJournal._read(root, os.path.join(base, name), effects) for name in names]

    @staticmethod
    def _read(root: str, folder: str, effects: Effects) -> SalvageJournal:
        try:
            value = json.loads(effects.read_file(os.path.join(folder, JOURNAL), MOST) or b"")
            return SalvageJournal(
                root, folder, effects, value["state"], value["changes"], value["told"], value["checkpoint"]
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{folder}: its {JOURNAL} cannot be read ({error}); move the directory away") from error

    def _save(self) -> None:
        value = {"state": self.state, "checkpoint": self.checkpoint, "told": self.planned, "changes": self.changes}
        replace_file(os.path.join(self.folder, JOURNAL), json.dumps(value, indent=1).encode(), self.effects)

    def path(self, change: dict[str, Any]) -> str:
        return os.path.join(self.root, change["file"])

    def keep(self, name: str, data: bytes) -> None:
        """Write a file of the journal; `commit` syncs it."""
        assert self.folder.endswith(".new")  # after the commit nobody syncs it
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def commit(self) -> None:
        """Sync the journal and rename it to its final name; from now on it will be carried out."""
        assert self.state == APPLY and self.folder.endswith(".new")  # committed once
        shutil.rmtree(os.path.join(self.folder, SCRATCH), ignore_errors=True)
        for change in self.changes:
            for part in (OLD, NEW):
                if change["op"] == "swap":
                    os.makedirs(os.path.dirname(os.path.join(self.folder, part, change["file"])), exist_ok=True)
        self._save()
        # Durable before the rename: its name alone says that it is to be carried out.
        for folder, _, names in walk_tree(self.folder, bottom_up=True):
            for name in names:
                sync_file(os.path.join(folder, name), self.effects)
            self.effects.sync_dir(folder)
        final = self.folder.removesuffix(".new")
        self.effects.rename(self.folder, final)
        self.folder = final
        # Two directories: quarantine/ itself may be new.
        self.effects.sync_dir(os.path.dirname(final))
        self.effects.sync_dir(self.root)

    # -- carrying it out ----------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Make the changes that are not made yet. The store's lock is held.

        Raises OSError: the disk refused; call it again.
        """
        assert self.state in (APPLY, DONE)  # what is being undone is not made again
        for change in self.changes:
            getattr(self, f"_{change['op']}")(change, forward=True)
        # After the last change: a kill before this has all of them made again, which changes nothing.
        self.state, self.checkpoint = DONE, self._digest()
        self._save()

    def undo(self) -> None:
        """Undo all changes. The store's lock is held.

        Raises:
            UsageError: the store was written meanwhile.
            OSError: the disk refused; call it again.
        """
        if self.state == DONE and self.checkpoint != self._digest():
            raise UsageError(f"{self.root}: a broker has written it since {os.path.basename(self.folder)}; "
                             "undoing would remove its messages")  # fmt: skip
        if self.state != UNDO:
            # Noted before the first change is undone: after a kill the next run goes on undoing, and makes none again.
            self.state = UNDO
            self._save()
        for change in reversed(self.changes):
            getattr(self, f"_{change['op']}")(change, forward=False)
        self.state = UNDONE
        self._save()

    def _digest(self) -> str:
        data = self.effects.read_file(os.path.join(self.root, "checkpoint"), 1 << 16)
        return "" if data is None else hashlib.sha256(data).hexdigest()

    def _create(self, change: dict[str, Any], *, forward: bool) -> None:
        path = self.path(change)
        there = self.effects.size(path)
        if forward and there is None:
            self.effects.close(self.effects.create(path, change["size"]))
        elif forward and there != change["size"]:  # a kill interrupted its creation
            self._set_size(path, change["size"])
        elif not forward and there is not None:
            self.effects.unlink(path)
        self.effects.sync_dir(os.path.dirname(path))

    def _resize(self, change: dict[str, Any], *, forward: bool) -> None:
        path, size = self.path(change), change["new" if forward else "old"]
        self._set_size(path, size)
        if not forward and change["old"] > change["new"]:
            self._pour(os.path.join(self.folder, change["before"]), path, change["new"], size - change["new"])

    def _set_size(self, path: str, size: int) -> None:
        with self.effects.writing(path) as fd:
            self.effects.truncate(fd, size)
            self.effects.sync(fd)

    def _write(self, change: dict[str, Any], *, forward: bool) -> None:
        if not forward and self.effects.size(self.path(change)) is None:
            return  # a kill came before the file was made
        source = os.path.join(self.folder, change["after" if forward else "before"])
        self._pour(source, self.path(change), change["position"], change["length"])

    def _pour(self, source: str, path: str, position: int, length: int) -> None:
        """Write `length` bytes of a kept file into a file, padded with zeros."""
        with self.effects.writing(path) as fd:
            with open(source, "rb") as file:
                for at in range(0, length, _STEP):
                    count = min(_STEP, length - at)
                    self.effects.pwrite(fd, file.read(count).ljust(count, b"\0"), position + at)
            self.effects.sync(fd)

    def _swap(self, change: dict[str, Any], *, forward: bool) -> None:
        path = self.path(change)
        old, new = (os.path.join(self.folder, part, change["file"]) for part in (OLD, NEW))
        first, second = ((path, old), (new, path)) if forward else ((path, new), (old, path))
        # Each move only if it is still to be made: a kill may have come between the two.
        if change["old" if forward else "new"] and not os.path.lexists(first[1]):
            self._move(*first)
        if change["new" if forward else "old"] and os.path.lexists(second[0]):
            self._move(*second)

    def _move(self, source: str, to: str) -> None:
        self.effects.mkdirs(os.path.dirname(to))
        self.effects.rename(source, to)
        for folder in {os.path.dirname(source), os.path.dirname(to)}:
            self.effects.sync_dir(folder)


def begin(root: str, effects: Effects, dry_run: bool = False) -> SalvageJournal:
    """Start a new journal, and remove what a killed planner left.

    The journal of a dry run is outside the store.
    """
    if dry_run:
        return SalvageJournal(root, tempfile.mkdtemp(prefix="flintmq-salvage-", suffix=".new"), effects)
    base = os.path.join(root, QUARANTINE)
    effects.mkdirs(base)
    numbers = [int(name[8:]) for name in effects.listdir(base) if _NAME.fullmatch(name)]
    folder = os.path.join(base, f"salvage-{max(numbers, default=0) + 1:04d}.new")
    shutil.rmtree(folder, ignore_errors=True)
    effects.mkdirs(folder)
    return SalvageJournal(root, folder, effects)


def drop(journal: SalvageJournal) -> None:
    shutil.rmtree(journal.folder, ignore_errors=True)
    base = os.path.dirname(journal.folder)
    if os.path.basename(base) == QUARANTINE and not os.listdir(base):
        os.rmdir(base)
