"""Numbers the states that a power cut may leave of a simulated disk, to make them again.

If they are few, all of them; else the corner states (nothing, everything, each prefix of the names, all pages but one,
only one, the last one) and then random ones up to the budget, of which every third has torn sectors.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from tests.sim.disk import Image, SimDisk
from tests.sim.names import Folders, split
from tests.sim.pages import PAGE, SimFile, torn

EXHAUSTIVE = 4096  # number of states up to which all are taken, if the budget allows
Pages = tuple[int, ...]  # for each uncertain page: the number of its version, or a coded mixture of two (see _page)
TORN = 1 << 16
Sizes = dict[SimFile, int]


@dataclass(frozen=True)
class PowerCutState:
    """One state after a power cut.

    Attributes:
        names: number of the state of the journal.
        pages: version of each uncertain page.
    """

    names: int
    pages: Pages


@dataclass
class Uncertain:
    """The pages and names on a disk that a power cut may lose.

    Attributes:
        disk: the disk.
        pages: (file, page, versions with the durable one first) of each page.
    """

    disk: SimDisk
    pages: list[tuple[SimFile, int, list[bytes]]] = field(default_factory=list)
    _placed: dict[int, tuple[list[tuple[str, SimFile | None]], Sizes]] = field(default_factory=dict)
    _contents: dict[tuple[int, int | None, Pages], bytes] = field(default_factory=dict)

    @staticmethod
    def of(disk: SimDisk) -> Uncertain:
        """Collect the uncertainty of a watched disk at this moment."""
        disk.look()
        assert disk.journal is not None, "the disk is not watched"
        there = {file.number: file for names in disk.folders.values() for file in names.values() if file is not None}
        for names in disk.journal.durable.values():
            there.update({file.number: file for file in names.values() if file is not None})
        found = Uncertain(disk)
        for _, file in sorted(there.items()):
            for page, versions in sorted(file.versions.items()):
                found.pages.append((file, page, [file.durable[page * PAGE : (page + 1) * PAGE], *versions]))
        return found

    @property
    def states(self) -> int:
        """Number of states, without those with torn sectors."""
        assert self.disk.journal is not None
        return self.disk.journal.states * prod(len(versions) for _, _, versions in self.pages)

    def choose(self, budget: int, chance: random.Random) -> Iterator[PowerCutState]:
        """Yield at most `budget` states, the same ones for the same disk and chance."""
        assert self.disk.journal is not None
        names = self.disk.journal.states
        total = self.states
        if total <= min(EXHAUSTIVE, budget):
            for number in range(total):
                rest, pages = number // names, []
                for _, _, versions in self.pages:
                    rest, version = divmod(rest, len(versions))
                    pages.append(version)
                yield PowerCutState(number % names, tuple(pages))
            left = min(budget - total, total) if self.pages else 0
        else:
            corners = list(self._corners(names))
            if len(corners) > budget // 2:
                corners = corners[:2] + chance.sample(corners[2:], max(budget // 2 - 2, 0))
            yield from corners
            left = budget - len(corners)
        for _ in range(left):
            yield self._random(names, chance)

    def _corners(self, names: int) -> Iterator[PowerCutState]:
        last = tuple(len(versions) - 1 for _, _, versions in self.pages)
        none = (0,) * len(last)
        yield PowerCutState(0, none)
        yield PowerCutState(names - 1, last)
        for number in range(names) if names <= 64 else ():
            yield PowerCutState(number, none)
            yield PowerCutState(number, last)
        for at in range(len(last)) if len(last) > 1 else ():
            yield PowerCutState(names - 1, (*last[:at], 0, *last[at + 1 :]))
            yield PowerCutState(names - 1, (*none[:at], last[at], *none[at + 1 :]))

    def _random(self, names: int, chance: random.Random) -> PowerCutState:
        pages = []
        tears = chance.random() < 0.34
        mostly = chance.choice((0.1, 0.5, 0.9))
        for _, _, versions in self.pages:
            count = len(versions)
            version = count - 1 if chance.random() < mostly else chance.randrange(count)
            if tears and count > 1 and chance.random() < 0.5:
                other = chance.randrange(count)
                version = TORN * (1 + chance.getrandbits(8)) + version * 256 + other if count < 256 else version
            pages.append(version)
        return PowerCutState(chance.randrange(names) if chance.random() < 0.7 else names - 1, tuple(pages))

    def image(self, state: PowerCutState) -> Image:
        """Return the disk's content after a power cut that leaves this state."""
        assert self.disk.journal is not None
        if state.names not in self._placed:
            folders, sizes = self.disk.journal.after(self.disk.journal.mask(state.names))
            self._placed[state.names] = _listed(folders), sizes
        listed, sizes = self._placed[state.names]
        chosen: dict[int, list[int]] = {}
        for at, (file, _, _) in enumerate(self.pages):
            chosen.setdefault(file.number, []).append(at)
        found = {
            path: None if file is None else self._content(file, sizes.get(file), chosen.get(file.number, ()), state)
            for path, file in listed
        }
        return Image(found, self.disk.clock, self.disk.boot + 1, power=True)

    def _content(self, file: SimFile, size: int | None, places: Sequence[int], state: PowerCutState) -> bytes:
        """Return a file's bytes, cached: many states share them."""
        key = file.number, size, tuple(state.pages[at] for at in places)
        if key not in self._contents:
            pages = [(self.pages[at][1], _page(self.pages[at][2], state.pages[at])) for at in places]
            self._contents[key] = _content(file, size, pages)
        return self._contents[key]


def _listed(folders: Folders) -> list[tuple[str, SimFile | None]]:
    """Return (path, file or None for a directory) of all reachable names, parents first."""
    found: list[tuple[str, SimFile | None]] = []
    reached = set()
    for path in sorted(folders):  # a directory sorts before its content
        parent, name = split(path)
        if path == "/":
            reached.add(path)
        elif parent in reached and name in folders[parent]:
            reached.add(path)
            found.append((path, None))
        else:
            continue
        found += ((os.path.join(path, name), held) for name, held in sorted(folders[path].items()) if held is not None)
    return found


def _page(versions: list[bytes], number: int) -> bytes:
    if number < TORN:
        return versions[number]
    mask, rest = number // TORN - 1, number % TORN
    return torn(versions[rest // 256], versions[rest % 256], mask)


def _content(file: SimFile, size: int | None, pages: list[tuple[int, bytes]]) -> bytes:
    """Return a file's bytes; `size` if it was set, else up to its last page."""
    if not pages:
        data = file.durable
        return data if size is None or size == len(data) else data[:size].ljust(size, b"\0")
    whole = bytearray(file.durable)
    for page, content in pages:
        if len(whole) < page * PAGE:
            whole.extend(bytes(page * PAGE - len(whole)))
        whole[page * PAGE : page * PAGE + len(content)] = content
    if size is not None:
        del whole[size:]
        whole.extend(bytes(size - len(whole)))
    return bytes(whole)
