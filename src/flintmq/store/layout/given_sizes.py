"""Refuses sizes that were given and that the files of a store contradict.

A size in the configuration says how long files are that will be made. Where there are files already, they show it: with
another number queue offsets would lead into the wrong file, so messages would be hidden, and groups would pass over
them. RocketMQ refuses to load then, but for the index, which it reads wrongly without a word. Here every door asks, and
before it changes a byte: `open_root` for what reads, `store/assembly.py` for the engine. Which keys, and what shows
them, is a table (`config/key_effects.SHOWN`). What nobody gave is taken from the files (`file_geometry`).

Upstream: MappedFileQueue.doLoad.
"""

from __future__ import annotations

import os
from typing import Final

from flintmq.config.key_effects import SHOWN
from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError
from flintmq.format import index
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.layout import directories
from flintmq.store.layout.file_geometry import (
    INDEX_KEYS,
    SIZE_KEYS,
    IndexGeometry,
    SizedFile,
    common_size,
    division_text,
    given_division,
    index_files,
    item_count,
    proves,
    queue_files,
    shown_division,
    sized_files,
)

_KINDS: Final = {key: kind for kind, key in SIZE_KEYS.items()}
_PAGE: Final = 4096
_LEAVE_IT_OUT: Final = "leave it out, the files show it"


def open_root(path: str | os.PathLike[str], config: StoreConfig, effects: Effects = REAL) -> str:
    root = directories.find_root(path, config, effects)
    refuse_other_sizes(root, config, effects)
    return root


def refuse_other_sizes(root: str, config: StoreConfig, effects: Effects) -> None:
    """Compare the sizes that were given with the store's files.

    Nothing is listed for those that were not given.
    """
    for key in sorted(config.given & SHOWN.keys() - INDEX_KEYS):
        size = _as_made(key, int(str(config.key(key))))
        _refuse_other_size(key, size, _files(key, root, config, effects), config)
    if config.given & INDEX_KEYS:
        _refuse_other_division(index_files(root, effects), config, effects)


def _files(key: str, root: str, config: StoreConfig, effects: Effects) -> list[SizedFile]:
    if key in _KINDS:
        return queue_files(root, _KINDS[key], effects)
    if key == "mappedFileSizeTimerLog":
        return sized_files(os.path.join(root, directories.TIMER_LOG), effects)
    places = directories.log_directories(root, config, effects, absent=True)
    files = [file for place in places for file in sized_files(place.path, effects)]
    return [file for file in files if file.size % _PAGE == 0]  # any other one was cut short, and shows nothing


def _as_made(key: str, size: int) -> int:
    """Return the bytes that RocketMQ gives a file: those of plain queues are whole units."""
    return -(-size // UNIT_SIZE) * UNIT_SIZE if key == SIZE_KEYS[directories.QUEUES] else size


def _refuse_other_size(key: str, size: int, files: list[SizedFile], config: StoreConfig) -> None:
    found = common_size((file.size for file in files if _as_made(key, file.size) == file.size), 0)
    if found and found != size:
        path = next(file.path for file in files if file.size == found)
        raise ConfigError(f"{key}={config.key(key)}: the store's files have {found} bytes, as {path}; {_LEAVE_IT_OUT}")


def _refuse_other_division(files: list[SizedFile], config: StoreConfig, effects: Effects) -> None:
    """Compare the division of index files.

    Those of the most frequent size count, and the newest of them that shows its division decides.
    """
    size = common_size((file.size for file in files), 0)
    given = given_division(size, config)
    for file in reversed(files):
        if file.size != size or given is None:
            continue
        try:
            with effects.reading(file.path) as fd:
                shown, fits = shown_division(fd, size, effects), _divided_so(fd, size, given, effects)
        except FileNotFoundError:  # a living broker has deleted it
            continue
        if fits and shown in (None, given):
            return
        if fits is not None or shown is not None:
            found = f"{size} bytes" if shown is None else f"{shown.slots} slots and {shown.items} items"
            raise ConfigError(
                f"{division_text(config)}: the store's index files have {found}, as {file.path}; {_LEAVE_IT_OUT}"
            )


def _divided_so(fd: int, size: int, given: IndexGeometry, effects: Effects) -> bool | None:
    """Return whether an index file is divided as given.

    None if it may have been cut short, which is harmless: it is made again.
    """
    if min(given) < 1:
        return False
    if size == given.file_size:
        return True  # if its items are elsewhere, they are damaged, or somebody inserts one
    room, items = size - index.file_size(given.slots, 0), item_count(fd, effects)
    proven = items > 0 and items * index.ITEM.size < room and proves(fd, given, effects)
    if size > given.file_size:
        return proven  # RocketMQ lengthens a file that is too short for its keys, and leaves its items
    return False if not proven and not size % index.SLOT.size and 0 < items * index.ITEM.size < room else None
