"""One process that puts into a new store and tells what it cost: `python bench/put_peer.py DIR KIND SIZE COUNT WARM`.

KIND is `one` (a Message made and put at a time), `timed` (the same with a clock around each) or `four` (the same in as
many threads); `one+pool` puts through a transient pool of two buffers, and `one+host` gives each message the address of
a client, of 64. Prints JSON: seconds of wall clock, user and system seconds of the process and their sum, dispatch
included, warm-up not; of `timed` also p999_us, which one put in a thousand exceeds.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import threading
import time
from array import array
from collections.abc import Callable

from flintmq import Message, MessageStore

HOSTS = [f"10.0.{number}.7:{40_000 + number}" for number in range(64)]


def put_one(store: MessageStore, size: int, count: int, more: str, queue_id: int = 0) -> None:
    body, put = bytes(range(256)) * 4, store.put
    body, hosts = body[:size], HOSTS if more == "host" else [None]
    for host in itertools.islice(itertools.cycle(hosts), count):
        put(Message("Bench", body, "TagA", queue_id=queue_id, born_host=host))


def put_timed(store: MessageStore, size: int, count: int, more: str) -> float:
    body, put, clock = bytes(range(256)) * 4, store.put, time.perf_counter_ns
    body, taken = body[:size], array("q", bytes(8 * count))
    for n in range(count):
        message = Message("Bench", body, "TagA")
        began = clock()
        put(message)
        taken[n] = clock() - began
    return sorted(taken)[int(count * 0.999)] / 1000


def put_four(store: MessageStore, size: int, count: int, more: str) -> None:
    threads = [threading.Thread(target=put_one, args=(store, size, count // 4, more, n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


POOL = {"transientStorePoolEnable": True, "transientStorePoolSize": 2}
KINDS: dict[str, Callable[..., float | None]] = {"one": put_one, "timed": put_timed, "four": put_four}


def main(path: str, kind: str, size: int, count: int, warm: int) -> None:
    kind, _, more = kind.partition("+")
    with MessageStore(path, POOL if more == "pool" else None, unique_keys=False) as store:
        KINDS[kind](store, size, warm, more)
        store.wait_dispatched()
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        late = KINDS[kind](store, size, count, more)
        store.wait_dispatched()
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    told = {"seconds": seconds, "user": user, "system": system, "cpu": user + system, "p999_us": late or 0.0}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
