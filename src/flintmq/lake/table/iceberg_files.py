"""Files of Iceberg's metadata that are durable when they are closed.

PyIceberg writes the manifests of a snapshot, and the table's metadata, and then has the catalog name them. It syncs
none of them, so after a power cut a catalog could name a file without content.
"""

from __future__ import annotations

import os
from typing import Any

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from flintmq.storage.files.filesystem import REAL
from flintmq.storage.files.whole_file import sync_file, sync_folder


class SyncedFileIO(PyArrowFileIO):
    """PyIceberg's files by PyArrow; those on this machine's disks are synced.

    PyIceberg makes it by its name, as the property `py-io-impl` of a catalog.
    """

    def new_output(self, location: str) -> PyArrowFile:
        file = super().new_output(location)
        scheme, _, path = self.parse_location(location)
        return _SyncedFile(file, path) if scheme == "file" else file


class _SyncedFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, path: str) -> None:
        super().__init__(file.location, file._path, file._filesystem, file._buffer_size)
        self.local = path

    def create(self, overwrite: bool = False) -> OutputStream:
        return _SyncedStream(super().create(overwrite), self.local)


class _SyncedStream(OutputStream):
    """A stream that syncs its file, and the name of it, when it is closed."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path = stream, path

    def write(self, content: bytes) -> int:
        written: int = self.stream.write(content)
        return written

    def tell(self) -> int:
        place: int = self.stream.tell()
        return place

    @property
    def closed(self) -> bool:
        return bool(self.stream.closed)

    def close(self) -> None:
        """Write what is left, and sync. Durability: on return."""
        if not self.stream.closed:
            self.stream.close()
            sync_file(self.path, REAL)
            sync_folder(os.path.dirname(self.path))

    def __enter__(self) -> _SyncedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
