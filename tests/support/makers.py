"""Small stores and index files made by hand, straight from the layouts: what the tests of verify compare with."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import Verification, verify
from flintmq.format.text import java_hash
from flintmq.testing.damage import flip as flip
from tests.compat.stores import Golden
from tests.support.kernel_records import records

LOG_SIZE, QUEUE_SIZE = 8192, 400
TIME = 1_700_000_000_000
PRE_BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)


def config_of(store: Golden) -> StoreConfig:
    """The keys that a golden store was written with."""
    return StoreConfig.from_keys(store.config)


def codes(found: Verification) -> tuple[dict[str, int], dict[str, int]]:
    return found.defect_counts, found.note_counts


def check(
    root: Path, store: Golden, *, defects: Iterable[str] = (), notes: Iterable[str] | None = None
) -> Verification:
    """Verify a copy of a golden store: exactly these codes, and notes if they are given."""
    found = verify(root, config_of(store))
    assert set(found.defect_counts) == set(defects), found.defects[:5]
    if notes is not None:
        assert set(found.note_counts) == set(notes), found.notes[:5]
    assert found.exit_code == (1 if set(defects) else 0)
    return found


def patch(path: str | Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def hurt_body(root: Path, offset: int) -> tuple[Path, int]:
    """Flip a bit in the body of the record at a log offset, again to undo; gives its file and its position in there."""
    file = max(file for file in (root / "commitlog").iterdir() if int(file.name) <= offset)
    flip(file, offset - int(file.name) + 90)
    return file, offset - int(file.name)


@dataclass
class Tiny:
    """A store of one log file."""

    root: Path
    places: list[tuple[int, int]]  # (log offset, size) of each record

    def unit(self, record: int, tags: int = 97) -> bytes:
        """The unit of a record; the records of `tests.kernels` have the tags `a`."""
        return struct.pack(">qiq", *self.places[record], tags)

    def queue(self, topic: str, queue_id: int, units: Sequence[bytes], first: int = 0) -> Path:
        """Write a queue of one file."""
        folder = self.root / "consumequeue" / topic / str(queue_id)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{first * 20:020}"
        path.write_bytes(b"".join(units).ljust(QUEUE_SIZE, b"\0"))
        return path

    def verify(self, **keys: Any) -> Verification:
        return verify(self.root, StoreConfig.from_keys(keys))


def tiny(root: Path, *changes: dict[str, Any], begin: int = 0, log_size: int = LOG_SIZE) -> Tiny:
    """A store whose log holds these records (as in tests.support.kernel_records), without queues, cleanly stopped."""
    plain = {"store_timestamp": TIME, "properties": b"TAGS\x01a\x02"}
    data, positions = records(*({**plain, **change} for change in changes), base=begin)
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{begin:020}").write_bytes(data.ljust(log_size, b"\0"))
    (root / "checkpoint").write_bytes(struct.pack(">5q", TIME, TIME, 0, 0, 0).ljust(4096, b"\0"))
    ends = [*positions[1:], len(data)]
    return Tiny(root, [(begin + at, end - at) for at, end in zip(positions, ends, strict=True)])


Key = tuple[int, int, int]
"""Hash, log offset, store time in ms."""


def key_hash(topic: str, key: str) -> int:
    """Upstream's hash of a key."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def keys_of(row: dict[str, Any], tags: bool) -> list[Key]:
    """The index keys of a record, by Java's own decoding of it."""
    if row["sys_flag"] & 12 == 12:
        return []
    names = [row["msg_id"]] if row["msg_id"] is not None else []
    names += [key for key in (row["keys"] or "").split(" ") if key]
    names += [f"T#{row['tags']}"] if tags and row["tags"] else []
    return [(key_hash(row["topic"], name), row["physical_offset"], row["store_timestamp"]) for name in names]


def all_keys(rows: Iterable[dict[str, Any]], tags: bool = False) -> list[Key]:
    return [key for row in rows for key in keys_of(row, tags)]


class IndexMaker:
    """Index files as store format 9 describes them: one loop, no cleverness."""

    def __init__(self, slots: int, items: int) -> None:
        self.slots, self.items = slots, items
        self.files: list[dict[str, Any]] = []

    def put(self, keys: Iterable[Key]) -> Self:
        for key, offset, time in keys:
            if not self.files or self.files[-1]["count"] >= self.items:
                self.new_file()
            file = self.files[-1]
            previous = file["slots"].get(key % self.slots, 0)
            seconds = max(0, (time - file["begin"]) // 1000) if file["begin"] > 0 else 0
            file["entries"].append([key, offset, seconds, previous])
            file["slots"][key % self.slots] = file["count"]
            if file["count"] == 1:
                file["begin"], file["begin_offset"] = time, offset
            file["count"] += 1
            file["end"], file["end_offset"] = time, offset
        return self

    def new_file(self) -> Self:
        """Begin a file, which counts seconds from the end of the one before at first."""
        end, offset = (self.files[-1]["end"], self.files[-1]["end_offset"]) if self.files else (0, 0)
        self.files.append(
            {
                "count": 1,
                "slots": {},
                "entries": [],
                "begin": end,
                "end": end,
                "begin_offset": offset,
                "end_offset": offset,
            }
        )
        return self

    def contents(self) -> Iterator[bytes]:
        for file in self.files:
            times = (file["begin"], file["end"], file["begin_offset"], file["end_offset"])
            slots = [0] * self.slots
            for slot, item in file["slots"].items():
                slots[slot] = item
            entries = [(0, 0, 0, 0), *file["entries"]]
            data = struct.pack(">qqqqii", *times, len(file["slots"]), file["count"])
            data += struct.pack(f">{self.slots}i", *slots) + b"".join(struct.pack(">iqii", *entry) for entry in entries)
            yield data.ljust(40 + 4 * self.slots + 20 * self.items, b"\0")

    def write(self, root: Path) -> list[Path]:
        """Replace a store's index."""
        folder = root / "index"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        paths = [folder / f"{20261120093853121 + number}" for number in range(len(self.files))]
        for path, data in zip(paths, self.contents(), strict=True):
            path.write_bytes(data)
        return paths
