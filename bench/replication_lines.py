"""HA1, HA2, HA4, HA7: FlintMQ's follower and listener beside Java's slave and master, on the same lines.

The log: bodies of 900 B with a key, files of 1 GiB, `--mib` long. A Java slave asks an unknown master for its last file
alone (first report 0), so both followers come through a relay that turns this report into 1: the whole log. Seconds
begin with the first report and end when the last record is in queues and index.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import java
from harness import Context, Cost, Result, measure

from flintmq import Message, MessageStore

PEER = Path(__file__).with_name("follow_peer.py")
TICK = os.sysconf("SC_CLK_TCK")
LINE_S = 600
WARM = 400_000
"""Puts of a Java master before its puts are timed, so that Java has compiled its code. A master of FlintMQ makes as
many: its first puts, into new files, take a tenth longer, too."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# -- processes ---------------------------------------------------------------------------------------------------------


class Process:
    """A child that answers in lines; its processor seconds."""

    def __init__(self, words: list[str]) -> None:
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    @property
    def cpu(self) -> float:
        """Seconds so far."""
        words = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICK

    def line(self) -> str:
        assert self.child.stdout is not None
        if not select.select([self.child.stdout], [], [], LINE_S)[0]:
            raise TimeoutError(f"{self.child.args!r} does not answer")
        found = self.child.stdout.readline().decode()
        if not found:
            raise EOFError(f"{self.child.args!r} ended")
        return found

    def end(self) -> str:
        """Close its input; return the rest of what it says."""
        out, _ = self.child.communicate(timeout=LINE_S)
        return out.decode()

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


class Java(Process):
    """The oracle's `live` or `bench` command."""

    def __init__(self, context: Context, command: str, store: Path, keys: dict[str, Any], *more: str, **top: Any):
        conf = store.with_name(f"{store.name}-{command}.json")
        conf.write_text(json.dumps({"store": keys, "topics": {"Bench": {"queues": 4}, "Late": {"queues": 4}}, **top}))
        words = java.words(context, command, "--store", str(store), "--config", str(conf), *more)
        super().__init__([words[0], "-Xmx1g", *words[1:]])

    def __call__(self, op: str, **more: Any) -> dict[str, Any]:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps({"op": op, **more}).encode() + b"\n")
        self.child.stdin.flush()
        found: dict[str, Any] = json.loads(self.line())
        return found


class Relay:
    """Passes bytes on between followers and a master. `began`: when the first report came.

    A first report of 0, which gets the last file alone, becomes 1; byte 0 of the log, a 0, then precedes the first
    frame, as an empty Java slave takes any offset for the begin of a file.
    """

    def __init__(self, port: int) -> None:
        self.to, self.began = port, 0.0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to), 5)
            except OSError:
                return
            for line in (near, far):
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._line, args=(near, far), daemon=True).start()

    def _line(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            first = near.recv(8, socket.MSG_WAITALL)
            if self.began == 0:
                self.began = time.perf_counter()
            whole = first == bytes(8)
            far.sendall(struct.pack(">q", 1) if whole else first)
            threading.Thread(target=self._bytes, args=(near, far), daemon=True).start()
            if whole:
                _, size = struct.unpack(">qi", far.recv(12, socket.MSG_WAITALL))
                near.sendall(struct.pack(">qi", 0, size + 1) + b"\0")
        self._bytes(far, near)

    @staticmethod
    def _bytes(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while got := one.recv(1 << 20):
                other.sendall(got)
        for line in (one, other):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.close()


def flint_slave(store: Path, port: int, end: int, *more: str) -> Process:
    """A FlintMQ follower, ready."""
    process = Process([sys.executable, str(PEER), str(store), str(port), str(end), "{}", *more])
    assert process.line() == "ready\n"
    return process


def java_slave(context: Context, store: Path, port: int) -> Java:
    """A Java slave, ready. With brokerId 0, a bare store's, its dispatch passes over records that come in parts."""
    slave = Java(context, "live", store, {"brokerRole": "SLAVE", "haListenPort": free_port()},
                 ha_master=f"127.0.0.1:{port}", broker={"brokerId": 1})  # fmt: skip
    slave.line()
    return slave


# -- catching up: HA1, HA2 ---------------------------------------------------------------------------------------------


def source(context: Context) -> Path:
    """The log that is followed, written by Java."""
    if "replicated" not in context.stores:
        path = context.scratch / "replicated"
        count = max(context.mib * (1 << 20) // 1040, 1000)
        Java(context, "bench", path, {}, "--size", "900", "--count", str(count), "--warmup", "1", "--keys").end()
        context.stores["replicated"] = path
    found: Path = context.stores["replicated"]
    return found


def by_flint(context: Context, port: int, end: int) -> Cost:
    with context.folder("slave") as path:
        relay = Relay(port)
        process = flint_slave(path / "store", relay.port, end)
        try:
            used = json.loads(process.line())
            took = time.perf_counter() - relay.began
            return {"seconds": took, "cpu": used["cpu"]}
        finally:
            process.kill()
            relay.close()


def by_java(context: Context, port: int, end: int) -> Cost:
    with context.folder("slave") as path:
        relay = Relay(port)
        slave = java_slave(context, path / "store", relay.port)
        before = slave.cpu
        try:
            reached = slave("await", offset=end, ms=LINE_S * 1000)["max_physical_offset"]
            assert reached == end, f"the Java slave has {reached} of {end}"
            slave("dispatch")
            took = time.perf_counter() - relay.began
            return {"seconds": took, "cpu": slave.cpu - before}
        finally:
            slave.kill()
            relay.close()


def ha1(context: Context) -> dict[str, Result]:
    """An empty follower catches up with a Java master."""
    store, port = source(context), free_port()
    master = Java(context, "live", store, {"haListenPort": port})
    try:
        master.line()
        end = int(master("ha")["max_physical_offset"])
        cases = {"flintmq": lambda: by_flint(context, port, end), "java": lambda: by_java(context, port, end)}
        found = measure(context, cases)
    finally:
        master.kill()
    return {
        "HA1": found.result(found["java seconds"] / found["flintmq seconds"], GiB=round(end / (1 << 30), 3)),
        "HA2": found.result(found["flintmq cpu"] / found["java cpu"]),
    }


# -- latency: HA4 --------------------------------------------------------------------------------------------------


def paced(context: Context, put: Callable[[bytes], Any], process: Process) -> Cost:
    """Put 1,000 messages a second for some seconds; how old were they when the follower read them?"""
    seconds = 2 if context.quick else 10
    time.sleep(1)
    began = time.perf_counter()
    for number in range(seconds * 1000):
        while time.perf_counter() < began + number / 1000:
            time.sleep(0.0002)
        put(b"%d" % time.monotonic_ns())
    time.sleep(0.5)
    found: list[float] = sorted(json.loads(process.end()))
    assert len(found) == seconds * 1000, f"{len(found)} of {seconds * 1000} messages were read"
    return {"ms, 99 %": found[len(found) * 99 // 100] / 1000, "ms, median": found[len(found) // 2] / 1000}


def ha4(context: Context) -> dict[str, Result]:
    """From a put on the master until a get on the follower returns it. A Java master looks for bytes each 100 ms."""

    def here() -> Cost:
        with context.folder("late") as path, ExitStack() as open_:
            port = free_port()
            store = open_.enter_context(MessageStore(path / "master", ha_listen=("127.0.0.1", port)))
            process = flint_slave(path / "slave", port, 0, "latency")
            open_.callback(process.kill)
            return paced(context, lambda body: store.put(Message("Late", body)), process)

    def there() -> Cost:
        with context.folder("late") as path, ExitStack() as open_:
            port = free_port()
            master = Java(context, "live", path / "master", {"haListenPort": port})
            open_.callback(master.kill)
            master.line()
            process = flint_slave(path / "slave", port, 0, "latency")
            open_.callback(process.kill)
            return paced(context, lambda body: master("put", topic="Late", queue=0, body=body.decode()), process)

    found = measure(context, {"flintmq": here, "java": there})
    return {"HA4": found.result(found["flintmq ms, 99 %"])}


# -- what a follower costs a master: HA7 ------------------------------------------------------------------------------


def flint_sync_master(path: Path, port: int, count: int, window: int, warm: int) -> float:
    """Microseconds a put of a FlintMQ master that waits for one replica, after as many puts as Java's master made."""

    body = bytes(900)
    keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
    with MessageStore(path / "master", keys, ha_listen=("127.0.0.1", port)) as store:
        process = flint_slave(path / "slave", port, 0)
        try:
            while store.put(Message("Bench", body)).status.name != "PUT_OK":
                pass

            async def work(puts: int) -> int:
                failed = 0
                for _ in range(puts):
                    failed += (await store.put_async(Message("Bench", body))).status.name != "PUT_OK"
                return failed

            async def many(puts: int, tasks: int) -> int:
                return sum(await asyncio.gather(*(work(puts // tasks) for _ in range(tasks))))

            failed = asyncio.run(many(warm, 200))
            began = time.perf_counter()
            if window == 1:
                failed += sum(store.put(Message("Bench", body)).status.name != "PUT_OK" for _ in range(count))
            else:
                failed += asyncio.run(many(count, window))
            took = time.perf_counter() - began
            assert not failed, f"{failed} puts were not acknowledged"
            return took / count * 1e6
        finally:
            process.kill()


def java_sync_master(context: Context, path: Path, port: int, count: int, window: int) -> float:
    """The same of a Java master, whose first put waits until the same follower is connected."""
    process = flint_slave(path / "slave", port, 0)
    try:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "haListenPort": port}
        words = {
            "size": 900,
            "count": count,
            "warmup": window if context.quick else WARM,
            "window": window,
            "slaves": 1,
        }
        options = [text for key, value in words.items() for text in (f"--{key}", str(value))]
        found = json.loads(Java(context, "bench", path / "master", keys, *options).end().strip().splitlines()[-1])
        return float(found["seconds"] / found["count"] * 1e6)
    finally:
        process.kill()


def ha7(context: Context) -> dict[str, Result]:
    """Puts that wait for one replica, one at a time and 200 under way."""
    results = {}
    for window, count in ((1, 5_000), (200, 60_000)):
        count = count // 20 if context.quick else count

        def ours(window: int = window, count: int = count) -> Cost:
            with context.folder("puts") as path:
                warm = 200 if context.quick else WARM
                return {"us": flint_sync_master(path, free_port(), count, window, warm)}

        def theirs(window: int = window, count: int = count) -> Cost:
            with context.folder("puts") as path:
                return {"us": java_sync_master(context, path, free_port(), count, window)}

        found = measure(context, {"flintmq": ours, "java": theirs})
        results[f"HA7.{window}"] = found.result(found["flintmq us"] / found["java us"])
    return results


FAMILIES = {"HA1": ha1, "HA4": ha4, "HA7": ha7}
