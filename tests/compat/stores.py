"""The golden stores: directories that Apache RocketMQ wrote, and what it reads from them (golden/README.md).

Tests take them through the fixtures of tests/conftest.py: `golden("basic")`, or `golden_store` for every one in turn.
"""

import json
import shutil
import tarfile
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "golden"
GOLDEN_NAMES = sorted(archive.name.removesuffix(".tar.xz") for archive in FOLDER.glob("*.tar.xz"))
EXPECT: dict[str, dict[str, Any]] = json.loads((FOLDER / "expect.json").read_text(encoding="utf-8"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


class Golden:
    """One golden store, unpacked. Its files are shared by all tests of a session: read them, `copy` to write."""

    def __init__(self, name: str, into: Path) -> None:
        self.name = name
        self.path = into / name
        self.expect = EXPECT.get(name, {})  # its line of expect.json: where Java is not the measure
        with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
            archive.extractall(into, filter="data")

    def __repr__(self) -> str:
        return f"Golden({self.name!r})"

    def copy(self, into: Path, *without: str) -> Path:
        """A private copy of the store directory, below `into`, without directories of these names.

        Without `index` and `consumequeue` nothing shows the sizes of their files: those of the configuration count.
        """
        return shutil.copytree(self.path, into / self.name, ignore=shutil.ignore_patterns(*without))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Each record of the log as Java decodes it, after Java's own recovery, in physical order."""
        return read_lines(FOLDER / f"{self.name}.jsonl")

    @property
    def live(self) -> list[dict[str, Any]]:
        """The rows that a scan must give. It may give `expect["beyond"]` more, which Java cannot read."""
        return self.rows

    @cached_property
    def queue_rows(self) -> list[dict[str, Any]]:
        """What Java answers for queues and keys (kinds `store`, `queue`, `key`)."""
        return read_lines(FOLDER / f"{self.name}.queues.jsonl")

    @cached_property
    def _written(self) -> dict[str, Any]:
        return json.loads((FOLDER / f"{self.name}.config.json").read_text(encoding="utf-8"))

    @property
    def config(self) -> dict[str, Any]:
        """The keys of MessageStoreConfig that the store was written with; the rest are RocketMQ's defaults."""
        return dict(self._written.get("store", {}))

    @property
    def peer(self) -> str:
        """The version whose habits its index, batches and configuration follow."""
        words = self.expect.get("rebuild", [])
        return words[words.index("--peer") + 1] if "--peer" in words else "5.3.3"

    @property
    def broker(self) -> dict[str, Any]:
        """The keys of BrokerConfig that the store was written with."""
        return dict(self._written.get("broker", {}))

    @property
    def topics(self) -> dict[str, Any]:
        """The topic table that the store was written with: name -> `queues`, `attributes`."""
        return dict(self._written.get("topics", {}))

    @property
    def sets(self) -> list[str]:
        """The words for the command line that give `config`: --set KEY=VALUE ..."""
        words = []
        for key, value in self.config.items():
            words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        return words

    def stamps(self) -> dict[str, tuple[int, int]]:
        """File -> (size, time of change in ns): equal before and after as long as nobody wrote to the store."""
        files = (path for path in sorted(self.path.rglob("*")) if path.is_file())
        return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}
