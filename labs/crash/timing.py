"""kill -9 while messages wait, come and are recalled: each comes once, never early, and none that was recalled.

    python -m labs.crash.timing --kills 100

A life puts messages for half a second later at most, in two threads, and recalls some of them, while its timer delivers
what is due. Its ledger has a line before and after each step. At the end of several lives the store is opened, and
delivers what is left.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import PutLedger
from labs.crash import killing
from labs.crash.killing import lines, named
from tests.robustness.crash.lives import KEYS, Dying, Life

SENDERS = 2
OFTEN = {"timerPrecisionMs": 100, "timerFlushIntervalMs": 100, "mappedFileSizeTimerLog": 5200}
TOPICS = "T", "U"
LONGEST_MS = 500
PATIENCE_S = 20.0  # for what is left at the end


def live_and_wait(root: Path, ledger: PutLedger, life: Life) -> None:
    """Put messages for later, and recall some, until somebody kills the process."""
    keys = KEYS | OFTEN | {"flushDiskType": life.disk}
    store = MessageStore(root, config=keys, effects=Dying(life.at_call, life.kernel_puts))

    def send(thread: int, numbers: Iterator[int]) -> None:
        chance = random.Random(life.seed * 10 + thread)
        for number in numbers:
            key, at = f"{life.number}-{thread}-{number}", int(time.time() * 1000) + chance.randrange(50, LONGEST_MS)
            ledger.line(puts=key, at=at)
            message = Message(TOPICS[chance.randrange(2)], bytes(chance.choice((10, 300, 2000))), keys=key,
                              queue_id=chance.randrange(2), deliver_timestamp=at)  # fmt: skip
            result = store.put(message)
            result.raise_for_status()
            ledger.line(put=key)
            handle = result.recall_handle()
            if handle is not None and chance.random() < 0.3:
                ledger.line(recalls=key)
                if store.recall(handle):
                    ledger.line(recalled=key)
            time.sleep(0.002)

    for thread in range(1, SENDERS):
        threading.Thread(target=send, args=(thread, itertools.count()), daemon=True).start()
    send(0, itertools.count())


def judge(root: Path, ledger: Path) -> tuple[Counter[str], list[str]]:
    """Open the store, and wait for what is left; figures, and what is wrong, a line each."""
    at, put, recalls, recalled = dict[str, int](), set[str](), set[str](), set[str]()
    for line in lines(ledger):
        at |= {line["puts"]: line["at"]} if "puts" in line else {}
        put |= {line["put"]} if "put" in line else set()
        recalls |= {line["recalls"]} if "recalls" in line else set()
        recalled |= {line["recalled"]} if "recalled" in line else set()
    wanted, limit = put - recalls, time.monotonic() + PATIENCE_S
    with MessageStore(root, config=KEYS | OFTEN) as store:
        while True:
            assert store.wait_dispatched(60)
            there = [one for one in store if one.topic in TOPICS]
            if wanted <= {one.keys for one in there} or time.monotonic() > limit:
                break
            time.sleep(0.1)
        time.sleep(2 * LONGEST_MS / 1000)  # what comes twice, or though it was recalled
        assert store.wait_dispatched(60)
        there = [one for one in store if one.topic in TOPICS]
        timers = store._parts.housekeeping.timers
        assert timers is not None
        timers.check_invariants()
    counts = Counter(one.keys or "" for one in there)
    wrong = named(
        delivered_twice=sorted(key for key, count in counts.items() if count > 1),
        delivered_though_recalled=sorted(recalled & counts.keys()),
        delivered_early=sorted(one.keys or "" for one in there if one.store_timestamp < at.get(one.keys or "", 0)),
        lost=sorted(wanted - counts.keys()),
        never_put=sorted(counts.keys() - at.keys()),
    )
    return Counter(put=len(put), recalled=len(recalled), delivered=len(counts)), wrong


if __name__ == "__main__":
    killing.main(__doc__ or "", live_and_wait, judge)
