"""Puts durable messages from threads, and prints microseconds a message; a process of its own for line P7t.

    python bench/threads_peer.py FOLDER THREADS COUNT free|pinned

It uses of FlintMQ what every version has, because a built checkout of an earlier commit runs it as well. `pinned`: on
one core.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import threading
import time
from typing import Any

from flintmq import Message, MessageStore

BODY = bytes(100)
# Earlier versions make no unique keys, and know no key for it.
KEYS: dict[str, Any] = {"unique_keys": False} if "unique_keys" in inspect.signature(MessageStore).parameters else {}


def by_threads(path: str, threads: int, count: int) -> float:
    """Return microseconds a durable message with so many threads that put and wait, after a first put."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        with MessageStore(path, flush_disk_type="SYNC_FLUSH", **KEYS) as store:
            store.put(Message("Bench", BODY))

            def work() -> None:
                for _ in range(count // threads):
                    store.put(Message("Bench", BODY, tags="TagA"))

            workers = [threading.Thread(target=work) for _ in range(threads)]
            began = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            return (time.perf_counter() - began) / (count // threads * threads) * 1e6
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[4] == "pinned":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(by_threads(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
