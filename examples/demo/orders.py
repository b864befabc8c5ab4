"""Runs an engine that takes orders, for demo and tutorial: `python orders.py STORE`.

Orders are numbered from 0, and the number is the message's key. When it is started again, also after kill -9, it looks
up the last order in the store and continues with the next, so that a store never lacks an order nor has one twice.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

from flintmq import Message, MessageStore, open_store
from flintmq.errors import NotAStoreError, StoreError

TOPICS = ("Orders", "Orders", "Orders", "Payments", "Payments", "Shipments", "Returns")
CITIES = (
    "上海",
    "Lagos",
    "上海",
    "Osaka",
    "Bergen",
    "上海",
    "Quito",
    "Tbilisi",
    "Córdoba",
)  # the first has a hot queue
QUEUES = 4
AT_ONCE = 200
SWING_S = 8.0  # period of the swinging rate


def order(number: int, born_ms: int | None = None) -> Message:
    """Return the order of a number, the same each time except for its birth time in ms."""
    mixed = number * 2_654_435_761 % 2**32
    body = {
        "order": number,
        "city": CITIES[mixed // 31 % len(CITIES)],
        "cents": mixed % 90_000 + 100,
        "items": [f"item-{(mixed >> shift) % 997}" for shift in range(0, 4 * (1 + mixed % 5), 4)],
    }
    return Message(
        TOPICS[mixed // 7 % len(TOPICS)],
        json.dumps(body, ensure_ascii=False).encode(),
        tags="express" if mixed % 5 == 0 else "normal",
        keys=f"order-{number}",
        queue_id=CITIES.index(CITIES[mixed // 31 % len(CITIES)]) % QUEUES,
        born_timestamp=born_ms,
        born_host=f"10.0.{mixed // 5 % 3}.{10 + mixed // 3 % 12}:{40_000 + mixed % 1000}",
    )


def number_of(keys: str | None) -> int:
    """Return the number of an order from its message's keys.

    Raises:
        ValueError: the keys are not an order's.
    """
    return int((keys or "").removeprefix("order-"))


def next_number(path: str | os.PathLike[str]) -> int:
    """Return the number of a store's next order, by the messages at the ends of its queues."""
    try:
        with open_store(path) as view:
            ends = [queue for queue in view.queues() if queue.max_offset > queue.min_offset]
            last = [view.get(queue.topic, queue.queue_id, queue.max_offset - 1) for queue in ends]
    except NotAStoreError:
        return 0
    return max((number_of(message.keys) + 1 for message in last), default=0)


def take(path: str | os.PathLike[str], orders: int, rate: float, acks: Path | None = None) -> int:
    """Put orders up to a number at a swinging rate, and record how many are stored.

    Args:
        path: the store; created if missing.
        orders: number of orders in the store in the end.
        rate: mean orders a second; 0 for as fast as possible.
        acks: each time a batch is stored, the number of stored orders is appended here as a line.

    Returns:
        Number of orders put.

    Raises:
        StoreError: one could not be stored.
    """
    number = first = next_number(path)
    began = time.monotonic()
    with MessageStore(path) as store, open(acks or os.devnull, "a", encoding="ascii") as acked:
        while number < orders:
            now = time.time_ns() // 1_000_000  # the orders were some ms on their way
            batch = [order(n, now - n * n % 19) for n in range(number, min(number + AT_ONCE, orders))]
            for result in store.put_many(batch, until_refused=True):
                if result.status.name != "PUT_OK":
                    raise StoreError(f"{path}: order {number} was not stored: {result.status.name}")
            number += len(batch)
            acked.write(f"{number}\n")
            acked.flush()
            if rate:
                ahead_s = due(number - first, rate) - (time.monotonic() - began)
                time.sleep(max(0.0, ahead_s))
        store.wait_dispatched(30)
    return number - first


def due(count: int, rate: float) -> float:
    """Return when `count` orders are due, in seconds; the rate swings by half around its mean."""
    even = count / rate
    return even + 0.5 * SWING_S / (2 * math.pi) * math.sin(2 * math.pi * even / SWING_S)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Takes orders into a store; started again, it goes on.")
    parser.add_argument("store", help="the store's directory; created if missing")
    parser.add_argument("--orders", type=int, default=100_000, help="number of orders in the end (100000)")
    parser.add_argument("--rate", type=float, default=5000, help="orders a second, 0: as fast as possible (5000)")
    parser.add_argument("--acks", type=Path, help="a file that gets the number of stored orders, a line a batch")
    given = parser.parse_args(arguments)
    if given.orders < 0 or given.rate < 0:
        parser.error("--orders and --rate cannot be negative")
    count = take(given.store, given.orders, given.rate, given.acks)
    print(f"{count} orders taken; {given.store} holds {given.orders if count else next_number(given.store)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
