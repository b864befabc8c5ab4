"""One process that puts into a new store and tells what it cost: `python bench/put_peer.py DIR KIND SIZE COUNT WARM`.

KIND is `one` (a Message made and put at a time), `timed` (the same with a clock around each), `four` (the same in four
threads) or `columns` (Arrow, 64 Ki rows a time); `one+pool` puts through a transient pool of two buffers. Prints JSON:
seconds of wall clock, user and system seconds of the process, dispatch included, warm-up not; of `timed` also p999_us,
which one put in a thousand exceeds.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from array import array

from flintmq import Message, MessageStore

ROWS = 65_536


def put_one(store: MessageStore, size: int, count: int, queue_id: int = 0) -> None:
    body, put = bytes(range(256)) * 4, store.put
    body = body[:size]
    for _ in range(count):
        put(Message("Bench", body, "TagA", queue_id=queue_id))


def put_timed(store: MessageStore, size: int, count: int) -> float:
    body, put, clock = bytes(range(256)) * 4, store.put, time.perf_counter_ns
    body, taken = body[:size], array("q", bytes(8 * count))
    for n in range(count):
        message = Message("Bench", body, "TagA")
        began = clock()
        put(message)
        taken[n] = clock() - began
    return sorted(taken)[int(count * 0.999)] / 1000


def put_four(store: MessageStore, size: int, count: int) -> None:
    threads = [threading.Thread(target=put_one, args=(store, size, count // 4, n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def put_columns(store: MessageStore, size: int, count: int) -> None:
    import pyarrow as pa

    body = bytes(range(256)) * 4
    rows = min(ROWS, count)
    batch = pa.record_batch({"body": pa.array([body[:size]] * rows, pa.binary())})
    for _ in range(count // rows):
        store.put_columns("Bench", batch)


POOL = {"transientStorePoolEnable": True, "transientStorePoolSize": 2}
KINDS = {"one": put_one, "timed": put_timed, "four": put_four, "columns": put_columns}


def main(path: str, kind: str, size: int, count: int, warm: int) -> None:
    kind, _, pool = kind.partition("+")
    with MessageStore(path, POOL if pool else None, unique_keys=False) as store:
        KINDS[kind](store, size, warm)
        store.wait_dispatched()
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        late = KINDS[kind](store, size, count)
        store.wait_dispatched()
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps({"seconds": seconds, "user": user, "system": system, "p999_us": late}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
