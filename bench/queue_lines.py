"""P13: reading by queue offset, raw and decoded, against Java's getMessage and MessageDecoder."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import java
from data import SIZES, sized
from harness import Context, Result, measure

from flintmq import open_store
from flintmq.store.view import StoreView

# Java's own limits of a pull are lifted: larger batches are faster, and the faster one counts.
BATCHES = (32, 2048, 16384)


def java_nanos(context: Context, store: Path) -> dict[bool, float]:
    """The peer's nanoseconds a message, raw (False) and decoded (True): the best batch size of each, the median of its
    own rounds after one to warm up."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for batch in BATCHES:
        config = {
            "maxTransferCountOnMessageInMemory": batch,
            "maxTransferCountOnMessageInDisk": batch,
            "maxTransferBytesOnMessageInMemory": 1 << 26,
            "maxTransferBytesOnMessageInDisk": 1 << 26,
        }
        options = ("--max", str(batch), "--rounds", str(context.rounds))
        for line in java.oracle(context, "readbench", store, config, *options):
            found[line["decode"]].append(line["ns_per_message"])
    return {decode: min(times) for decode, times in found.items()}


def read_raw(view: StoreView, batch: int = 16384) -> int:
    """Every message of every queue in batches that copy nothing; bytes seen."""
    seen = 0
    for queue in view.queues():
        offset = queue.min_offset
        while offset < queue.max_offset:
            found = view.read(queue.topic, queue.queue_id, offset, batch)
            seen += found.bytes
            offset = found.next_offset
    return seen


def read_decoded(view: StoreView, batch: int = 16384) -> int:
    """Every message of every queue as an object, its body taken; bytes of bodies."""
    seen = 0
    for queue in view.queues():
        offset = queue.min_offset
        while offset < queue.max_offset:
            found = view.read(queue.topic, queue.queue_id, offset, batch)
            for message in found:
                seen += len(message.body)
            offset = found.next_offset
    return seen


def p13(context: Context) -> list[Result]:
    """Java runs between rounds of ours, on a copy: it writes to what it opens."""
    java.home(context)
    results = []
    for size in SIZES:
        written = sized(context, size)
        copy = java.log_only(context, written.path, f"java-{size}")
        with open_store(written.path, access="map") as view:
            assert read_decoded(view) == written.records * SIZES[size]
            peer: dict[bool, list[float]] = {False: [], True: []}
            own: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(2):
                samples = measure(context, {"raw": lambda: read_raw(view), "decoded": lambda: read_decoded(view)})
                nanos = java_nanos(context, copy)
                for decode, name in ((False, "raw"), (True, "decoded")):
                    own[decode].append(samples[name].wall / written.records * 1e9)
                    peer[decode].append(nanos[decode])
        for decode, name, bar, moonshot in ((False, "batch", 10.0, 30.0), (True, "decoded", 2.0, 5.0)):
            java_ns, own_ns = statistics.median(peer[decode]), statistics.median(own[decode])
            detail: dict[str, Any] = {"java ns": round(java_ns, 1), "flintmq ns": round(own_ns, 1)}
            bound = "reading 20 bytes of queue" if name == "batch" else "cache misses in the log, making objects"
            what = f"read by queue offset, {name}, {size} bodies: Java's time / ours"
            results.append(
                Result(f"P13.{name}.{size}", what, java_ns / own_ns, bar, moonshot=moonshot, bound=bound, detail=detail)
            )
    return results


LINES = {"P13": p13}
