"""Publishes exports to Parquet below a URL of object storage: one put commits.

URL/_flintmq/000003.json                            the manifest of export 3, and where its files are staged
URL/_staging/000003-RUN/...                         the files, until each has its name
URL/export=3/topic_name=T/date=2026-01-31/...       the files under their names, as on a disk
URL/export=3/_flintmq.json                          the manifest again: all files of export 3 have their names

A bucket has no rename of a directory. So an export is decided by the put of its manifest, which only one of several
runs can do, and then its files are copied to their names one by one. A run that dies in between loses nothing: the next
one copies the rest before it begins. Whoever lists Parquet files there meets each row once, and during the copies not
yet all of them; a reader that goes by the manifests (`committed`) takes an export when all of its files have their
names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flintmq.errors import StoreAccessError, StoreError
from flintmq.lake.files.table_folder import BucketFolder
from flintmq.lake.table.parquet_target import MANIFEST, ParquetTarget
from flintmq.lake.table.target import Manifest, StagedFile, encoded

if TYPE_CHECKING:
    import pyarrow as pa

_STAGED = "staged"  # key of a manifest that decides: places of its files in the staging directory


class BucketTarget(ParquetTarget):
    """A directory below a URL that exports are published into; see ParquetTarget."""

    def __init__(self, folder: BucketFolder) -> None:
        super().__init__(folder)
        self._bucket = folder
        self._may_be_decided = False  # then the staged files belong to the next run, too

    def last(self) -> Manifest | None:
        """Return the manifest of the newest export; None if there is none.

        Files of that export that have no names yet, because a run died, get them first.
        """
        number = self._bucket.claimed()
        if not number:
            return None
        manifest, staged = self._decided(number)
        self._complete(manifest, staged)
        self._bucket.sweep_lost(number)
        return manifest

    def committed(self) -> tuple[Manifest | None, int]:
        for number in reversed(self._numbers()):
            if self._is_complete(number):
                return self._decided(number)[0], number
        return None, 0

    def _numbers(self) -> list[int]:
        return self._bucket.numbers()

    def _manifest_in(self, number: int) -> Manifest:
        return self._decided(number)[0]

    def publish(self, manifest: Manifest, files: Sequence[StagedFile], schema: pa.Schema) -> None:
        """Publish all files of an export; see the base.

        Raises:
            StoreError: another export was faster; nothing of this one was published.
            StoreAccessError: object storage refuses, or does not answer. The export may be decided: the next run finds
                out.
        """
        assert manifest.files == [file.place for file in files]  # readers of the manifest find them all
        staged = [file.path.removeprefix(f"{self._bucket.bucket.url}/") for file in files]
        decides = json.dumps({**json.loads(encoded(manifest)), _STAGED: staged}, ensure_ascii=False)
        # Before the put, whose answer may be lost: then the next run needs the staged files.
        self._may_be_decided = True
        try:
            self._bucket.claim(manifest.number, decides.encode("utf-8", "surrogatepass"))
        except StoreError as refused:
            # A client whose put succeeded, and whose answer was lost, tries again and meets its own object.
            if not self._is_decided_by(manifest.number, staged):
                raise refused from refused.__cause__
        self._complete(manifest, staged)
        self._may_be_decided = False

    def abandon(self) -> None:
        """Remove staged files, unless a manifest may name them; see the base."""
        if not self._may_be_decided:
            self.sweep()

    def _decided(self, number: int) -> tuple[Manifest, list[str]]:
        """Return the manifest that decided an export, and the keys of its staged files."""
        found: list[Any] = []

        def build(value: dict[str, Any]) -> Manifest:
            found.extend(value.pop(_STAGED))
            return Manifest.of(value)

        return self.manifest_of(number, build), found

    def _is_decided_by(self, number: int, staged: Sequence[str]) -> bool:
        """Return whether these staged files decided an export; not if nobody can say."""
        try:
            return self._decided(number)[1] == staged
        except StoreAccessError:
            return False

    def _is_complete(self, number: int) -> bool:
        return self.folder.holds(f"export={number}/{MANIFEST}")

    def _complete(self, manifest: Manifest, staged: Sequence[str]) -> None:
        """Give the files of an export their names, if a run that died did not."""
        folder = f"export={manifest.number}"
        if self._is_complete(manifest.number):
            return
        self._bucket.bring_keys(zip(staged, (f"{folder}/{place}" for place in manifest.files), strict=True))
        # The last: whoever sees it finds all files.
        self._bucket.bucket.put(self._bucket.key(f"{folder}/{MANIFEST}"), encoded(manifest))
