"""What bounds P13: messages read by queue offset as objects, taken apart.

    python experiments/queue_bound.py STORE [ROUNDS]

Cases take turns, all from the mapped log in the page cache; printed are the least and the middle wall clock of the
rounds in ns a message:

    objects       objects and their bodies made of the same 256 records again and again, which stay in the processor's
                  cache: nothing is looked up, nothing is checked
    read          every message of every queue, checked, as an object, its body taken: the line P13.decoded
    again         the same for the first 256 messages of each queue alone, over and over: no cache misses in the log
"""

from __future__ import annotations

import statistics
import sys
import time
from array import array
from collections.abc import Callable

from flintmq import open_store
from flintmq.kernels.read import fetch
from flintmq.message import StoredMessage
from flintmq.store.view import StoreView

FEW = 256


def objects(data: bytes, positions: array[int], times: int) -> int:
    """Make and drop the same objects; return how many."""
    for _ in range(times):
        for message in fetch.take(StoredMessage, data, positions, FEW):
            len(message.body)
    return times * FEW


def read(view: StoreView, batch: int = 16384) -> int:
    """Take every message of every queue; return how many."""
    seen = 0
    for queue in view.queues():
        offset = queue.min_offset
        while offset < queue.max_offset:
            found = view.read(queue.topic, queue.queue_id, offset, batch)
            for message in found:
                len(message.body)
                seen += 1
            offset = found.next_offset
    return seen


def again(view: StoreView, times: int) -> int:
    """Take the first messages of each queue, over and over; return how many."""
    seen = 0
    for queue in view.queues():
        found = view.read(queue.topic, queue.queue_id, queue.min_offset, FEW)
        for _ in range(times):
            for message in found:
                len(message.body)
                seen += 1
    return seen


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with open_store(store, access="map") as view:
        queue = view.queues()[0]
        records = [message.raw for message in view.read(queue.topic, queue.queue_id, queue.min_offset, FEW)]
        positions, data = array("q"), bytearray()
        for record in records:
            positions.append(len(data))
            data += record
        cases: dict[str, Callable[[], int]] = {
            "objects": lambda: objects(bytes(data), positions, 2000),
            "read": lambda: read(view),
            "again": lambda: again(view, 100),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, case in cases.items():
                began = time.perf_counter()
                count = case()
                if turn:
                    times[name].append((time.perf_counter() - began) / count * 1e9)
        for name, found in times.items():
            print(f"{name:8} {min(found):6.0f} ns, middle {statistics.median(found):6.0f}")


if __name__ == "__main__":
    main()
