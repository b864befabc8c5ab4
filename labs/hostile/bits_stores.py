"""Small stores for flipped bits: ten records of all shapes, left as by five kinds of stops."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.format import checkpoint, flintmq_mark, record
from flintmq.message import Message, PutMessageStatus
from flintmq.store.message_store import MessageStore
from tests.support.crashed import Clock

FILE_SIZE = 1024
KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": FILE_SIZE, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 8, "maxIndexNum": 32
}  # fmt: skip
RECORDS = 10  # a store
CLEAN, KILLED = ("clean", "clean, no mark"), ("flushed", "unflushed", "killed, no mark")
STOPS = (*CLEAN, *KILLED)


class Quick(Clock):
    """The engine's disk: a clock that goes on, and syncs that are not done, as the process does not die."""


@dataclass
class Store:
    """A store as five kinds of stops leave it: directories that share the files of one log.

    Attributes:
        roots: stop -> directory.
        records: as the slow codec reads them.
    """

    roots: dict[str, Path]
    records: list[record.Record]
    keys: dict[str, Any]

    def __post_init__(self) -> None:
        self.config = StoreConfig.from_keys(self.keys)

    @cached_property
    def raw(self) -> list[bytes]:
        """The records' bytes, undamaged."""
        return [record.encode(one) for one in self.records]

    @property
    def end(self) -> int:
        return self.records[-1].physical_offset + self.records[-1].size

    def path(self, offset: int) -> Path:
        """The file that holds a log offset."""
        return next(iter(self.roots.values())) / "commitlog" / f"{offset - offset % FILE_SIZE:020d}"


def messages(seed: int) -> Iterator[Message]:
    """Ten messages of all shapes, small ones mostly."""
    chance = random.Random(f"bits {seed}")
    for n in range(RECORDS):
        body = chance.choice((b"", b"x", chance.randbytes(20), b"text of a message", chance.randbytes(60)))
        more = {"p": "v" * chance.randrange(1, 9)} if chance.random() < 0.3 else None
        topic = chance.choice(("T", "T", "Orders", "库存", "%RETRY%" + "L" * 130 if n == 3 else "U"))
        tags, key = chance.choice((None, "a", "paid")), f"k{n}" if chance.random() < 0.7 else None
        yield Message(topic, body, tags=tags, keys=key, properties=more, queue_id=chance.randrange(2), flag=n)


def make(folder: Path, seed: int) -> Store:
    """Write one; every fifth has whole-record checksums (`enabledAppendPropCRC`)."""
    keys = KEYS | {"enabledAppendPropCRC": seed % 5 == 4, "defaultTopicQueueNums": 2}
    first = folder / "0"
    with MessageStore(first, config=keys, effects=Quick(), unique_keys=False) as store:
        for message in messages(seed):
            assert store.put(message).status is PutMessageStatus.PUT_OK
    made = Store({}, _records(first), keys)
    last = made.records[-1].store_timestamp
    for n, stop in enumerate(STOPS):
        root = folder / str(n)
        if n:
            shutil.copytree(first, root, copy_function=_linked)
        made.roots[stop] = root
        if "no mark" in stop:
            (root / "flintmq.mark").unlink()
        if stop not in ("clean", "clean, no mark"):
            (root / "abort").write_text("1")
        if stop in ("flushed", "unflushed"):
            flushed, at = (made.end, last) if stop == "flushed" else (0, 0)
            _replace(root / "checkpoint", checkpoint.encode(checkpoint.Checkpoint(at, at)))
            _replace(root / "flintmq.mark", flintmq_mark.encode(flushed, at))
    return made


def _linked(source: str, to: str) -> None:
    """The log is shared by all stops, the rest is not."""
    os.link(source, to) if "/commitlog/" in source else shutil.copyfile(source, to)


def _replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def _records(root: Path) -> list[record.Record]:
    found = []
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            try:
                found.append(record.check(data, at, int(path.name) + at, file_end=len(data)))
            except record.RecordError as error:
                assert error.kind in ("BLANK", "ZERO"), error
                break
            at += found[-1].size
    return found
