"""HA1 to HA8: FlintMQ's follower and listener beside Java's slave and master, on the same lines.

The log: bodies of 900 B with a key, files of 1 GiB, `--mib` long. A Java slave asks an unknown master for its last file
alone (first report 0), so both followers come through a relay that turns this report into 1: the whole log. Seconds
begin with the first report and end when the last record is in queues and index.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from harness import Context, Result
from java import home
from pace import touch_memory

from flintmq import Message, MessageStore

PEER = Path(__file__).with_name("follow_peer.py")
TICK = os.sysconf("SC_CLK_TCK")
LINE_S = 600
WARM = 400_000
"""Puts of a Java master before its puts are timed, so that Java has compiled its code. Where a master of FlintMQ is
timed in the same way (HA7), it makes as many: its first puts, into new files, take a tenth longer, too."""
WARM_BESIDE = 1_500_000
"""The same where it shares the processors with a follower: after 300,000 puts Java's compiler still works there."""

FILL = 200_000
"""Puts of 100 B that fill the sockets of followers which do not read: 40 MB of log, where a socket takes 4."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# -- processes ---------------------------------------------------------------------------------------------------------


class Process:
    """A child that answers in lines; its processor seconds and largest resident size, in all and without files."""

    def __init__(self, words: list[str]) -> None:
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.anon = 0.0
        self._done = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.anon = max(self.anon, self._status("RssAnon"))

    def _status(self, name: str) -> float:
        with suppress(OSError):
            for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
                if line.startswith(name):
                    return int(line.split()[1]) / 1024
        return 0.0

    @property
    def peak(self) -> float:
        """MiB, with mapped files."""
        return self._status("VmHWM")

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
        self._done.set()
        out, _ = self.child.communicate(timeout=LINE_S)
        return out.decode()

    def kill(self) -> None:
        self._done.set()
        self.child.kill()
        self.child.wait()


class Java(Process):
    """The oracle's `live` or `bench` command."""

    def __init__(self, context: Context, command: str, store: Path, keys: dict[str, Any], *more: str, **top: Any):
        build, conf = home(context), store.with_name(f"{store.name}-{command}.json")
        conf.write_text(json.dumps({"store": keys, "topics": {"Bench": {"queues": 4}, "Late": {"queues": 4}}, **top}))
        path = f"{build}/target/oracle.jar{os.pathsep}{build}/lib/*"
        super().__init__(
            ["java", "-Doracle.log=OFF", "-Xmx1g", "-cp", path, "flintmq.oracle.Oracle", command, "--store", str(store),
             "--config", str(conf), *more]
        )  # fmt: skip

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
    java = Java(context, "live", store, {"brokerRole": "SLAVE", "haListenPort": free_port()},
                ha_master=f"127.0.0.1:{port}", broker={"brokerId": 1})  # fmt: skip
    java.line()
    return java


@contextmanager
def folder(context: Context, name: str) -> Iterator[Path]:
    """A directory for one run."""
    path = context.scratch / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# -- catching up: HA1, HA2, HA3, HA6 -----------------------------------------------------------------------------------


def source(context: Context) -> Path:
    """The log that is followed, written by Java."""
    if "replicated" not in context.stores:
        path = context.scratch / "replicated"
        count = max(context.mib * (1 << 20) // 1040, 1000)
        java = Java(context, "bench", path, {}, "--size", "900", "--count", str(count), "--warmup", "1", "--keys")
        java.end()
        context.stores["replicated"] = path
    found: Path = context.stores["replicated"]
    return found


Cost = dict[str, float]


def by_flint(context: Context, port: int, end: int) -> Cost:
    with folder(context, "slave") as path:
        relay = Relay(port)
        process = flint_slave(path / "store", relay.port, end)
        try:
            used = json.loads(process.line())
            took = time.perf_counter() - relay.began
            return {"seconds": took, "cpu": used["cpu"], "peak": process.peak, "anon": process.anon}
        finally:
            process.kill()
            relay.close()


def by_java(context: Context, port: int, end: int) -> Cost:
    with folder(context, "slave") as path:
        relay = Relay(port)
        java = java_slave(context, path / "store", relay.port)
        before = java.cpu
        try:
            reached = java("await", offset=end, ms=LINE_S * 1000)["max_physical_offset"]
            assert reached == end, f"the Java slave has {reached} of {end}"
            java("dispatch")
            took = time.perf_counter() - relay.began
            return {"seconds": took, "cpu": java.cpu - before, "peak": java.peak, "anon": java.anon}
        finally:
            java.kill()
            relay.close()


def medians(context: Context, cases: dict[str, Callable[[], Cost]], rounds: int = 0) -> dict[str, Cost]:
    """Run the cases in turn, as often as asked for and `rounds` times at least; return the middle of each figure."""
    found: dict[str, list[Cost]] = {name: [] for name in cases}
    names = list(cases)
    for number in range(max(context.rounds, rounds)):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(cases[name]())
    return {
        name: {key: statistics.median(cost[key] for cost in costs) for key in costs[0]} for name, costs in found.items()
    }


def ha1(context: Context) -> list[Result]:
    """HA1, HA2, HA3: an empty follower catches up with a Java master."""
    store, port = source(context), free_port()
    master = Java(context, "live", store, {"haListenPort": port})
    try:
        master.line()
        end = int(master("ha")["max_physical_offset"])
        found = medians(
            context,
            {"flintmq": lambda: by_flint(context, port, end), "java": lambda: by_java(context, port, end)},
        )
    finally:
        master.kill()
    ours, theirs, gib = found["flintmq"], found["java"], end / (1 << 30)
    detail = {f"{who} {key}": round(value, 3) for who, cost in found.items() for key, value in cost.items()} | {
        "GiB": round(gib, 3)
    }
    return [
        Result("HA1", "catch-up of an empty follower, queues and index included: Java slave's time / ours",
               theirs["seconds"] / ours["seconds"], 1, moonshot=2, bound="frames of 32 KiB, two processors",
               detail=detail),
        Result("HA2", "the same: our processor seconds / Java slave's", ours["cpu"] / theirs["cpu"], 0.5, at_most=True,
               moonshot=0.25, bound="receiving, checksums, index insertion", detail=detail),
        Result("HA3", "the same: our peak memory without mapped files / Java slave's", ours["anon"] / theirs["anon"],
               0.125, at_most=True, moonshot=0.05, bound="Python and its buffers", detail=detail),
        Result("HA3.mapped", "the same, with pages of mapped files", ours["peak"] / theirs["peak"], None,
               bound="pages of the log, which the page cache has anyway", detail=detail),
    ]  # fmt: skip


def ha6(context: Context) -> list[Result]:
    """HA6: a master serves a whole log to a Java slave."""
    store = source(context)

    def served_by_java() -> Cost:
        port = free_port()
        master = Java(context, "live", store, {"haListenPort": port})
        try:
            master.line()
            end, before = int(master("ha")["max_physical_offset"]), master.cpu
            by_java(context, port, end)
            return {"cpu": master.cpu - before, "end": end}
        finally:
            master.kill()

    def served_by_flint() -> Cost:
        port = free_port()
        words = [sys.executable, "-m", "flintmq", "serve-ha", str(store), "--listen", f"127.0.0.1:{port}", "--json"]
        master = Process(words)
        try:
            master.line()
            before, end = master.cpu, ends["java"]
            by_java(context, port, int(end))
            return {"cpu": master.cpu - before, "end": end}
        finally:
            master.kill()

    ends: dict[str, float] = {}
    ends["java"] = served_by_java()["end"]  # warms the page cache, too
    found = medians(context, {"flintmq": served_by_flint, "java": served_by_java})
    gib = ends["java"] / (1 << 30)
    return [
        Result("HA6", "a master serves a log to a Java slave: our processor seconds / Java master's",
               found["flintmq"]["cpu"] / found["java"]["cpu"], 1, at_most=True, moonshot=0.5,
               bound="the kernel's copy into the socket",
               detail={f"{who} s/GiB": round(cost["cpu"] / gib, 3) for who, cost in found.items()})
    ]  # fmt: skip


# -- latency: HA4 --------------------------------------------------------------------------------------------------


def paced(context: Context, put: Callable[[bytes], Any], process: Process) -> list[float]:
    """Put 1,000 messages a second for some seconds; return how old they were when the follower read them."""
    seconds = 2 if context.quick else 10
    time.sleep(1)
    began = time.perf_counter()
    for number in range(seconds * 1000):
        while time.perf_counter() < began + number / 1000:
            time.sleep(0.0002)
        put(b"%d" % time.monotonic_ns())
    time.sleep(0.5)
    found: list[float] = json.loads(process.end())
    assert len(found) == seconds * 1000, f"{len(found)} of {seconds * 1000} messages were read"
    return found


def ha4(context: Context) -> list[Result]:
    """HA4: from a put on the master until a get on the follower returns the message."""
    late: dict[str, list[float]] = {"flintmq": [], "java": []}
    for _ in range(context.rounds):
        with folder(context, "late") as path, ExitStack() as open_:
            port = free_port()
            store = open_.enter_context(MessageStore(path / "master", ha_listen=("127.0.0.1", port)))
            process = flint_slave(path / "slave", port, 0, "latency")
            open_.callback(process.kill)

            def put_here(body: bytes, store: MessageStore = store) -> object:
                return store.put(Message("Late", body))

            late["flintmq"] += paced(context, put_here, process)
        with folder(context, "late") as path, ExitStack() as open_:
            port = free_port()
            master = Java(context, "live", path / "master", {"haListenPort": port})
            open_.callback(master.kill)
            master.line()
            process = flint_slave(path / "slave", port, 0, "latency")
            open_.callback(process.kill)

            def put_there(body: bytes, master: Java = master) -> object:
                return master("put", topic="Late", queue=0, body=body.decode())

            late["java"] += paced(context, put_there, process)
    tail = {who: sorted(ages)[int(len(ages) * 0.99)] / 1000 for who, ages in late.items()}
    middle = {f"{who} median ms": round(statistics.median(ages) / 1000, 2) for who, ages in late.items()}
    return [
        Result("HA4", "put on a FlintMQ master until read on the follower, 1,000 a second: ms, 99 %", tail["flintmq"],
               50, at_most=True, moonshot=5, bound="wake-ups of five threads", detail=middle),
        Result("HA4.java", "the same of a Java master, which looks for new bytes each 100 ms: ms, 99 %", tail["java"],
               None, bound="the master's wait", detail=middle),
    ]  # fmt: skip


# -- what a follower costs a master: HA5, HA7, HA8 --------------------------------------------------------------------


def bench_java(
    context: Context, path: Path, port: int, keys: dict[str, Any], count: int, window: int, warm: int
) -> float:
    """Microseconds a put of a Java master, whose first put waits until its one follower is connected."""
    java = Java(context, "bench", path, {"haListenPort": port, **keys}, "--size", "900", "--count", str(count),
                "--warmup", str(warm), "--window", str(window), "--slaves", "1")  # fmt: skip
    found = json.loads(java.end().strip().splitlines()[-1])
    return float(found["seconds"] / found["count"] * 1e6)


def ha5(context: Context) -> list[Result]:
    """HA5: puts of a Java master with one follower."""
    count, warm = (20_000, 10_000) if context.quick else (600_000, WARM_BESIDE)

    def with_flint() -> Cost:
        with folder(context, "puts") as path:
            port = free_port()
            process = flint_slave(path / "slave", port, 0)
            try:
                return {"us": bench_java(context, path / "master", port, {}, count, 1, warm)}
            finally:
                process.kill()

    def with_java() -> Cost:
        with folder(context, "puts") as path:
            port = free_port()
            slave = java_slave(context, path / "slave", port)
            try:
                return {"us": bench_java(context, path / "master", port, {}, count, 1, warm)}
            finally:
                slave.kill()

    found = medians(context, {"flintmq": with_flint, "java": with_java})
    return [
        Result("HA5", "puts of a Java master: time with a FlintMQ follower / with a Java slave",
               found["flintmq"]["us"] / found["java"]["us"], 1, at_most=True, bound="two processors for both",
               detail={f"{who} us": round(cost["us"], 2) for who, cost in found.items()})
    ]  # fmt: skip


def flint_sync_master(path: Path, port: int, count: int, window: int, warm: int) -> float:
    """Microseconds a put of a FlintMQ master that waits for one replica, after as many puts as Java's master made."""
    import asyncio

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
    """The same of a Java master, with the same follower."""
    process = flint_slave(path / "slave", port, 0)
    try:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
        return bench_java(context, path / "master", port, keys, count, window, window if context.quick else WARM)
    finally:
        process.kill()


def ha7(context: Context) -> list[Result]:
    """HA7: puts that wait for one replica, one at a time and 200 under way."""
    results = []
    for window, count in ((1, 5_000), (200, 60_000)):
        count = count // 20 if context.quick else count

        def ours(window: int = window, count: int = count) -> Cost:
            with folder(context, "puts") as path:
                warm = 200 if context.quick else WARM
                return {"us": flint_sync_master(path, free_port(), count, window, warm)}

        def theirs(window: int = window, count: int = count) -> Cost:
            with folder(context, "puts") as path:
                return {"us": java_sync_master(context, path, free_port(), count, window)}

        found = medians(context, {"flintmq": ours, "java": theirs})
        results.append(
            Result(f"HA7.{window}", f"SYNC_MASTER with one FlintMQ follower, {window} under way: our time / Java's",
                   found["flintmq"]["us"] / found["java"]["us"], 1, at_most=True, moonshot=0.5,
                   bound="wake-ups of the listener, the follower and the put",
                   detail={f"{who} us": round(cost["us"], 2) for who, cost in found.items()})
        )  # fmt: skip
    return results


def ha8(context: Context) -> list[Result]:
    """HA8: puts beside 32 followers that are connected and do not read.

    What fits into their sockets is sent first, and not timed with the puts: that is work for a follower that reads.
    """
    # Many rounds, because runs of one case differ by a half.
    count, rounds = (50_000, 0) if context.quick else (2_000_000, 41)

    def puts(followers: int) -> Cost:
        with folder(context, "puts") as path, ExitStack() as open_:
            store = open_.enter_context(MessageStore(path / "store", ha_listen=("127.0.0.1", 0), unique_keys=False))
            assert store.ha is not None
            port, body = store.ha.address[1], bytes(100)
            store.put(Message("Bench", body))
            for _ in range(followers):
                line = open_.enter_context(socket.create_connection(("127.0.0.1", port)))
                line.sendall(struct.pack(">q", store.stats().log_bytes))  # the log's end; silent from then on
            filling = time.process_time()
            for _ in range(FILL):
                store.put(Message("Bench", body))
            store.wait_dispatched()
            sent = None
            while sent != (sent := [one.sent for one in store.ha.followers()]):
                time.sleep(0.2)
            assert len(sent) == followers and all(one < store.stats().log_bytes for one in sent), "a socket has room"
            filling = time.process_time() - filling
            touch_memory(count * 512)
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            for _ in range(count):
                store.put(Message("Bench", body))
            store.wait_dispatched()
            took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return {"us": took / count * 1e6, "cpu us": used / count * 1e6, "filling cpu s": filling}

    found = medians(context, {"idle": lambda: puts(32), "alone": lambda: puts(0)}, rounds)
    detail = {f"{who} {key}": round(value, 3) for who, cost in found.items() for key, value in cost.items()}
    return [
        Result("HA8", "puts beside 32 followers that do not read: time / without any",
               found["idle"]["us"] / found["alone"]["us"], 1.02, at_most=True, moonshot=1,
               bound="nothing is sent: the listener sleeps", detail=detail),
    ]  # fmt: skip


LINES = {"HA1": ha1, "HA4": ha4, "HA5": ha5, "HA6": ha6, "HA7": ha7, "HA8": ha8}
