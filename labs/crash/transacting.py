"""kill -9 while transactions begin, end and are asked about: each ends once, as its sender said.

    python -m labs.crash.transacting --kills 100

A life begins transactions in two threads and ends most of them; a third one has the senders of the others asked. Its
ledger has a line before and after each step. At the end of several lives the store is opened, and all that is open is
asked about: what was said to be committed, and what nobody said anything of, is there once; nothing else is.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from flintmq import Half
from flintmq.errors import FlintError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import PutLedger
from labs.crash import killing
from labs.crash.killing import lines, named
from tests.robustness.crash.lives import KEYS, Dying, Life

SENDERS = 2
AT_ONCE = {  # asked about as soon as they are dispatched, and never given up
    "transactionTimeOut": 0,
    "transactionCheckInterval": 1_000_000,
    "transactionCheckMax": 1 << 30,
}
TOPICS = "T", "U"


def end(ledger: PutLedger, half: Half, word: str) -> None:
    """End a transaction as its key says from now on."""
    with suppress(FlintError):  # it has ended by another copy
        half.commit() if word == "commit" else half.rollback()
        ledger.line(ended=half.message.keys)


def live_and_transact(root: Path, ledger: PutLedger, life: Life) -> None:
    """Begin and end transactions until somebody kills the process."""
    keys = KEYS | AT_ONCE | {"flushDiskType": life.disk}
    store = MessageStore(root, config=keys, effects=Dying(life.at_call, life.kernel_puts))
    said: dict[str, str] = {}  # key -> how it ends

    def ask(half: Half) -> object:
        key = half.message.keys or ""
        if key not in said:  # of another life, or its thread is about to say: by its number
            if not key.startswith(f"{life.number}-"):
                return False
            return None
        end(ledger, half, said[key])
        return None

    def check() -> None:
        store.on_check(ask)
        while True:
            store._parts.transactions.check_once()
            time.sleep(0.02)

    def send(thread: int, numbers: Iterator[int]) -> None:
        chance = random.Random(life.seed * 10 + thread)
        for number in numbers:
            key = f"{life.number}-{thread}-{number}"
            ledger.line(begins=key)
            message = Message(TOPICS[chance.randrange(2)], bytes(chance.choice((10, 300, 2000))), keys=key,
                              queue_id=chance.randrange(2))  # fmt: skip
            half = store.begin(message, "Shop")
            ledger.line(begun=key)
            word = chance.choice(("commit", "commit", "rollback", "later", "never"))
            if word == "never":
                continue
            late, word = word == "later", "commit" if word == "later" else word
            ledger.line(says=key, word=word)
            said[key] = word
            if not late:
                end(ledger, half, word)

    threading.Thread(target=check, daemon=True).start()
    for thread in range(1, SENDERS):
        threading.Thread(target=send, args=(thread, itertools.count()), daemon=True).start()
    send(0, itertools.count())


def judge(root: Path, ledger: Path) -> tuple[Counter[str], list[str]]:
    """Open the store, have all that is open asked about; figures, and what is wrong, a line each."""
    begins, begun, said, ended = set[str](), set[str](), dict[str, str](), set[str]()
    for line in lines(ledger):
        begins |= {line["begins"]} if "begins" in line else set()
        begun |= {line["begun"]} if "begun" in line else set()
        said |= {line["says"]: line["word"]} if "says" in line else {}
        ended |= {line["ended"]} if "ended" in line else set()
    asked: list[str] = []

    def ask(half: Half) -> None:
        key = half.message.keys or ""
        asked.append(key)
        half.rollback() if said.get(key) == "rollback" else half.commit()

    with MessageStore(root, config=KEYS | AT_ONCE) as store:
        assert store.wait_dispatched(60)
        open_before = store.on_check(ask)
        for _ in range(2):
            store._parts.transactions.check_once()
            assert store.wait_dispatched(60)
        open_before()
        store._parts.transactions.check_invariants()
        there = Counter(one.keys or "" for one in store if one.topic in TOPICS)
    twice = sorted(key for key, count in there.items() if count > 1)
    dropped = sorted(key for key in there if said.get(key) == "rollback")
    lost = sorted(key for key in begun if said.get(key) != "rollback" and key not in there)
    again = sorted(key for key, count in Counter(asked).items() if count > 1)
    needless = sorted(set(asked) & ended)
    wrong = named(
        delivered_twice=twice,
        delivered_though_rolled_back=dropped,
        lost=lost,
        asked_about_twice=again,
        asked_about_though_ended=needless,
        never_begun=sorted(there.keys() - begins),
    )
    figures = Counter(begun=len(begun), said=len(said), ended=len(ended), asked=len(asked), delivered=len(there))
    return figures, wrong


if __name__ == "__main__":
    killing.main(__doc__ or "", live_and_transact, judge)
