"""Reads the queues and keys of a followed store meanwhile.

    python -m labs.replication.reader STORE MASTER

Each message must be the record that the master has at its place, each queue without a hole, each answer for a key
complete. What was read once stays readable, and the end never goes back. SIGTERM ends it, with one line of
JSON: how many messages and answers it checked. Anything that must not be ends it with a traceback.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from flintmq.errors import NotAStoreError, StoreAccessError
from flintmq.message import StoredMessage
from flintmq.store.view import StoreView, open_store
from labs.interop.live import KEYS
from labs.replication.sides import FILE_SIZE

PAUSE_S = 0.05
ASKED = 5  # keys of each round
MOST = 100_000  # messages of one key


class Reader:
    """Where each queue has been read, and what was checked."""

    def __init__(self, store: Path, master: Path) -> None:
        self.store, self.master = store, master
        self.next: dict[tuple[str, int], int] = {}
        self.end = self.messages = self.answers = self.rounds = 0

    def look(self, view: StoreView, chance: random.Random) -> None:
        """Read what is new in each queue, and ask for some keys of it."""
        assert view.max_physical_offset >= self.end, "the end went back"
        self.end = view.max_physical_offset
        seen: list[StoredMessage] = []
        for queue in view.queues():
            name = queue.topic, queue.queue_id
            at = self.next.setdefault(name, queue.min_offset)
            while at < queue.max_offset:
                got = list(view.read(*name, at, 64))
                assert got, f"{name}: nothing at queue offset {at}, the end is {queue.max_offset}"
                for message in got:
                    assert (message.topic, message.queue_id, message.queue_offset) == (*name, at), (name, at)
                    self.check(message)
                    at += 1
                seen += got
            self.next[name] = at
        with_keys = [message for message in seen if message.keys]
        for message in chance.sample(with_keys, min(ASKED, len(with_keys))):
            key = (message.keys or "").split()[0]
            answer = view.query(message.topic, key, limit=MOST)
            assert message.physical_offset in [found.physical_offset for found in answer], (message.topic, key)
            for found in answer:
                assert found.topic == message.topic and key in (found.keys or "").split(), (message.topic, key)
                self.check(found)
                self.answers += 1
        self.rounds += 1

    def check(self, message: StoredMessage) -> None:
        """The master has these bytes at this place."""
        at = message.physical_offset
        with open(self.master / "commitlog" / f"{at - at % FILE_SIZE:020}", "rb") as file:
            held = os.pread(file.fileno(), message.size, at % FILE_SIZE)
        assert held == message.raw, f"the master has another record at log offset {at}"
        self.messages += 1


def main(store: str, master: str) -> None:
    """Read until SIGTERM."""
    stopping, chance, reader = threading.Event(), random.Random(store), Reader(Path(store), Path(master))
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    while not stopping.wait(PAUSE_S):
        try:
            view = open_store(store, set=KEYS)
        except (NotAStoreError, StoreAccessError):
            assert not reader.rounds, "the store is gone"
            continue
        with view:
            reader.look(view, chance)
    told = {"messages": reader.messages, "answers": reader.answers, "rounds": reader.rounds}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
