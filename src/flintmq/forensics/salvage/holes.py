"""Fills the queue offsets of lost messages, so that brokers do not skip later messages.

A unit that points to no message makes RocketMQ skip messages: a pull that meets one continues at the next log file
(DefaultMessageStore.getMessage), and the search for a queue's first message takes it for an expired one. So the offset
of a lost message gets the unit of the next message of its queue (of the previous one at the queue's end). A consumer
may receive that message twice, which consumers must tolerate anyway, and every offset keeps its value.

System queues whose reader looks at each unit by itself (delay levels, timers, transactions) keep pre-blank units, which
their readers skip. So do light queues, and a queue that has lost all of its messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from flintmq.format.consume_queue import PRE_BLANK, UNIT, UNIT_SIZE, Unit
from flintmq.format.start_fields import allows_light
from flintmq.storage.files.filesystem import Effects
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.consumequeue.writer import FileSequence, OpenFiles
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName

IsLost = Callable[[int], bool]
"""Returns whether a log offset is in a damaged range."""


def fill_holes(root: str, made: str, name: QueueName, file_size: int, is_lost: IsLost, effects: Effects) -> int:
    """Point the offsets of lost messages to a neighbour, in a queue rebuilt from the log.

    `made`: parent of the rebuilt queue, `made`/consumequeue/TOPIC/ID.

    Returns:
        Number of offsets filled.
    """
    old, new = plain_queue(root, name, effects), plain_queue(made, name, effects)
    path = os.path.join(made, directories.QUEUES, name.topic, str(name.queue_id))
    repeats = allows_light(name.topic) and not name.topic.startswith(("RMQ_SYS_", LMQ_PREFIX))
    files = OpenFiles(effects)
    out, filled = FileSequence(files, path, file_size), 0
    end = new.end() if new.files else old.first

    def was_lost(number: int) -> bool:
        unit = old.unit(number)
        return isinstance(unit, Unit) and unit.is_written and not unit.is_pre_blank and is_lost(unit.physical_offset)

    before: Unit | None = None
    hole: list[int] = []
    for number, unit in new.units(new.first, end):
        assert isinstance(unit, Unit)
        if unit.is_pre_blank:
            hole.append(number)
            continue
        for lost in hole if repeats else ():
            if before is not None or was_lost(lost):
                out.write(lost * UNIT_SIZE, UNIT.pack(unit))
                filled += 1
        hole, before = [], unit
    number = end
    stop = old.end()
    while number < stop and (
        was_lost(number) or not new.files
    ):  # the queue keeps its end, so that no offset is assigned twice
        out.write(number * UNIT_SIZE, UNIT.pack(before if repeats and before is not None else PRE_BLANK))
        number, filled = number + 1, filled + 1
    files.close()
    return filled
