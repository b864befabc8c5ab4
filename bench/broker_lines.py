"""B1 to B7: `flintmq broker` beside RocketMQ's broker 5.5.0, under stock Java clients.

Both brokers take the same messages (a tag, a key and the client's unique id each) from one Java process, in turn. Their
processor time is that of all their threads, from before the clients connect until half a second after they are gone. A
message that is refused, is not there afterwards, or does not come ends the line without a figure. B4: a whole process,
with an empty store. B5: once, as memory hardly differs. B6: the fixture of pytest, in a process that has imported it.
B7: 4,000 sends at once by gRPC, beside RocketMQ's proxy.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc_peer
from broker_peer import Loaded, both_brokers, flintmq_broker, stock_client
from harness import Context, Cost, Found, Result, measure

from flintmq.broker.testing import BrokerControl
from tests.interop.served import served

Results = dict[str, Result]
SENDS = {"async.100B": (60_000, 100, 256), "async.1KB": (40_000, 1024, 256), "sync": (10_000, 100, 0)}
"""How many messages, bytes of a body, and how many are under way."""
DELIVERED = 200_000
PACED, PAUSE_MS = 500, 10
BURST, WARM_BURSTS = 4000, 10


def b1(context: Context) -> Results:
    """Sends."""
    results = {}
    with both_brokers(context) as (ours, theirs):
        for name, (count, size, window) in SENDS.items():
            count = count // 20 if context.quick else count
            words = "Bench", count, size, window
            found = measure(
                context, {"flintmq": partial(ours.send, *words), "java": partial(theirs.send, *words)}, warm=True
            )
            results[f"B1.{name}"] = found.result(found["flintmq us"] / found["java us"])
    return results


def b2(context: Context) -> Results:
    """Deliveries, also of a broker that reads the same store only."""
    count = DELIVERED // 20 if context.quick else DELIVERED
    with both_brokers(context) as (ours, theirs), ExitStack() as running:
        for broker in (ours, theirs):
            broker.fill("Bench", count)
        read_only = running.enter_context(flintmq_broker(ours.store.parent / "read-only", ours.client, ours.store))
        cases = {"flintmq": ours, "read-only": read_only, "java": theirs}
        found = measure(
            context, {name: partial(broker.deliver, "Bench", count) for name, broker in cases.items()}, warm=True
        )
    return {
        "B2.cpu": found.result(found["flintmq us"] / found["java us"]),
        "B2.rate": found.result(found["flintmq a second"] / found["java a second"]),
        "B2.readonly": found.result(found["read-only a second"] / found["java a second"]),
    }


def b3(context: Context) -> Results:
    """Latency."""
    count = PACED // 5 if context.quick else PACED
    with both_brokers(context) as (ours, theirs):
        cases = {
            "flintmq": partial(ours.latency, count, PAUSE_MS),
            "java": partial(theirs.latency, count, PAUSE_MS),
        }
        found = measure(context, cases, warm=True)
    return {"B3": found.result(found["flintmq ms, 99 %"] / found["java ms, 99 %"])}


def b4(context: Context) -> Results:
    """Starts."""

    def ready() -> Cost:
        with context.folder("ready") as folder:
            began = time.perf_counter()
            with served(folder / "store", folder, writes=True):
                return {"s": time.perf_counter() - began}

    found = measure(context, {"flintmq": ready}, warm=True, rounds=15)
    return {"B4": found.result(found["flintmq s"])}


def b5(context: Context) -> Results:
    """Memory."""
    count = 50_000 if context.quick else 1_000_000
    with context.folder("memory") as folder, stock_client(folder) as client:
        with flintmq_broker(folder / "flintmq", client) as broker:
            cost = {"MiB at the start": resident_mib(broker)}
            broker.fill("Bench", count)
            cost["MiB"] = resident_mib(broker)
    found = Found({"flintmq": [cost]})
    return {"B5": found.result(found["flintmq MiB"], messages=count)}


def resident_mib(broker: Loaded) -> float:
    """Memory that is of no file."""
    lines = Path(f"/proc/{broker.child.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def b6(context: Context) -> Results:
    """The fixture."""

    def fixture() -> Cost:
        with context.folder("fixture") as folder:
            began = time.perf_counter()
            with BrokerControl(folder / "store"):
                pass
            return {"s": time.perf_counter() - began}

    found = measure(context, {"flintmq": fixture}, warm=True, rounds=15)
    return {"B6": found.result(found["flintmq s"])}


def b7(context: Context) -> Results:
    """Sends by gRPC."""
    count = BURST // 10 if context.quick else BURST
    with context.folder("grpc") as folder, ExitStack() as running:
        ours = running.enter_context(grpc_peer.flintmq_server(folder / "flintmq"))
        theirs = running.enter_context(grpc_peer.java_proxy(context, folder / "java"))
        servers = {"flintmq": ours, "java": theirs}
        for _ in range(1 if context.quick else WARM_BURSTS):
            theirs.burst(count)
        found = measure(context, {name: partial(one.burst, count) for name, one in servers.items()}, warm=True)
    return {"B7": found.result(found["flintmq us"] / found["java us"])}


FAMILIES = {"B1": b1, "B2": b2, "B3": b3, "B4": b4, "B5": b5, "B6": b6, "B7": b7}
