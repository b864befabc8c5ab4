"""Durable puts of one process: processor microseconds a message, then the least and the middle burst's wall.

    python experiments/native_flusher.py one|threads|loop UNDER_WAY BURSTS FOLDER

Run it in turn with the environments of two commits.
"""

import asyncio
import json
import resource
import shutil
import sys
import tempfile
import threading
import time

from flintmq import Message, MessageStore

mode, flight, bursts, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
BODY = bytes(100)
count = max(flight * 20, 200)
d = tempfile.mkdtemp(dir=folder)
try:
    s = MessageStore(d, flush_disk_type="SYNC_FLUSH", unique_keys=False)
    s.put(Message("Bench", BODY))

    def threads():
        go = threading.Barrier(flight + 1)

        def work():
            go.wait()
            for _ in range(count // flight):
                s.put(Message("Bench", BODY, "TagA"))

        ts = [threading.Thread(target=work) for _ in range(flight)]
        [t.start() for t in ts]
        go.wait()
        a = time.perf_counter()
        [t.join() for t in ts]
        return time.perf_counter() - a

    async def loop():
        async def work():
            for _ in range(count // flight):
                await s.put_async(Message("Bench", BODY, "TagA"))

        a = time.perf_counter()
        await asyncio.gather(*[work() for _ in range(flight)])
        return time.perf_counter() - a

    def one():
        a = time.perf_counter()
        for _ in range(count):
            s.put(Message("Bench", BODY, "TagA"))
        return time.perf_counter() - a

    run = {"threads": threads, "loop": lambda: asyncio.run(loop()), "one": one}[mode]
    run()
    a = resource.getrusage(resource.RUSAGE_SELF)
    w = sorted(run() for _ in range(bursts))
    b = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            [
                (b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime) / count / bursts * 1e6,
                w[0] / count * 1e6,
                w[len(w) // 2] / count * 1e6,
            ]
        )
    )
    s.close()
finally:
    shutil.rmtree(d)
