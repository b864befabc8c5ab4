"""Messages that name themselves, and what their senders were told."""

from __future__ import annotations

import itertools
import random
import string
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

TOPIC, QUEUES = "Load", 4
FILLER_MOST = 800
LETTERS = string.ascii_letters + string.digits


class Told(NamedTuple):
    """Where a message is, by the answer to its send, and when that came (monotonic clock)."""

    queue_id: int
    queue_offset: int
    physical_offset: int | None  # None: the answer did not tell it
    at: float


@dataclass
class SendLedger:
    """What one sender sent and was told.

    Attributes:
        sent: names of all messages, before they went.
        acknowledged: name -> the answer, of those with SEND_OK.
    """

    sent: set[str] = field(default_factory=set)
    acknowledged: dict[str, Told] = field(default_factory=dict)

    def add(self, other: SendLedger) -> None:
        """Take another sender's messages in."""
        self.sent |= other.sent
        self.acknowledged |= other.acknowledged

    def discount(self, since: float) -> int:
        """Trust no answer that came after a moment; how many came."""
        late = [name for name, told in self.acknowledged.items() if told.at >= since]
        for name in late:
            del self.acknowledged[name]
        return len(late)


def text_of(name: str) -> str:
    """The body of a message: its name, and letters that the name decides."""
    chance = random.Random(name)
    return f"{name} {''.join(chance.choices(LETTERS, k=chance.randrange(FILLER_MOST)))}"


class Sender(threading.Thread):
    """A thread that sends until it is stopped.

    Attributes:
        ledger: complete once the thread has ended.
        last: when an answer of success came last (monotonic clock); 0.0: never.
        refused: operations that failed; their messages may be stored all the same.
        error: what ended it, if it was not `stop`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger, self.last, self.refused = SendLedger(), 0.0, 0
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        self._numbers: Iterator[int] = itertools.count()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.send_once()
        except BaseException as error:  # the program looks at it
            self.error = error

    def send_once(self) -> None:
        """Send some messages, and note what became of them."""
        raise NotImplementedError

    def new(self, count: int) -> list[str]:
        """Names of so many messages, which count as sent from now on."""
        names = [f"{self.name}/{next(self._numbers)}" for _ in range(count)]
        self.ledger.sent.update(names)
        return names

    def told(self, name: str, queue_id: int, queue_offset: int, physical_offset: int | None) -> None:
        """Note that a message was acknowledged."""
        self.last = time.monotonic()
        self.ledger.acknowledged[name] = Told(queue_id, queue_offset, physical_offset, self.last)

    def stop(self, seconds: float) -> None:
        """End it after what is under way.

        Raises:
            AssertionError: it does not end in time, or an error has ended it before.
        """
        self.stopping.set()
        self.join(seconds)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.error is None, f"{self.name} ended: {type(self.error).__name__}: {self.error}"
