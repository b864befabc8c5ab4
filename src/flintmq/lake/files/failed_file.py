"""Names the file in errors, and gives up Parquet files that are not to be finished."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name a file in errors of the block that name none, as those of Arrow and of writes."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from error


def give_up(writer: Any) -> None:
    """Close a pyarrow.parquet.ParquetWriter whose file is to be removed, in whatever state.

    Once only: a writer that failed would try again when Python frees it, and print a traceback.
    """
    with suppress(Exception):
        writer.close()
    writer.is_open = False
    with suppress(Exception):  # it has closed the writer at most, and the file is still open
        writer.close()
