"""The engine that writes all the while, as a process of its own that is killed: `python -m
labs.torture_spark.writer`.

    python -m labs.torture_spark.writer STORE LEDGER LIFE

A line of the ledger is one write after an answer: what is in it was acknowledged.
"""

import itertools
import json
import os
import random
import sys
import time

from flintmq.message import Message
from flintmq.store.message_store import MessageStore

KEYS = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000, "commitLogRecoverMaxNum": 1000}
TOPICS = ("Orders", "Refunds", "Größe%")
QUEUES = 3
RATE = 300  # messages a second, about
PREPARED, COMMIT, ROLLBACK = 4, 8, 12  # of sys_flag: the first and the last are in no queue


def message(identity: str, chance: random.Random, times: int = 1) -> Message:
    """A message that names itself in its keys, its body so many times as large; some belong to transactions."""
    flag = chance.choice((PREPARED, COMMIT, ROLLBACK)) if chance.random() < 0.1 else 0
    return Message(
        chance.choice(TOPICS), chance.randbytes(times * chance.choice((0, 20, 200, 900))),
        tags=f"t{chance.randrange(4)}", keys=identity, queue_id=chance.randrange(QUEUES), sys_flag=flag,
    )  # fmt: skip


def main(root: str, ledger: str, life: str) -> None:
    """Put until somebody ends the process."""
    chance = random.Random(life)
    fd = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"\n")  # a line that a kill broke off ends here
    with MessageStore(root, config=KEYS, unique_keys=False) as store:
        for number in itertools.count():
            put = message(f"{life}-{number}", chance)
            (result,) = store.put_many([put], delivered=True)  # only copies are prepared
            line = {"told": put.keys, "status": result.status.name, "physical_offset": result.physical_offset}
            os.write(fd, json.dumps(line).encode() + b"\n")
            if number % 30 == 29:
                time.sleep(chance.uniform(0, 60 / RATE))


if __name__ == "__main__":
    main(*sys.argv[1:])
