"""What real masters and slaves sent (golden-ha/README.md), and the log of a recorded master."""

import json
import struct
import tarfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "golden-ha"
VERSIONS = ("533", "540", "550")
BLANK_MAGIC = 0xCBD43194


class GoldenMaster:
    """The store at rest of a master of version "533", "540" or "550", unpacked."""

    def __init__(self, version: str, into: Path) -> None:
        self.version, self.path = version, into / f"ha{version}"
        with tarfile.open(FOLDER / f"ha{version}.tar.xz") as archive:
            archive.extractall(into, filter="data")
        whole = b"".join(file.read_bytes() for file in sorted((self.path / "commitlog").iterdir()))
        self.records = list(_records(whole, self.file_size))  # (log offset, size), blanks left out
        last, size = self.records[-1]
        self.log = whole[: last + size]  # without the zeros behind

    @property
    def file_size(self) -> int:
        """Bytes of a log file."""
        return int(self.config["mappedFileSizeCommitLog"])

    @cached_property
    def config(self) -> dict[str, Any]:
        """The keys of MessageStoreConfig that the master was run with."""
        told = json.loads((FOLDER / f"ha{self.version}.config.json").read_text(encoding="utf-8"))
        return dict(told["store"])

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Each record as Java decodes it."""
        text = (FOLDER / f"ha{self.version}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def queue_units(self) -> dict[str, bytes]:
        """TOPIC/QUEUE -> the bytes of the master's queue files, up to the last unit."""
        return queue_units(self.path)


def queue_units(store: Path) -> dict[str, bytes]:
    """TOPIC/QUEUE -> the bytes of a store's queue files, up to the last unit that is not zero."""
    found = {}
    for queue in sorted((store / "consumequeue").glob("*/*")):
        data = b"".join(file.read_bytes() for file in sorted(queue.iterdir()))
        units = [data[n : n + 20] for n in range(0, len(data), 20)]
        while units and not any(units[-1]):
            units.pop()
        if units:
            found[f"{queue.parent.name}/{queue.name}"] = b"".join(units)
    return found


def _records(log: bytes, file_size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 8 <= len(log):
        size, magic = struct.unpack_from(">II", log, at)
        if size == 0:
            return
        if magic != BLANK_MAGIC:
            yield at, size
        at += size
