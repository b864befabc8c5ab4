"""Tools for tests, of FlintMQ and of programs that use it: made-up stores and damage to them.

written = write_store(path, messages=10_000, seed=7, kinds="all")
flip(path / "commitlog" / "00000000000000000000", position=1234)
"""

from __future__ import annotations

from flintmq.testing.write_store import Written, write_store

__all__ = ["Written", "write_store"]
