"""Follows a master until a log offset is dispatched: `python bench/follow_peer.py STORE PORT END KEYS`.

Prints a line when its store is open, then JSON: processor seconds since then. KEYS: RocketMQ's keys as a JSON object.
With an END of 0 it follows, and acknowledges, until its standard input ends. A fifth word `latency`: prints the ages in
microseconds of the messages of topic Late when a get returned them; their bodies are ns of the monotonic clock.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time

from flintmq.ha import Follower


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def catch_up(follower: Follower, end: int) -> None:
    """Follow to `end`, dispatched, and say what it cost."""
    before = cpu()
    while follower.whole < end:
        time.sleep(0.02)
    follower.store.wait_dispatched(600)
    print(json.dumps({"cpu": cpu() - before}), flush=True)
    sys.stdin.read()


def latencies(follower: Follower) -> None:
    """Read each new message of queue 0 as soon as it is there; print how old it was."""
    taken: list[float] = []
    done = threading.Event()

    def until_end() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=until_end, daemon=True).start()
    offset = 0
    while not done.is_set():
        found = follower.store.get("Late", 0, offset, 256, wait_ms=200)
        now = time.monotonic_ns()
        taken += [(now - int(message.body)) / 1000 for message in found.messages]
        offset = found.next_begin_offset
    print(json.dumps(taken), flush=True)


def main(store: str, port: str, end: str, keys: str, kind: str = "") -> None:
    with Follower(store, f"127.0.0.1:{port}", config=json.loads(keys), ack=True) as follower:
        print("ready", flush=True)
        if kind == "latency":
            latencies(follower)
        elif int(end):
            catch_up(follower, int(end))
        else:
            sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
