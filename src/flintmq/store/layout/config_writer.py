"""Writes the files of config/: read once, changed in memory, replaced as a whole.

A file is kept as the object that it held, so fields that FlintMQ does not know are written back unchanged. Upstream
overwrites a file in place and can lose it in a power cut (upstream defect D20). Here temporary file, fsync, rename and
fsync of the directory leave either the old or the new file, and `.bak` holds the previous one, as upstream's does.
Pages: docs/internals/format/config.md, docs/internals/upstream-defects.md. Upstream: ConfigManager.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.storage.threads.mutex import Lock
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import ConfigReader

log = logging.getLogger("flintmq.store")


class ConfigFile:
    """One file of config/ with a data version. Thread: any."""

    def __init__(self, root: str, name: str, tables: Iterable[str], effects: Effects, peer: str) -> None:
        self.folder, self.name, self.effects, self.peer = os.path.join(root, directories.CONFIG), name, effects, peer
        reader = ConfigReader(self.folder, effects, strict=True)
        self.value: JsonObject = reader.load(name)  # content of the file with the changes made since
        self.problems = reader.problems  # of the file and its `.bak`, if it could not be used
        self.usable = name in reader.files  # False: `.bak` is the better one, or there is none
        self._tables = tuple(tables)
        self.changed = self._is_encoded = False
        self.changes = 0  # of anything but single members: who keeps what was read compares it
        self.lock = Lock()  # hold it to read or change `value`
        # Tables of which single members change: with thousands of groups, a commit encodes its own and no others.
        self._texts: dict[str | int, dict[str | int, str]] = {}
        self._new: dict[tuple[str, str | int], None] = {}  # members whose text is to be encoded, in order

    def table(self, name: str) -> JsonObject:
        """Return one table of the file, created if it is missing. The lock is held."""
        assert self.lock.locked()  # another thread may be writing the table out
        found = self.value.get(name)
        if not isinstance(found, dict):
            found = self.value[name] = {}
        return found

    def mark_changed(self, table: str = "", member: str = "") -> None:
        """Note that `value` is changed, so that `encode` returns it. The lock is held.

        With a table, only this member of it is changed or added, after this call: an interrupt between the two must not
        leave a member with the text that it had. Without, anything may be changed.
        """
        self._is_encoded, self.changed = False, True
        if table:
            self._new[table, member] = None
        else:
            self.changes += 1
            self._texts.clear()

    def mark_written(self) -> None:
        """Note that the file holds what `encode` returned last; a later change is to be written yet."""
        with self.lock:
            self.changed = self.changed and not self._is_encoded

    def encode(self) -> bytes | None:
        """Encode the file with the next data version; None if nothing changed since `mark_written`."""
        with self.lock:
            if not self.changed:
                return None
            self._is_encoded = True
            version = self.table("dataVersion")
            counter = config_json.integer(version.get("counter")) or 0
            for field in ("counter", "stateVersion"):  # fields by alphabet, as upstream
                version.setdefault(field, 0)
            version.update(counter=counter + 1, timestamp=self.effects.now_ms())
            for name in self._tables:
                self.table(name)
            known: dict[str | int, Any] = dict(sorted(self.value.items(), key=lambda pair: str(pair[0])))
            return config_json.write(known, self.peer, known=self._encoded_members())

    def _encoded_members(self) -> config_json.Texts:
        """Return the text of each member of some tables, for `config_json.write`. The lock is held."""
        for name, key in self._new:
            members = self.table(name)
            if name not in self._texts:
                self._texts[name] = {one: config_json.write_member(one, members[one], self.peer) for one in members}
            elif key in members:
                self._texts[name][key] = config_json.write_member(key, members[key], self.peer)
        self._new.clear()
        return self._texts

    def sibling(self, name: str) -> ConfigFile:
        """Return another file of the same config/, without tables of its own."""
        return ConfigFile(os.path.dirname(self.folder), name, (), self.effects, self.peer)

    def replace(self, value: JsonObject) -> bool:
        """Take what another broker's file holds, and write it unless it is here already.

        Fields of the top object that `value` lacks are kept. Its tables count as a whole, so entries that they lack are
        gone.

        Durability: on return. Raises OSError: the old file is untouched then, and the next call writes it.
        """
        with self.lock:
            merged: JsonObject = dict(sorted((self.value | value).items(), key=lambda pair: str(pair[0])))
            if merged == self.value and self.usable and not self.changed:
                return False
            data = config_json.write(merged, self.peer)
        # Without the lock: a sync takes long, and commits of offsets must not wait for it.
        self.write(data)
        with self.lock:
            self.value, self.changed = merged, False
            self.changes += 1
            self._texts.clear()
        return True

    def write(self, data: bytes) -> None:
        """Replace the file; the old one becomes `.bak`, or `.unusable` if it cannot be parsed.

        Durability: on return. Raises OSError: the old file is untouched then.
        """
        path = os.path.join(self.folder, self.name)
        self.effects.make_folder(self.folder)
        old = self.effects.read_file(path, config_json.MAX_BYTES)
        if old:
            # The old content first, under its other name: a kill between the two leaves both, and one is enough.
            replace_file(path + (".bak" if self.usable else ".unusable"), old, self.effects)
            if not self.usable:
                log.warning("%s could not be used, and is kept as %s.unusable", path, self.name)
        replace_file(path, data, self.effects)
        self.usable = True


def save(files: Iterable[ConfigFile], flush: Callable[[], bool]) -> int:
    """Write the files that changed.

    Thread: one at a time. Durability: on return. Raises OSError: the disk refused; the next call writes the remaining
    files.

    Args:
        flush: makes the log durable up to now and returns False if it cannot. An offset on disk must not include a
            message that a power cut can remove: the next message would get the same offset and count as consumed.
    """
    # Encoded before the log is flushed: an offset noted after that may be of a message that is not on disk.
    encoded = [(file, data) for file in files if (data := file.encode()) is not None]
    if not encoded or not flush():
        return 0
    for file, data in encoded:
        file.write(data)
        file.mark_written()  # not before: whatever interrupts this, the change is written by the next call
    return len(encoded)
