"""kill -9 while transactions begin, end and are asked about: each ends once, as its sender said.

    python -m labs.crash.transacting --kills 100

A life begins transactions in two threads and ends most of them; a third one has the senders of the others asked. Its
ledger has a line before and after each step. At the end of several lives the store is opened, and all that is open is
asked about: what was said to be committed, and what nobody said anything of, is there once; nothing else is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from flintmq import Half
from flintmq.errors import FlintError
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import PutLedger
from tests.robustness.crash.lives import KEYS, Dying, Life, live

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


def lines(ledger: Path) -> list[dict[str, Any]]:
    """The whole lines of a ledger."""
    return [json.loads(line) for line in ledger.read_text().splitlines() if line.endswith("}")]


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
    wrong = [
        f"{what}: {keys[:5]}" for what, keys in (
            ("delivered twice", twice), ("delivered though rolled back", dropped), ("lost", lost),
            ("asked about twice", again), ("asked about though ended", needless),
            ("never begun", sorted(there.keys() - begins)),
        ) if keys
    ]  # fmt: skip
    figures = Counter(begun=len(begun), said=len(said), ended=len(ended), asked=len(asked), delivered=len(there))
    return figures, wrong


def one_store(root: Path, lives: list[Life]) -> tuple[Counter[str], list[str]]:
    """Live them all on one store, and judge it."""
    wrong = []
    for life in lives:
        how = live(root / "store", root / "ledger", life, live_and_transact)
        if how != "killed":
            wrong.append(how)
    found, more = judge(root / "store", root / "ledger")
    return found, wrong + more


def lives_of(seed: int, count: int) -> list[Life]:
    """Lives that end at a moment or at a call that changes the disk."""
    chance = random.Random(seed)
    return [
        Life(
            number, seed * 1000 + number, chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            at_call=chance.randrange(20, 400) if chance.random() < 0.5 else None,
            after_s=chance.choice((0.1, 0.2, 0.4)), kernel_puts=chance.random() < 0.5,
        )
        for number in range(count)
    ]  # fmt: skip


def main() -> None:
    """Kill so many lives, five of each store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    found, wrong = Counter[str](), list[str]()
    for number in range((words.kills + 4) // 5):
        with tempfile.TemporaryDirectory() as folder:
            figures, more = one_store(Path(folder), lives_of(words.seed + number, min(5, words.kills - 5 * number)))
            found += figures
            wrong += [f"seed {words.seed + number}: {one}" for one in more]
    print(f"{words.kills} kills: {dict(found)}; wrong: {len(wrong)}")
    print(*wrong, sep="\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
