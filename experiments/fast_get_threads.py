"""Do fast gets beside puts and closing files return what was put: `python experiments/fast_get_threads.py [SECONDS]`.

Four threads put, four get by the compiled way alone (what it leaves to the slow way is asked there), and one closes the
oldest files of the log, whose maps and descriptors then go. Files are small, so all of it happens at once. Each message
is compared with the one that was put at its queue offset.

The fast way is turned on where puts take a lock of their own too, so this is the trial for Python without a GIL:
PYTHON_GIL=0 there. With a GIL, FLINTMQ_PUT_LOCK=1 tries that lock, and threads change often, but never amid a call.
"""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
import threading
import time

from flintmq import Message, MessageStore
from flintmq.message import PutMessageStatus
from flintmq.store.read import get as reading

PUTTING = GETTING = 4
QUEUES, LEFT = 3, 6  # queues of the topic; files that are left to be read
KEYS = {"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 20_000}
PAUSE_S = 0.0005  # of a putting thread now and then, so that getting threads reach the end


def body_of(thread: int, number: int) -> bytes:
    """Return a body of up to 2,000 bytes that says whose it is, and no other begins or ends like."""
    head = b"%d/%d/" % (thread, number)
    tail = hashlib.blake2b(head).digest()
    return head + tail * (1 + number % 30)


class Trial:
    """One store, the threads that use it, and what they found wrong."""

    def __init__(self, store: MessageStore, until: float) -> None:
        self.store, self.until = store, until
        self.told: list[dict[int, tuple[int, int]]] = [{} for _ in range(QUEUES)]  # queue offset -> whose put
        self.wrong: list[str] = []
        self.got = [0] * GETTING
        self.closed = 0

    def runs(self) -> bool:
        """Return whether there is time left, and nothing is wrong."""
        return time.monotonic() < self.until and not self.wrong

    def put(self, thread: int) -> None:
        """Put messages, and note their queue offsets."""
        chance, number = random.Random(thread), 0
        while self.runs():
            queue = chance.randrange(QUEUES)
            result = self.store.put(Message("T", body_of(thread, number), tags=f"t{number % 3}", queue_id=queue))
            if result.status is not PutMessageStatus.PUT_OK:
                self.wrong.append(f"put: {result}")
            self.told[queue][result.queue_offset] = thread, number
            number += 1
            if number % 50 == 0:
                time.sleep(PAUSE_S)

    def get(self, thread: int) -> None:
        """Get from places near the end and further back, with a tag and without."""
        chance = random.Random(100 + thread)
        while self.runs():
            queue, tags = chance.randrange(QUEUES), chance.choice((None, "t1", "t0 || t2"))
            end = max(self.told[queue].copy(), default=0)
            at = max(end - int(chance.expovariate(1 / 200)), 0)
            for _ in range(10):
                found = self.store.get("T", queue, at, chance.choice((1, 8, 32)), tags=tags)
                for one in found.messages:
                    self.check(queue, at, one, tags)
                    at = one.queue_offset + 1
                self.got[thread] += len(found.messages)
                at = max(at, found.next_begin_offset)

    def check(self, queue: int, at: int, one, tags: str | None) -> None:
        """Note what is wrong with a message that a get from `at` on returned."""
        whose = tuple(int(part) for part in one.body.split(b"/", 2)[:2])
        told = self.told[queue].get(one.queue_offset, whose)  # the put that stored it may not have returned yet
        right = one.body == body_of(*whose) and told == whose and one.queue_id == queue and one.topic == "T"
        passes = tags is None or f"t{whose[1] % 3}" in tags
        if not (right and passes and one.queue_offset >= at):
            self.wrong.append(f"queue {queue} from {at}: {one.queue_offset} is {one.body[:40]!r}, {told} was put")

    def close_files(self) -> None:
        """Close the oldest files of the log, as retention does when they have expired."""
        log, files = self.store._parts.log, self.store._parts.files
        while self.runs():
            self.store.flush()
            if len(files.files) > LEFT and self.store.wait_dispatched(10):
                log.locked(files.drop_first, None)
                self.closed += 1
            time.sleep(0.001)


def guarded(trial: Trial, work, *rest: int) -> threading.Thread:
    """Return a thread that notes what it raises."""

    def run() -> None:
        try:
            work(*rest)
        except BaseException as error:
            trial.wrong.append(f"{work.__name__}: {error!r}")

    return threading.Thread(target=run)


def main(seconds: float) -> None:
    """Run the threads for so long, then say what they did."""
    reading.own_lock = lambda: False  # which turns the fast way off; `Appender` looks for itself
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        sys.setswitchinterval(1e-5)
    with tempfile.TemporaryDirectory() as folder, MessageStore(folder, KEYS) as store:
        fast = store._parts.reader.fast
        trial = Trial(store, time.monotonic() + seconds)
        threads = [guarded(trial, trial.put, n) for n in range(PUTTING)]
        threads += [guarded(trial, trial.get, n) for n in range(GETTING)] + [guarded(trial, trial.close_files)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        files = store._parts.files.files
        puts = sum(len(queue) for queue in trial.told)
        counted = fast.found, fast.missed, fast.messages
    held = [file.path for file in files if file.is_held or not file.map.closed]
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    python = f"{sys.version.split()[0]}, {'with' if gil else 'without'} a GIL"
    print(f"{python}, {seconds:.0f} s: {puts} puts, {sum(trial.got)} messages")
    print(f"fast gets that found, that found nothing, their messages: {counted}; files closed: {trial.closed}")
    print(f"wrong: {trial.wrong[:5]}, files left open: {held}")
    if trial.wrong or held or counted[0] == 0:
        raise SystemExit(1)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
