"""The file `flintmq.queues`: the end of each queue at the last clean stop.

A queue that lost its directory or its last files does not show it; if the few records that a start reads belong to
other queues, nobody would notice. So a clean stop records the end of every queue. Ends never decrease, so the list
stays valid as a lower bound until RocketMQ writes the store, which may delete topics: it counts only beside a valid
`flintmq.mark`. RocketMQ does not know the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from flintmq.errors import FormatError
from flintmq.format.text import java_decode
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.versioned_json import VersionedJson, only
from flintmq.store.consumequeue.reader import batch_queue, plain_queue
from flintmq.store.consumequeue.writer import LARGEST_OFFSET
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import path_name, queue_names

FILE_NAME = "flintmq.queues"
FORMAT = 2
LARGEST = 64 << 20  # bytes that are read

Ends = dict[tuple[bytes, int], int]  # (topic, queue id) -> queue offset after the last message


def write(root: str, ends: Mapping[tuple[bytes, int], int], effects: Effects) -> None:
    """Write the list; queues whose topic cannot name a directory are left out.

    Durability: on return. Raises OSError: the old one is untouched then.
    """
    rows = sorted([os.fsdecode(topic), queue, end] for (topic, queue), end in ends.items() if path_name(topic))
    _file(root).save({"queues": rows}, effects)


def read(root: str, effects: Effects) -> Ends:
    """Read the list; empty if there is none or it is malformed."""
    data = effects.read_file(os.path.join(root, FILE_NAME), LARGEST) or b"[]"
    try:
        # FlintMQ 0.1 wrote the rows alone.
        ends = _ends(json.loads(data)) if data[:1] == b"[" else _file(root).parse(data, _built)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return {}
    return ends if all(0 <= end <= LARGEST_OFFSET for end in ends.values()) else {}


def _file(root: str) -> VersionedJson:
    return VersionedJson(os.path.join(root, FILE_NAME), ("format", FORMAT), lambda _: FormatError("malformed"), LARGEST)


def _built(state: dict[str, Any]) -> Ends:
    return _ends(only(state, ("queues",))["queues"])


def _ends(rows: Any) -> Ends:
    return {(os.fsencode(topic), int(queue)): int(end) for topic, queue, end in rows}


def forget(root: str, effects: Effects) -> None:
    path = os.path.join(root, FILE_NAME)
    if effects.size(path) is not None:
        effects.unlink(path)
        effects.sync_dir(root)


def on_disk(root: str, effects: Effects) -> Ends:
    """Return the end of each queue that has a directory, from its files.

    Raises StoreAccessError: a directory may not be listed, or a file not be read.
    """
    ends: Ends = {}
    for kind, listed in ((directories.QUEUES, plain_queue), (directories.BATCH_QUEUES, batch_queue)):
        for name in queue_names(root, kind, effects):
            units = listed(root, name, effects)
            end = units.end()
            last = units.unit(end - 1) if units.is_batch else None
            ends[os.fsencode(name.topic), name.queue_id] = end if last is None else units.span(end - 1, last)[1]
    return ends


def lost(ends: Mapping[tuple[bytes, int], int], found: Mapping[tuple[bytes, int], int]) -> list[str]:
    """Return the queues (`topic/queue id`) that end before their recorded end."""
    return [
        f"{java_decode(topic)}/{queue}" for (topic, queue), end in ends.items() if found.get((topic, queue), 0) < end
    ]
