"""Puts orders into a store, gets them by offset and key, and consumes them as a group.

    $ python examples/put_and_get.py shop
    stored order-1 as Orders/0/0
    stored order-2 as Orders/1/0
    stored order-3 as Orders/0/1
    by offset: two keyboards
    by key: a mouse
    billed 3 orders, 0 left
    a reader sees 3 messages in 2 queues

Run it again: the store is opened as it was left, and the new orders get the next offsets of their queues.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flintmq import Message, MessageStore, open_store

TOPIC = "Orders"
ORDERS = {"order-1": "two keyboards", "order-2": "a mouse", "order-3": "a lamp"}


def put_orders(store: MessageStore) -> None:
    """Put each order, the queues of the topic in turn; a put that is refused raises."""
    for number, (key, text) in enumerate(ORDERS.items()):
        result = store.put(Message(TOPIC, text.encode(), keys=key, tags="paid", queue_id=number % 2))
        result.raise_for_status()
        print(f"stored {key} as {TOPIC}/{number % 2}/{result.queue_offset}")
    store.wait_dispatched(10)  # a message can be read once queues and index know it, milliseconds later


def look_up(store: MessageStore) -> None:
    """Get one order by its place in a queue, and one by its key, the newest first."""
    first = store.get(TOPIC, 0, 0).messages[0]
    print("by offset:", first.body.decode())
    print("by key:", store.query(TOPIC, "order-2")[0].body.decode())


def bill(store: MessageStore) -> None:
    """Work through what the group has not seen, and commit: the next run goes on there."""
    count = 0
    with store.consumer("billing", TOPIC) as consumer:
        while messages := consumer.poll():
            count += len(messages)
            consumer.commit()  # on disk when it returns
        print(f"billed {count} orders, {sum(consumer.lag().values())} left")


def main(path: Path) -> None:
    """Write a store, then read it as another process may at any time."""
    with MessageStore(path, dev=True) as store:  # dev: files of kilobytes, not of a gigabyte
        put_orders(store)
        look_up(store)
        bill(store)
    with open_store(path) as view:
        print(f"a reader sees {sum(1 for _ in view.messages())} messages in {len(view.queues(TOPIC))} queues")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a directory for the store: python examples/put_and_get.py shop")
    main(Path(sys.argv[1]))
