"""Asks for a follower: one that is refused does not go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flintmq.errors import RemotingError, ReplicationError
from flintmq.remoting.client import RemotingClient


@contextmanager
def asking(address: str, *, timeout_s: float, all_s: float | None = None) -> Iterator[RemotingClient]:
    """Give a connection to a broker or a name server; its refusals become ReplicationError."""
    with RemotingClient(address, timeout_s=timeout_s, all_s=all_s) as client:
        try:
            yield client
        except RemotingError as error:
            raise ReplicationError("config", str(error)) from None
