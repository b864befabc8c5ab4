"""Lists the index files and finds the geometry of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, StoreAccessError
from flintmq.forensics.verify.context import Ground
from flintmq.forensics.verify.index_cursor import IndexItems
from flintmq.forensics.verify.queue_files import BLOCK_BYTES, Disk
from flintmq.format import index
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import INDEX_KEYS, IndexGeometry, common_size, index_geometry

SAMPLED = 64  # items checked to judge a guess
_KEYS = ("maxHashSlotNum", "maxIndexNum")


class _HeadedFile(NamedTuple):
    path: str
    size: int
    header: index.Header
    shape: IndexGeometry


def index_items(root: str, config: StoreConfig, disk: Disk, ground: Ground) -> Iterator[IndexItems]:
    """Yield the index files that hold items, in log order, and report defects of the others."""
    folder = os.path.join(root, directories.INDEX)
    paths = []
    for name in disk.effects.listdir(folder):
        path = os.path.join(folder, name)
        if index.NAME.fullmatch(name):
            paths.append(path)
        else:
            ground.findings.note("unknown-file", f"{path} is not an index file", path)
    files = [file for path in paths if (file := _open(path, config, disk, ground)) is not None]
    files = [
        file for file in _of_one_size(files, config, ground) if _holds_items(file, file.path == paths[-1], disk, ground)
    ]
    before: IndexItems | None = None
    for file in _in_log_order(files, ground):
        before = IndexItems(file.path, file.header, file.shape, before, disk, ground)
        yield before


def _holds_items(file: _HeadedFile, last: bool, disk: Disk, ground: Ground) -> bool:
    """Return whether a file holds items; only the last one may have none, with empty slots."""
    if file.header.next_item > 1 and file.shape.items > 1:
        return True
    at = index.HEADER.offset("index_count")
    if file.header.index_count < 0:
        ground.findings.defect("index-header", file.path, at, "a count", str(file.header.index_count))
    elif not last:
        ground.findings.defect("index-file", file.path, None, "items, since later files exist", "none")
    elif ground.replay_from is None and not ground.live:
        used = _first_byte(file, disk)
        if used is not None:
            found = f"{file.header.index_count}, although position {used} is in use"
            ground.findings.defect("index-header", file.path, at, "a count of items", found)
    return False


def _first_byte(file: _HeadedFile, disk: Disk) -> int | None:
    """Return the position of the first nonzero byte after the header, skipping holes."""
    position: int | None = index.HEADER.size
    below = os.path.dirname(file.path)
    while position is not None and position < file.size:
        position = disk.next_data(file.path, below, position)
        data = b"" if position is None else disk.pread(file.path, below, BLOCK_BYTES, position)
        if position is None or not data:
            return None
        rest = data.lstrip(b"\0")
        if rest:
            return position + len(data) - len(rest)
        position += len(data)
    return None


def _open(path: str, config: StoreConfig, disk: Disk, ground: Ground) -> _HeadedFile | None:
    """Open a file; report it and return None if it is empty or cannot be understood."""
    size = disk.effects.size(path)
    below = os.path.dirname(path)
    if size == 0:
        ground.findings.note("empty-file", f"{path} is empty", path)
        return None
    try:
        raw = disk.pread(path, below, index.HEADER.size, 0)
        fd = disk.descriptor(path, below)
    except StoreAccessError as error:
        ground.findings.defect("index-file", path, None, "a file that can be read", str(error))
        return None
    if size is None or len(raw) < index.HEADER.size:
        ground.findings.defect("index-file", path, None, "a header of 40 bytes", f"{size} bytes")
        return None
    header = index.HEADER.unpack(raw)
    try:
        return _HeadedFile(path, size, header, index_geometry(path, size, config, fd, disk.effects))
    except ConfigError as error:
        shape = _guess(path, size, header, disk)
        if shape is not None:
            return _HeadedFile(path, size, header, shape)
        _not_divided(path, size, str(error), config, ground)
        return None


def _not_divided(path: str, size: int, why: str, config: StoreConfig, ground: Ground) -> None:
    """Report a file without a known geometry: a defect only if keys were given."""
    if any(key in config.given for key in _KEYS):
        ground.findings.defect("index-file", path, None, "a file that fits the keys given", why)
    else:
        ground.findings.note(
            "not-checked", f"{size} bytes do not determine slots and items; --set {' and '.join(_KEYS)}", path
        )


def _guess(path: str, size: int, header: index.Header, disk: Disk) -> IndexGeometry | None:
    """Guess RocketMQ's usual geometry, four items a slot, if size and most items agree with it.

    Most items suffice, because a damaged item does not change the geometry.
    """
    slots, rest = divmod(size - index.HEADER.size, index.SLOT.size + 4 * index.ITEM.size)
    newest = min(header.next_item, 4 * slots) - 1
    if rest or slots < 1 or newest < 1:
        return None
    right = tried = 0
    for number in range(newest, 0, -max(newest // SAMPLED, 1)):
        raw = disk.pread(path, os.path.dirname(path), index.ITEM.size, index.item_position(number, slots))
        if len(raw) < index.ITEM.size:
            return None
        item = index.ITEM.unpack(raw)
        tried += 1
        right += item.key_hash >= 0 and item.physical_offset >= 0 and 0 <= item.previous < number
    return IndexGeometry(slots, 4 * slots) if right * 2 > tried else None


def _of_one_size(files: list[_HeadedFile], config: StoreConfig, ground: Ground) -> list[_HeadedFile]:
    """Report and leave out files of another size than the others, or than the keys give."""
    given = config.given >= INDEX_KEYS
    due = config.index_file_size if given else common_size((file.size for file in files), 0)
    for file in files:
        if file.size != due:
            ground.findings.defect("index-file", file.path, None, f"{due} bytes", f"{file.size} bytes")
    return [file for file in files if file.size == due]


def _in_log_order(files: list[_HeadedFile], ground: Ground) -> list[_HeadedFile]:
    """Sort files by name, as RocketMQ does, or by offset if only that gives an order.

    Names do not follow the log if local time went back (a change of zone).
    """
    holding = [file for file in files if file.header.next_item > 1]
    if not _overlaps(holding):
        return holding
    by_offset = sorted(holding, key=lambda file: file.header.begin_physical_offset)
    if not _overlaps(by_offset):
        return by_offset
    for file in _overlaps(holding):
        at, found = index.HEADER.offset("begin_physical_offset"), f"log offset {file.header.begin_physical_offset}"
        ground.findings.defect("index-order", file.path, at, "a begin after the end of the file before", found)
    return holding


def _overlaps(files: list[_HeadedFile]) -> list[_HeadedFile]:
    return [
        file
        for before, file in pairwise(files)
        if file.header.begin_physical_offset < before.header.end_physical_offset
    ]
