"""What a put costs that an event loop awaits: processor time of the loop's thread, where a sync costs next to nothing.

python experiments/awaited_puts.py [--folder /dev/shm] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time

from flintmq import Message, MessageStore

COUNT, BODY = 204_800, bytes(100)


def loop_time(folder: str, tasks: int) -> float:
    """Microseconds of the loop's thread a put, with so many tasks that put one after the other."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        keys = {"mappedFileSizeCommitLog": 256 << 20}
        with MessageStore(root, keys, flush_disk_type="SYNC_FLUSH", unique_keys=False) as store:

            async def work() -> None:
                for _ in range(COUNT // tasks):
                    await store.put_async(Message("Bench", BODY, tags="TagA"))

            async def main() -> float:
                began = time.thread_time()
                await asyncio.gather(*[work() for _ in range(tasks)])
                return time.thread_time() - began

            store.put(Message("Bench", BODY))
            return asyncio.run(main()) / COUNT * 1e6


def main() -> None:
    """Print medians and least values."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=7)
    words = parser.parse_args()
    for tasks in (64, 1024):
        found = [loop_time(words.folder, tasks) for _ in range(words.rounds)]
        print(f"{tasks:5} tasks: {statistics.median(found):.2f} us a put, least {min(found):.2f}")


if __name__ == "__main__":
    main()
