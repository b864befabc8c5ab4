"""The masters of docs/operations/follow.md and of the runbook about refused followers, for one block of a page.

`MASTERS[name]()` serves one while the block runs, and gives its addresses: what a page calls `broker:10912` (the HA
port) and `broker:10911` (the broker itself). They are recorded ones (tests/compat/golden-ha) with one accident each.
"""

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from examples.demo.recorded_master import RecordedMaster
from flintmq.testing import damage
from tests.compat.replication import GoldenMaster
from tests.remoting import remoting_peer
from tests.remoting.remoting_peer import Asked, RemotingPeer, reply

HA, MAIN = "broker:10912", "broker:10911"
BEAT_S = 0.3

Addresses = dict[str, str]


@contextmanager
def recorded(
    version: str = "533", have: int | None = None, spoil: Callable[[Path], None] | None = None
) -> Iterator[RecordedMaster]:
    """A master with the recorded log, or so many of its messages."""
    with tempfile.TemporaryDirectory(prefix="master-") as place:
        golden = GoldenMaster(version, Path(place))
        if spoil is not None:
            spoil(golden.path)
        master = RecordedMaster(golden.path, have, beat_s=BEAT_S)
        try:
            yield master
        finally:
            master.close()


def answers(refused: int = 0, ends: Mapping[str, int] | None = None, begin: int = 0) -> Callable[[Asked], bytes | None]:
    """What the recorded broker says, `ends` of its queues, `begin` of its log; a request that its ACL refuses."""
    bodies = remoting_peer.recorded("533")
    bodies[26] = remoting_peer.CONFIG
    bodies[28] = b'{"table":{"commitLogMinOffset":"%d","commitLogMaxOffset":"387695"}}' % begin
    others = remoting_peer.broker(bodies)

    def answer(asked: Asked) -> bytes | None:
        if asked.code == refused:
            return reply(asked, code=16, remark="User: follower has no permission to access the resource")
        if asked.code == 30:
            queue = f"{asked.fields['topic']}/{asked.fields['queueId']}"
            return reply(asked, fields={"offset": str((ends or {}).get(queue, 0))})
        return others(asked)

    return answer


@contextmanager
def served(refused: int = 0, begin: int = 0, **how: Any) -> Iterator[Addresses]:
    """A recorded master and its broker, on the loopback."""
    with tempfile.TemporaryDirectory(prefix="ends-") as place:
        ends = {queue: len(units) // 20 for queue, units in GoldenMaster("533", Path(place)).queue_units().items()}
    with recorded(**how) as master, RemotingPeer(answers(refused, ends, begin)) as broker:
        yield {HA: f"127.0.0.1:{master.port}", MAIN: broker.address}


def healthy() -> AbstractContextManager[Addresses]:
    """Everything is as it should be."""
    return served()


def younger() -> AbstractContextManager[Addresses]:
    """The same at an earlier time."""
    return served(have=500)


def another_past() -> AbstractContextManager[Addresses]:
    """Its disk was lost, and it has begun a new log."""
    return served(version="540")


def shorter() -> AbstractContextManager[Addresses]:
    """It has lost its last messages."""
    return served(have=300)


def expired() -> AbstractContextManager[Addresses]:
    """All files but the last are deleted."""

    def delete(store: Path) -> None:
        for file in sorted((store / "commitlog").iterdir())[:-1]:
            file.unlink()

    return served(begin=327680, spoil=delete)


def flipped() -> AbstractContextManager[Addresses]:
    """A bit of a body flipped on its disk."""
    return served(spoil=lambda store: damage.flip(store / "commitlog" / "00000000000000262144", 40100))


def no_permission() -> AbstractContextManager[Addresses]:
    """Its ACL refuses the offsets of groups."""
    return served(refused=43)


@contextmanager
def other_service() -> Iterator[Addresses]:
    """A server of something else listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    line, _ = server.accept()
                    with line:
                        line.recv(8)
                        line.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield {HA: f"127.0.0.1:{server.getsockname()[1]}"}


MASTERS: dict[str, Callable[[], AbstractContextManager[Addresses]]] = {
    function.__name__.replace("_", "-"): function
    for function in (healthy, younger, another_past, shorter, expired, flipped, no_permission, other_service)
}
