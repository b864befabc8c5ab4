"""A process that writes a store while others read it: each line that it reads is a number of messages, and is answered.

It is the counterpart of the oracle's `live` (labs/interop/live.py).
"""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from flintmq.message import Message
from flintmq.store.message_store import MessageStore

KEYS = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000, "maxHashSlotNum": 500}
TOPICS, QUEUES = ("T0", "T1", "T2"), 4


class LiveWriter:
    """The process. `count`: how many messages it has put; it ends with the `with` block."""

    def __init__(self, store: Path) -> None:
        self.count = 0
        words = [sys.executable, "-m", "tests.interop.live_writer", str(store)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def fill(self, count: int) -> None:
        """Have it put so many messages."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"%d\n" % count)
        self.process.stdin.flush()
        assert int(self.process.stdout.readline()) == count
        self.count += count

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()


def main() -> None:
    first = 0
    with MessageStore(sys.argv[1], config=KEYS) as store:
        for topic in TOPICS:
            store.create_topic(topic, QUEUES)
        for line in sys.stdin:
            for n in range(first, first + int(line)):
                message = Message(TOPICS[n % 3], b"%d" % n, tags=f"t{n % 5}", queue_id=n // 3 % QUEUES)
                store.put(message).raise_for_status()
            first += int(line)
            print(int(line), flush=True)


if __name__ == "__main__":
    main()
