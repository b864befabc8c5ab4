"""All that a store ever held, though retention deletes its first files: the truth of a kill run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from labs.torture_spark.check import NO_QUEUE, Row, records, row


class Past:
    """The files of a store, those included that were deleted since `keep` linked them.

    Attributes:
        store: where the store is at present; who moves it sets this.
        seen: the messages that belong into a queue, as far as `look` has read the log.
    """

    def __init__(self, store: Path, kept: Path) -> None:
        self.store, self.kept = store, kept
        self.seen: Counter[Row] = Counter()
        self.at = 0

    def keep(self) -> None:
        """Link all files of log and queues; who deletes one of them does so afterwards."""
        for file in files(self.store):
            copy = self.kept / "kept" / file.relative_to(self.store)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            os.link(file, copy)

    def whole(self) -> Path:
        """Make a directory of what is there, with the deleted files before it; give its path."""
        place = self.kept / "whole"
        shutil.rmtree(place, ignore_errors=True)
        first: dict[Path, str] = {}
        for file in files(self.store):
            copy = place / file.relative_to(self.store)
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, copy)
            first[copy.parent] = min(file.name, first.get(copy.parent, file.name))
        for file in files(self.kept / "kept"):
            copy = place / file.relative_to(self.kept / "kept")
            if file.name < first.get(copy.parent, "~"):  # later ones were cut by a recovery
                copy.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, copy)
        return place

    def look(self) -> Counter[Row]:
        """Read on in the log of a store that may be written meanwhile; all messages that were seen."""
        for found in records(self.whole(), self.at):
            self.at = found.physical_offset + found.size
            if found.transaction not in NO_QUEUE:
                self.seen[
                    row(found.topic.decode(), found.queue_id, found.queue_offset, found.physical_offset, found.body)
                ] += 1
        return self.seen.copy()


def files(store: Path) -> Iterator[Path]:
    """The files of a store's log and queues."""
    for pattern in ("commitlog/*", "consumequeue/*/*/*"):
        yield from (path for path in store.glob(pattern) if path.name.isdigit())
