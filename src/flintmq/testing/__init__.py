"""Tools for tests, of FlintMQ and of programs that use it: generated stores and damage.

written = write_store(path, messages=10_000, seed=7, kinds="all") flip(path / "commitlog" / "00000000000000000000",
position=1234)

write_store    writes store directories of any size and shape
messages       generates messages from a seed
rows           holds messages as columns
damage         damages files as disks, crashes and people do
strategies     offers hypothesis strategies
pytest_plugin  offers fixtures to pytest
smoke          tests an installed FlintMQ
contract       checks a store against the ledger of puts and answers
consumer_ledger  checks what consumers received and committed
slow_read      reads a store by the slow reference codecs alone
sim            the old path of these three
"""

from __future__ import annotations

from flintmq.testing.write_store import Written, write_store

__all__ = ["Written", "write_store"]
