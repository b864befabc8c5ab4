"""Determines the sizes of queue and index files, and the division of index files.

One rule for all: a given key decides; without one, the store's own files; without files, RocketMQ's default. A key that
the files contradict is refused before (`given_sizes`). Engine, rebuild, verify and the dispatch job use this, so they
write and expect files of the same size. Index files do not record
their number of slots; it is guessed from the size and verified on the items (docs/internals/format/index.md).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError
from flintmq.format import index
from flintmq.format.batch_queue import BATCH_UNIT_SIZE
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.format.consume_queue_ext import EXT_UNIT, FILE_END_ROOM
from flintmq.format.layout import Layout
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.layout import directories
from flintmq.store.layout.directories import OFFSET_NAME
from flintmq.store.layout.queue_name import QueueName, each_queue_name

LARGEST_FILE: Final = (1 << 31) - 1  # bytes; RocketMQ counts what it maps in 32 bits
QUEUES = 100  # number of queues whose file sizes are counted
SIZE_KEYS: Final = {
    directories.QUEUES: "mappedFileSizeConsumeQueue",
    directories.BATCH_QUEUES: "mapperFileSizeBatchConsumeQueue",
    directories.EXT_QUEUES: "mappedFileSizeConsumeQueueExt",
}
INDEX_KEYS: Final = frozenset(("maxHashSlotNum", "maxIndexNum"))
_LEAST: Final = {  # bytes of the smallest file that can hold a unit
    directories.QUEUES: UNIT_SIZE,
    directories.BATCH_QUEUES: BATCH_UNIT_SIZE,
    directories.EXT_QUEUES: EXT_UNIT.min_size + FILE_END_ROOM,
}
T = TypeVar("T", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class FileGeometry:
    queue_file: int  # queue_file, ext_file, batch_file: bytes of these files; ext_file 0 without ext queues
    ext_file: int
    batch_file: int
    slots: int
    items: int

    @classmethod
    def of(cls, root: str, config: StoreConfig, effects: Effects) -> FileGeometry:
        def size(kind: str) -> int:
            return queue_file_size(root, kind, config, effects) or int(str(config.key(SIZE_KEYS[kind])))

        has_ext = config.enable_consume_queue_ext or effects.is_dir(os.path.join(root, directories.EXT_QUEUES))
        return cls(
            -(-size(directories.QUEUES) // UNIT_SIZE) * UNIT_SIZE,
            size(directories.EXT_QUEUES) if has_ext else 0,
            size(directories.BATCH_QUEUES),
            *_division(root, config, effects),
        )


def queue_file_size(root: str, kind: str, config: StoreConfig, effects: Effects) -> int | None:
    """Return the size of queue files: as given, else the most frequent one; None without either.

    The files of the first hundred queues count, if they are long enough for a unit.
    """
    if SIZE_KEYS[kind] in config.given:
        plain = kind == directories.QUEUES
        return config.consume_queue_file_size if plain else int(str(config.key(SIZE_KEYS[kind])))
    return common_size((file.size for file in queue_files(root, kind, effects)), 0) or None


def queue_files(root: str, kind: str, effects: Effects) -> list[SizedFile]:
    """List the files that are long enough for a unit, of the first hundred queues that have one."""
    below = os.path.join(root, kind)

    def files(name: QueueName) -> list[SizedFile]:
        folder = os.path.join(below, name.topic, str(name.queue_id))
        return [file for file in sized_files(folder, effects, below) if file.size >= _LEAST[kind]]

    found = filter(None, map(files, each_queue_name(root, kind, effects)))
    return [file for queue in islice(found, QUEUES) for file in queue]


def sized_files(folder: str, effects: Effects, below: str | None = None) -> list[SizedFile]:
    """List the files of a directory that are named by an offset; those of 0 bytes are left out."""
    paths = (os.path.join(folder, name) for name in effects.listdir(folder, below) if OFFSET_NAME.fullmatch(name))
    return [SizedFile(path, size) for path in paths if (size := effects.size(path))]


def _division(root: str, config: StoreConfig, effects: Effects) -> IndexGeometry:
    """Return the division as given by both keys, else as `index_division` finds it."""
    if config.given >= INDEX_KEYS:
        return IndexGeometry(config.max_hash_slot_num, config.max_index_num)
    return index_division(index_files(root, effects), config, effects)[0]


class SizedFile(NamedTuple):
    """A file as it was listed: its path, and its bytes then."""

    path: str
    size: int


def index_files(root: str, effects: Effects = REAL) -> list[SizedFile]:
    """List the index files of a store, oldest first, without empty files and other names."""
    folder = os.path.join(root, directories.INDEX)
    paths = (os.path.join(folder, name) for name in effects.listdir(folder) if index.NAME.fullmatch(name))
    return [SizedFile(path, size) for path in paths if (size := effects.size(path))]


def common_size(sizes: Iterable[int], default: int) -> int:
    """Return the most frequent size, the larger of two equally frequent ones, or `default`.

    Sizes that RocketMQ's files cannot have, zero and more than 2 GiB, do not count.
    """
    counts = Counter(size for size in sizes if 0 < size <= LARGEST_FILE)
    return max(counts, key=lambda size: (counts[size], size)) if counts else default


class IndexGeometry(NamedTuple):
    slots: int
    items: int  # room for items; number 0 is never used

    @property
    def file_size(self) -> int:
        return index.file_size(self.slots, self.items)


def index_header(path: str, effects: Effects = REAL) -> index.Header | None:
    """Read the header of an index file without its geometry; None if the file is too short."""
    data = effects.read_file(path, index.HEADER.size)
    return index.HEADER.unpack(data) if data is not None and len(data) == index.HEADER.size else None


def index_geometry(
    path: str, size: int, config: StoreConfig, fd: int | None = None, effects: Effects = REAL
) -> IndexGeometry:
    """Determine slots and items of the index file at `path`, which has `size` bytes.

    Given keys decide, unless the file has another size and shows its division by itself. Without them, if the size is
    the default's, so is the division; else RocketMQ's usual four items a slot are assumed, if the file's own items
    confirm it.
    """
    if size > LARGEST_FILE:
        raise ConfigError(f"{size} bytes, more than RocketMQ's files have; move it out of the store", place=path)
    given = given_division(size, config)
    usual = _usual_division(size)
    if given is not None:
        if given.file_size != size and fd is not None and (shown := shown_division(fd, size, effects)) is not None:
            return shown  # made with other keys; a directory may hold files of several divisions
        fits = (size - index.HEADER.size - index.SLOT.size * given.slots) // index.ITEM.size
        if size > given.file_size and config.given >= INDEX_KEYS:
            raise ConfigError(f"{size} bytes are too many for {division_text(config)}; correct these keys", place=path)
        if given.slots < 1 or min(fits, given.items) < 1:
            raise ConfigError(f"{size} bytes are too few for {division_text(config)}; correct these keys", place=path)
        return IndexGeometry(given.slots, min(fits, given.items))
    if size == config.index_file_size:
        return IndexGeometry(config.max_hash_slot_num, config.max_index_num)
    if usual is None or (fd is not None and not proves(fd, usual, effects)):
        raise ConfigError(
            f"its size ({size}) does not determine its slots and items; give maxHashSlotNum and maxIndexNum", place=path
        )
    return usual


def given_division(size: int, config: StoreConfig) -> IndexGeometry | None:
    """Return the division by the given keys, one of which `size` completes; None without one."""
    room = size - index.HEADER.size
    slots, items = config.max_hash_slot_num, config.max_index_num
    if "maxHashSlotNum" not in config.given:
        slots = (room - index.ITEM.size * items) // index.SLOT.size
    elif "maxIndexNum" not in config.given:
        items = (room - index.SLOT.size * slots) // index.ITEM.size
    return IndexGeometry(slots, items) if config.given & INDEX_KEYS else None


def division_text(config: StoreConfig) -> str:
    """Return the given keys of the division, with their values, for errors."""
    return " and ".join(f"{key}={config.key(key)}" for key in sorted(config.given & INDEX_KEYS))


def _usual_division(size: int) -> IndexGeometry | None:
    """Return the division into four items a slot, RocketMQ's usual one, if it gives this size."""
    slots, rest = divmod(size - index.HEADER.size, index.SLOT.size + 4 * index.ITEM.size)
    return IndexGeometry(slots, 4 * slots) if slots >= 1 and not rest else None


def shown_division(fd: int, size: int, effects: Effects) -> IndexGeometry | None:
    """Return the division that an index file shows by itself.

    It is the usual one, if the newest items are in their places; else, and without items, None.
    """
    usual = _usual_division(size)
    return usual if usual is not None and item_count(fd, effects) and proves(fd, usual, effects) else None


def item_count(fd: int, effects: Effects) -> int:
    """Return how many items an index file holds, by its header."""
    return max(_unpack(index.HEADER, fd, 0, effects).next_item - 1, 0)


def proves(fd: int, guess: IndexGeometry, effects: Effects) -> bool:
    """Return whether the newest items, read where the guess puts them, match their slots.

    True without items.
    """
    newest = _unpack(index.HEADER, fd, 0, effects).next_item - 1
    if newest >= guess.items:
        return False
    for number in range(newest, max(newest - 16, 0), -1):
        item = _unpack(index.ITEM, fd, index.item_position(number, guess.slots), effects)
        if item.key_hash < 0 or not 0 <= item.previous < number:
            return False
        slot = _unpack(index.SLOT, fd, index.slot_position(item.key_hash % guess.slots), effects)
        if not number <= slot.item <= newest:
            return False
    return True


def _unpack(layout: Layout[T], fd: int, position: int, effects: Effects) -> T:
    """Read a value of the index; bytes beyond the end of the file read as zeros."""
    return layout.unpack(effects.pread(fd, layout.size, position).ljust(layout.size, b"\0"))


def index_division(
    files: Sequence[SizedFile], config: StoreConfig, effects: Effects, *, refuse: bool = False
) -> tuple[IndexGeometry, list[str]]:
    """Return the division of the newest index file that holds its items, and the files after it.

    The files after it are too short for the items that they count. Without such a file the division is as configured.

    `refuse`: raise if a newer file does not show its division, as a writer must that continues the newest file;
    otherwise raise only if no file shows it.
    """
    spoilt: list[str] = []
    unknown: ConfigError | None = None
    for file in reversed(files):
        try:
            with effects.reading(file.path) as fd:
                shape = index_geometry(file.path, effects.size_of(fd), config, fd, effects)
                count = _unpack(index.HEADER, fd, 0, effects).index_count
            if shape.items > 1 and count <= shape.items:
                return shape, spoilt
        except FileNotFoundError:
            if refuse:
                raise
        except ConfigError as error:
            if refuse and not config.given >= INDEX_KEYS:
                raise
            unknown = unknown or error
        spoilt.append(file.path)
    if unknown is not None and not config.given >= INDEX_KEYS:
        raise unknown
    return IndexGeometry(config.max_hash_slot_num, config.max_index_num), spoilt
