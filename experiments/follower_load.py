"""Times puts of a Java master beside followers of several kinds: what of HA5 is the follower's, what the machine's.

    python experiments/follower_load.py [COUNT] [ROUNDS] [KIND...]

Kinds: `none`; `java`, a Java slave; `flintmq`; `nice`, the same at the lowest priority; `batch`, the same under
SCHED_BATCH; `pace-N`, which reads at most N MiB a second; `wait-N`, which waits N ms between its reads;
`keys-KEY=VALUE+KEY=VALUE`, with these of RocketMQ's keys; `sink`, a loop that receives, throws away and reports, and
has nothing of FlintMQ; `sink-N`, the same at N MiB a second. Microseconds a put, the median of the rounds, which take
the kinds in turn; and MiB a second that the follower had received when the master had put all.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent / "bench"
sys.path[:0] = [str(BENCH), str(BENCH.parent)]

from tests.interop.java import home  # noqa: E402

VERSION = "5.3.3"
WARM = 1_500_000  # puts before those that are timed; Java's compiler is at work for so long
KINDS = ("none", "java", "flintmq", "nice", "pace-300", "wait-5", "sink", "sink-300")


def java(command: str, store: Path, keys: dict[str, object], *more: str, **top: object) -> subprocess.Popen[str]:
    """Start the oracle."""
    built, why = home(VERSION)
    assert built is not None, why
    conf = store.with_name(f"{store.name}-{command}.json")
    conf.write_text(json.dumps({"store": keys, "topics": {"Bench": {"queues": 4}}, **top}))
    words = ["java", "-Doracle.log=OFF", "-Xmx1g", "-cp", f"{built}/target/oracle.jar:{built}/lib/*"]
    words += ["flintmq.oracle.Oracle", command, "--store", str(store), "--config", str(conf), *more]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def port_of_nobody() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# -- followers: processes that begin with `peer KIND STORE PORT` -------------------------------------------------------


def sink(port: int, most: float) -> None:
    """Receive and throw away; say with 8 bytes how much, a MiB at a time."""
    line = connected(port)
    line.sendall(struct.pack(">q", 0))
    buffer, taken, began = bytearray(1 << 20), 0, time.monotonic()
    while got := line.recv_into(buffer):
        taken += got
        line.sendall(struct.pack(">q", 0))  # that it lives; what it has is not asked here
        if most:
            time.sleep(max(0.0, taken / most - (time.monotonic() - began)))


def connected(port: int) -> socket.socket:
    """Connect to a master that may not listen yet."""
    while True:
        with suppress(ConnectionError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(0.05)


def follow(store: str, port: int, pace: float, wait: float, keys: dict[str, str]) -> None:
    """Follow with FlintMQ, until the standard input ends."""
    from flintmq.ha import Follower, connection

    whole, taken, began = connection._Tcp.recv_into, 0, 0.0

    def slower(wire: connection._Tcp, buffer: memoryview) -> int:
        nonlocal taken, began
        began = began or time.monotonic()
        got = whole(wire, buffer)
        taken += got
        time.sleep(max(wait, taken / pace - (time.monotonic() - began)) if pace else wait)
        return got

    if pace or wait:
        connection._Tcp.recv_into = slower  # type: ignore[method-assign]
    with Follower(store, f"127.0.0.1:{port}", config=keys, ack=True):
        sys.stdin.read()


def peer(kind: str, store: str, port: int) -> None:
    name, _, number = kind.partition("-")
    if name == "sink":
        sink(port, float(number or 0) * (1 << 20))
    if name == "nice":
        os.nice(19)
    if name == "batch":
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    pace, wait = float(number) * (1 << 20) if name == "pace" else 0, int(number) / 1000 if name == "wait" else 0
    keys = dict(one.split("=") for one in number.split("+")) if name == "keys" else {}
    follow(store, port, pace, wait, keys)


# -- rounds ------------------------------------------------------------------------------------------------------------


def received(pid: int, port: int) -> int:
    """Bytes that a process's line to this port has received, as the system counts them."""
    found = subprocess.run(["ss", "-tinHp", f"dport = :{port}"], capture_output=True, text=True).stdout
    counts = [int(word.partition(":")[2]) for word in found.split() if word.startswith("bytes_received:")]
    return max(counts, default=0) if pid else 0


def once(kind: str, count: int, folder: Path) -> tuple[float, float]:
    """(microseconds a put, MiB a second that the follower received)."""
    port = port_of_nobody()
    follower = None
    if kind == "java":
        follower = java("live", folder / "slave", {"brokerRole": "SLAVE", "haListenPort": port_of_nobody()},
                        ha_master=f"127.0.0.1:{port}", broker={"brokerId": 1})  # fmt: skip
        assert follower.stdout is not None
        follower.stdout.readline()
    elif kind != "none":
        words = [sys.executable, __file__, "peer", kind, str(folder / "slave"), str(port)]
        follower = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
    try:
        master = java("bench", folder / "master", {"haListenPort": port}, "--size", "900", "--count", str(count),
                      "--warmup", str(WARM), "--window", "1")  # fmt: skip
        most, began = 0, 0.0
        while master.poll() is None:
            got = received(follower.pid if follower else 0, port)
            began = began or (time.monotonic() if got > 1000 else 0.0)
            if got > most:
                most, last = got, time.monotonic()
            time.sleep(0.2)
        assert master.stdout is not None
        found = json.loads(master.stdout.read().strip().splitlines()[-1])
        rate = most / (1 << 20) / max(last - began, 1e-9) if most else 0.0
        return found["seconds"] / found["count"] * 1e6, rate
    finally:
        if follower is not None:
            follower.kill()
            follower.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=600_000)
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    words = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in words.kinds}
    for _ in range(words.rounds):
        for kind in words.kinds:
            with tempfile.TemporaryDirectory() as folder:
                times[kind].append(once(kind, words.count, Path(folder)))
    for kind, found in times.items():
        us = [one for one, _ in found]
        rates = statistics.median(rate for _, rate in found)
        each = ", ".join(f"{one:.2f}" for one in us)
        print(f"{kind:9} {statistics.median(us):6.2f} us a put ({each}), {rates:5.0f} MiB/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        peer(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
