"""One process that puts into a new store and tells what it cost: `python bench/put_peer.py DIR KIND SIZE COUNT WARM`.

KIND is `one` (a Message made and put at a time), `timed` (the same with a clock around each), `four` and `two` (the
same in so many threads) or `columns` (Arrow, 64 Ki rows a time); `one+pool` puts through a transient pool of two
buffers, and `one+unique` gives each message a unique key. Prints JSON: seconds of wall clock, user and system seconds
of the process, dispatch included, warm-up not; of `timed` also p999_us and p9999_us, which one put in a thousand and in
ten thousand exceeds.
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


def put_timed(store: MessageStore, size: int, count: int) -> tuple[float, float]:
    body, put, clock = bytes(range(256)) * 4, store.put, time.perf_counter_ns
    body, taken = body[:size], array("q", bytes(8 * count))
    for n in range(count):
        message = Message("Bench", body, "TagA")
        began = clock()
        put(message)
        taken[n] = clock() - began
    late = sorted(taken)
    return late[int(count * 0.999)] / 1000, late[int(count * 0.9999)] / 1000


def put_four(store: MessageStore, size: int, count: int, number: int = 4) -> None:
    threads = [threading.Thread(target=put_one, args=(store, size, count // number, n)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def put_two(store: MessageStore, size: int, count: int) -> None:
    put_four(store, size, count, 2)


def put_columns(store: MessageStore, size: int, count: int) -> None:
    import pyarrow as pa

    body = bytes(range(256)) * 4
    rows = min(ROWS, count)
    batch = pa.record_batch({"body": pa.array([body[:size]] * rows, pa.binary())})
    for _ in range(count // rows):
        store.put_columns("Bench", batch)


POOL = {"transientStorePoolEnable": True, "transientStorePoolSize": 2}
KINDS = {"one": put_one, "two": put_two, "timed": put_timed, "four": put_four, "columns": put_columns}


def main(path: str, kind: str, size: int, count: int, warm: int) -> None:
    kind, _, more = kind.partition("+")
    config = POOL if more == "pool" else None
    with MessageStore(path, config, unique_keys=more == "unique") as store:
        KINDS[kind](store, size, warm)
        store.wait_dispatched()
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        late = KINDS[kind](store, size, count)
        store.wait_dispatched()
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    p999, p9999 = late or (None, None)
    print(json.dumps({"seconds": seconds, "user": user, "system": system, "p999_us": p999, "p9999_us": p9999}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
