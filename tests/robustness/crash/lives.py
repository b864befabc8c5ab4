"""Lives of a store that end by kill -9, and the ledger of what was sent and what was answered.

A life is a forked child: it opens the store, puts from some threads, and is killed, by the parent after a while or by
itself at its n-th call that changes the disk. The ledger lies outside the store; a line is one write, before a put
(what is sent) and after it (what was answered), so that a killed child leaves at most a put without an answer.
"""

import itertools
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flintmq.format.index import PEER_533
from flintmq.message import Message, Outcome
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import SMALL as KEYS
from flintmq.testing.contract import PutLedger, digest_of
from tests.support.faults import Faulty

FILE_SIZE = KEYS["mappedFileSizeCommitLog"]
THREADS = 3


@dataclass(frozen=True)
class Life:
    """How a store lives and dies.

    With `pool` (it puts into the transient pool) an answer without a sync promises only what is committed; with `power`
    (it ends by a power cut) one under ASYNC_FLUSH only what is flushed. The ledger's answers tell how far that was.
    """

    number: int  # for the ids of its messages
    seed: int  # of what is put
    disk: str = "ASYNC_FLUSH"  # flushDiskType
    at_call: int | None = None  # it kills itself at this call that changes the disk; None: the parent does
    after_s: float = 0.2  # when the parent kills it, in seconds from the fork
    interrupts: int = 0  # how many SIGINT it gets before
    pool: bool = False
    power: bool = False
    peer: str = PEER_533
    kernel_puts: bool = True  # plain messages take the one kernel call (where it is compiled); else all go the slow way


def made(identity: str, chance: random.Random) -> Message:
    """A message that names itself in its keys, of a size that is mostly small."""
    size = chance.choice((0, 10, 100, 700, 3000)) + chance.randrange(40)
    properties = {"p": "v" * chance.choice((1, 3, 300, 1500))} if chance.random() < 0.4 else None
    return Message(
        f"T{chance.randrange(3)}", chance.randbytes(size if chance.random() < 0.9 else 0),
        tags=f"t{chance.randrange(4)}", keys=identity, properties=properties, queue_id=chance.randrange(2),
    )  # fmt: skip


def live(root: Path, ledger_path: Path, life: Life, child_of: Callable[..., None] | None = None) -> str:
    """Fork, live (as `child_of` says; None: put), die. Gives how it ended: "killed", or what went wrong inside."""
    complaints, before = ledger_path.with_suffix(".wrong"), _size(ledger_path)
    child = os.fork()
    if child == 0:
        try:
            (child_of or _child)(root, PutLedger(ledger_path), life)
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the next one would end it without a word
            complaints.write_text(traceback.format_exc())
        finally:
            os._exit(1)
    if life.at_call is None:
        limit = time.monotonic() + 20
        while life.interrupts and _size(ledger_path) == before and time.monotonic() < limit:
            time.sleep(0.005)
        step = life.after_s / (life.interrupts + 1)
        for _ in range(life.interrupts):
            time.sleep(step)
            os.kill(child, signal.SIGINT)
        time.sleep(step)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    return complaints.read_text() if complaints.exists() else f"ended with status {status}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class Dying(Faulty):
    """The real disk, whose process dies at a call. (Syncs are not done: `kill -9` leaves the page cache as it is.)"""

    def __init__(self, at_call: int | None, kernel_puts: bool) -> None:
        super().__init__()
        self.kernel_puts = kernel_puts
        self.left = at_call
        self.before = self.maybe_die

    @property
    def watches(self) -> bool:
        return not self.kernel_puts

    def maybe_die(self, name: str, path: str) -> None:
        """Count a call."""
        self.calls.clear()
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _child(root: Path, ledger: PutLedger, life: Life) -> None:
    """Put until somebody kills the process."""
    if life.interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    store: MessageStore | None = None
    numbers = itertools.count()

    def go_on() -> None:
        nonlocal store
        while True:
            try:
                if store is None:
                    store = _open(root, life)
                    for n in range(1, THREADS):
                        words = store, ledger, life, n, itertools.count()
                        threading.Thread(target=puts, args=words, daemon=True).start()
                puts(store, ledger, life, 0, numbers)
            except KeyboardInterrupt:
                continue  # as in a notebook: the put may or may not have happened, the user goes on

    while True:
        with suppress(KeyboardInterrupt):  # one that came between `except` and `try`
            go_on()


def _open(root: Path, life: Life) -> MessageStore:
    keys = KEYS | {"flushDiskType": life.disk, "transientStorePoolEnable": life.pool}
    effects = Dying(life.at_call, life.kernel_puts)
    return MessageStore(root, config=keys, effects=effects, peer=life.peer, unique_keys=False)


def puts(store: MessageStore, ledger: PutLedger, life: Life, thread: int, numbers: Iterator[int]) -> Outcome | None:
    """Put one message a number, with a line of the ledger before and after it; the last one's outcome."""
    chance = random.Random(life.seed * 10 + thread)
    result = None
    for number in numbers:
        identity = f"{life.number}-{thread}-{number}"
        message = made(identity, chance)
        ledger.line(sent=identity, digest=digest_of(message))
        result = store.put(message)
        ledger.line(
            told=identity, outcome=result.outcome.value, status=result.status.name, queue_offset=result.queue_offset,
            place=result.physical_offset, size=result.size, time=result.store_timestamp,
            committed=_safe(store, life), at=time.monotonic_ns(),
        )  # fmt: skip
        if result.outcome is not Outcome.OK:
            time.sleep(0.002)  # a disk that has failed: nothing comes of asking at once
    return None if result is None else result.outcome


def _safe(store: MessageStore, life: Life) -> int | None:
    """Up to where what was acknowledged survives how this life ends; None: everywhere."""
    if life.disk == "SYNC_FLUSH":
        return None
    if life.power:
        return store._parts.files.flushed_where
    return None if store._parts.commits is None else store._parts.commits.done[1]
