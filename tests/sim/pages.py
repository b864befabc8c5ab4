"""The pages of a file on the simulated disk: shown, durable, and every version between.

A version of a 4 KiB page is its content after a store since the last successful sync of the page; version 0 is the
durable content. A power cut may leave any version of each page, independently of the others.
"""

from __future__ import annotations

import random

PAGE = 4096
SECTOR = 512


class SimMap(bytearray):
    """The bytes of a file, shared by all who map it."""

    def close(self) -> None:
        """Unmap. The bytes belong to the file."""


class SimFile:
    """One file, whatever its names.

    Attributes:
        shown: the content that the kernel shows.
        durable: the content that a successful sync covered; it may be shorter.
        versions: page -> its contents since, oldest first.
        bad: pages whose sync failed. Later syncs promise nothing about them.
        lost_stores: whether stores to a bad page never reach the disk.
        modified: Unix milliseconds of the last store.
    """

    __slots__ = ("bad", "durable", "lost_stores", "modified", "number", "seen", "shown", "versions")

    def __init__(self, number: int, data: bytes = b"", modified: int = 0, lost_stores: bool = False) -> None:
        self.number = number
        self.shown = SimMap(data)
        self.durable = self.seen = data
        self.versions: dict[int, list[bytes]] = {}
        self.bad: set[int] = set()
        self.lost_stores = lost_stores
        self.modified = modified

    def resize(self, size: int) -> None:
        """Change the size; new bytes are zeros. Old maps keep their content."""
        shown = SimMap(self.shown[:size])
        shown.extend(bytes(size - len(shown)))
        self.shown = shown

    def stored(self, begin: int, end: int, chance: random.Random) -> None:
        """Add versions of the pages of [begin, end), and for each one from within the store."""
        for page in range(begin // PAGE, -(-end // PAGE)):
            new = bytes(self.shown[page * PAGE : (page + 1) * PAGE])
            known = self.versions.get(page)
            old = known[-1] if known else self.durable[page * PAGE : (page + 1) * PAGE]
            if new == old or (page in self.bad and self.lost_stores):
                continue
            if new.rstrip(b"\0") == old.rstrip(b"\0"):  # only the size differs
                continue
            self.versions.setdefault(page, []).extend((_inside(old, new, chance), new))
        self.seen = bytes(self.shown)

    def look(self, chance: random.Random) -> bool:
        """Record stores into a map that were not reported; return whether there were any."""
        if self.shown == self.seen:  # type: ignore[comparison-overlap]  # a bytearray and bytes
            return False
        self.stored(0, len(self.shown), chance)
        return True

    def synced(self) -> None:
        """Make everything durable except bad pages, after a successful sync."""
        if not self.bad:
            self.durable = self.seen
            self.versions.clear()
            return
        data = bytearray(self.seen)
        for page in self.bad:
            old = self.durable[page * PAGE : (page + 1) * PAGE]
            data[page * PAGE : page * PAGE + len(old)] = old
        self.durable = bytes(data)
        self.versions = {page: self.versions[page] for page in self.bad if page in self.versions}

    def failed(self, shows_old: bool) -> None:
        """Mark pages as bad after a failed sync; they show the stores, or (btrfs) durable content."""
        self.bad |= self.versions.keys()
        for page in sorted(self.versions) if shows_old else ():
            old = self.durable[page * PAGE : (page + 1) * PAGE]
            count = min(PAGE, len(self.shown) - page * PAGE)
            self.shown[page * PAGE : page * PAGE + count] = old[:count].ljust(count, b"\0")
        self.seen = bytes(self.shown)

    def dropped(self, begin: int, end: int, chance: random.Random) -> None:
        """Drop bad pages of a range from the cache, so that any version of each may be shown."""
        for page in sorted(self.bad & set(range(begin // PAGE, -(-end // PAGE)))):
            kept = chance.choice([self.durable[page * PAGE : (page + 1) * PAGE], *self.versions.pop(page, ())])
            count = min(PAGE, len(self.shown) - page * PAGE)
            kept = kept[:count].ljust(count, b"\0")
            self.shown[page * PAGE : page * PAGE + count] = kept
            data = bytearray(self.durable.ljust(page * PAGE + count, b"\0"))
            data[page * PAGE : page * PAGE + count] = kept
            self.durable = bytes(data)
            self.bad.discard(page)
        self.seen = bytes(self.shown)


def _inside(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """Return a page in the middle of a store: cut at any changed byte, either part first."""
    size = max(len(old), len(new))
    old = old.ljust(size, b"\0")
    first = next((n for n in range(0, size, 64) if old[n : n + 64] != new[n : n + 64]), 0)
    last = next((n for n in range(size - size % 64, -1, -64) if old[n : n + 64] != new[n : n + 64]), size)
    cut = chance.randint(first, min(last + 64, size))
    return new[:cut] + old[cut:] if chance.random() < 0.7 else old[:cut] + new[cut:].ljust(size - cut, b"\0")


def torn(one: bytes, other: bytes, mask: int) -> bytes:
    """Return a page with each sector from one of two versions, by the bits of a mask."""
    size = max(len(one), len(other))
    both = one.ljust(size, b"\0"), other.ljust(size, b"\0")
    return b"".join(both[mask >> n & 1][at : at + SECTOR] for n, at in enumerate(range(0, size, SECTOR)))
