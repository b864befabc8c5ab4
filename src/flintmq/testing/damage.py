"""Damages the files of a store as disks, crashes and people do.

Each function changes one file in place and returns a description. `random_damage` picks file, place and kind by a seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flintmq.errors import UsageError

SECTOR = 512
AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class InjectedDamage:
    """One piece of damage: `length` bytes from `position` of `file`, changed or cut off."""

    kind: str
    file: Path
    position: int
    length: int


def _within(path: Path, position: int, length: int) -> Path:
    """Return the path if the file has these bytes; raise UsageError if not."""
    size = path.stat().st_size
    if not 0 <= position <= position + length <= size:
        raise UsageError(f"{path}: {length} bytes at {position} are not within its {size} bytes")
    return path


def _change(kind: str, file: AnyPath, position: int, data: bytes) -> InjectedDamage:
    """Write other bytes into a file, which keeps its size."""
    path = _within(Path(file), position, len(data))
    with path.open("r+b") as opened:
        opened.seek(position)
        opened.write(data)
    return InjectedDamage(kind, path, position, len(data))


def _bytes(file: AnyPath, position: int, length: int) -> bytes:
    with _within(Path(file), position, length).open("rb") as opened:
        opened.seek(position)
        return opened.read(length)


def flip(file: AnyPath, position: int, mask: int = 1) -> InjectedDamage:
    """Flip the bits of `mask` in one byte.

    Raises:
        UsageError: the file has no such byte.
    """
    return _change("flip", file, position, bytes([_bytes(file, position, 1)[0] ^ mask]))


def zero(file: AnyPath, position: int, length: int = SECTOR) -> InjectedDamage:
    """Overwrite with zeros, like a sector that was never written.

    Raises:
        UsageError: the range goes beyond the file.
    """
    return _change("zero", file, position, bytes(length))


def rubbish(file: AnyPath, position: int, length: int = SECTOR, seed: int = 0) -> InjectedDamage:
    """Overwrite with random bytes.

    Raises:
        UsageError: the range goes beyond the file.
    """
    return _change("rubbish", file, position, random.Random(seed).randbytes(length))


def swap(file: AnyPath, first: int, second: int, length: int = SECTOR) -> InjectedDamage:
    """Exchange two ranges, like writes that went to each other's place.

    Raises:
        UsageError: a range goes beyond the file, or they overlap.
    """
    if abs(first - second) < length:
        raise UsageError("ranges to swap must not overlap")
    a, b = _bytes(file, first, length), _bytes(file, second, length)
    _change("swap", file, second, a)
    return _change("swap", file, first, b)


def stale(file: AnyPath, position: int, source: int, length: int = SECTOR) -> InjectedDamage:
    """Overwrite with the bytes at `source`: old bytes, correct except for their place.

    Raises:
        UsageError: a range goes beyond the file.
    """
    return _change("stale", file, position, _bytes(file, source, length))


def cut(file: AnyPath, size: int) -> InjectedDamage:
    """Truncate the file.

    Raises:
        UsageError: the file is not longer than that.
    """
    path = Path(file)
    old = path.stat().st_size
    if not 0 <= size < old:
        raise UsageError(f"{path} has {old} bytes and cannot be cut to {size}")
    os.truncate(path, size)
    return InjectedDamage("cut", path, size, old - size)


KINDS = ("flip", "zero", "cut", "swap", "stale", "rubbish")


def random_damage(store: AnyPath, seed: int, kinds: Sequence[str] = KINDS, folder: str = "") -> InjectedDamage:
    """Damage one file of the store or of one of its folders, as the seed decides.

    Ranges are sectors of 512 bytes at a multiple of 512, or smaller in a smaller file.

    Raises:
        UsageError: there is no file with any bytes.
    """
    source = random.Random(seed)
    files = sorted(path for path in (Path(store) / folder).rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        raise UsageError(f"{Path(store) / folder}: no files to damage")
    file = source.choice(files)
    used = _used(file)
    kind = source.choice(kinds)
    if kind == "flip" or used < 2:
        return flip(file, source.randrange(used), 1 << source.randrange(8))
    if kind == "cut":
        return cut(file, source.randrange(used))
    length = min(SECTOR, used // 2)
    first, second = source.sample(range(used // length), 2)
    if kind == "zero":
        return zero(file, first * length, length)
    if kind == "rubbish":
        return rubbish(file, first * length, length, seed)
    return (swap if kind == "swap" else stale)(file, first * length, second * length, length)


def _used(file: Path) -> int:
    """Return the position after the last nonzero byte, so that damage hits data."""
    size, piece = file.stat().st_size, 1 << 20
    with file.open("rb") as opened:
        for start in range((size - 1) // piece * piece, -1, -piece):
            opened.seek(start)
            data = opened.read(piece).rstrip(b"\0")
            if data:
                return start + len(data)
    return size
