"""Processor time of planning reads and streams of many stores.

python experiments/many_stores.py [STORES [QUEUES [MESSAGES]]]: messages of each queue.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flintmq.lake.members import plans_of
from flintmq.lake.options import ReadOptions

from flintmq import Message, MessageStore
from flintmq.lake.stream.members import StoresStream
from flintmq.lake.stream.options import StreamOptions
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report

SMALL = {"mappedFileSizeConsumeQueue": 200_000, "mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100}


def make(root: Path, stores: int, queues: int, messages: int) -> str:
    """Make stores with four queues a topic, and messages of each queue; return the pattern that names them."""
    for broker in range(stores):
        with MessageStore(root / f"b{broker:03d}" / "store", maxIndexNum=400, **SMALL) as store:
            for begin in range(0, messages * queues, 10_000):
                numbers = range(begin, min(begin + 10_000, messages * queues))
                store.put_many([Message(f"T{n % queues // 4}", b"%d" % n, queue_id=n % 4) for n in numbers])
    return f"{root}/{{broker}}/store"


def told(what: str, call: Callable[[], Any]) -> Any:
    """Call, and print the processor time that it took."""
    began = time.process_time()
    answer = call()
    print(f"{what:45} {time.process_time() - began:.2f} s")
    return answer


def main(stores: int, queues: int, messages: int) -> None:
    """Measure one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        pattern = make(Path(folder), stores, queues, messages)
        whole = ReadOptions(path=pattern, stores=pattern)
        topic = ReadOptions(path=pattern, stores=pattern, predicate=Predicate(topics=frozenset(["T3"])))
        told("plan of a read", lambda: plans_of(whole, Report()))
        told("plan of a read of one topic", lambda: plans_of(topic, Report()))
        stream = StoresStream(StreamOptions(whole))
        begin = told("stream: begin of every queue", stream.initial)
        end = told("stream: end of the first micro-batch", lambda: stream.next_end(begin))
        told("stream: its tasks", lambda: stream.tasks(begin, end))
        for _ in range(3):
            told("stream: nothing new", lambda: stream.next_end(end))


if __name__ == "__main__":
    main(*[*map(int, sys.argv[1:]), *[100, 100, 4][len(sys.argv) - 1 :]])
