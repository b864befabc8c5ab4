"""Names the place in errors of a full disk.

A write to an open file fails without its path.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Only writing fails with these, so they are about the target and no source."""


@contextmanager
def naming(target: str) -> Iterator[None]:
    """Name the target in an error of the block that says that the disk is full, and not where."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = target
        raise
