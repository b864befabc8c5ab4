"""P17, P18: what a Python user might take instead: SQLite, LMDB, RocksDB, a plain file. Bodies of 100 B, keys in order.

P17: one message a call, left to the kernel. P18: durable, one or 64 a sync. Ours count until everything is dispatched.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from flush_lines import BODY, folder, rounds
from harness import Context, Result, Unavailable

from flintmq import Message, MessageStore

Peer = Callable[[Context, int, int, bool], float]  # groups, messages of each, durable -> microseconds a message


def own(context: Context, groups: int, size: int, durable: bool) -> float:
    """Groups of so many messages; if durable, each before the next."""
    disk = "SYNC_FLUSH" if durable else "ASYNC_FLUSH"
    with folder(context, "own") as path, MessageStore(path, flush_disk_type=disk, unique_keys=False) as store:
        store.put(Message("Bench", BODY))
        put, began = store.put, time.perf_counter()
        for _ in range(groups):
            if size == 1:
                put(Message("Bench", BODY, "TagA"))
            else:
                store.put_many([Message("Bench", BODY, "TagA") for _ in range(size)])
        store.wait_dispatched()
        return (time.perf_counter() - began) / (groups * size) * 1e6


def plain_file(context: Context, groups: int, size: int, durable: bool) -> float:
    """Length and body appended to a file: no queue, no index, nothing checked; a bound and not a peer."""
    with folder(context, "plain") as path, open(path / "file", "ab", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(groups):
            file.write((len(BODY).to_bytes(4, "big") + BODY) * size)
            if durable:
                os.fdatasync(file.fileno())
        return (time.perf_counter() - began) / (groups * size) * 1e6


def sqlite(context: Context, groups: int, size: int, durable: bool) -> float:
    """SQLite in WAL mode, a transaction a group."""
    with folder(context, "sqlite") as path:
        base = sqlite3.connect(path / "base", isolation_level=None)
        base.execute("pragma journal_mode=wal")
        base.execute(f"pragma synchronous={'full' if durable else 'off'}")
        base.execute("create table log (id integer primary key, body blob)")
        began = time.perf_counter()
        for _ in range(groups):
            if size == 1:
                base.execute("insert into log (body) values (?)", (BODY,))
                continue
            base.execute("begin")
            base.executemany("insert into log (body) values (?)", [(BODY,)] * size)
            base.execute("commit")
        took = time.perf_counter() - began
        base.close()
        return took / (groups * size) * 1e6


def lmdb(context: Context, groups: int, size: int, durable: bool) -> float:
    """LMDB, a transaction a group."""
    import lmdb

    options: dict[str, Any] = {"map_size": 4 << 30, "sync": durable, "metasync": durable, "writemap": not durable}
    with folder(context, "lmdb") as path, lmdb.open(str(path), **options) as base:
        number, began = 0, time.perf_counter()
        for _ in range(groups):
            with base.begin(write=True) as transaction:
                for _ in range(size):
                    transaction.put(number.to_bytes(8, "big"), BODY, append=True)
                    number += 1
        return (time.perf_counter() - began) / (groups * size) * 1e6


def rocksdict(context: Context, groups: int, size: int, durable: bool) -> float:
    """RocksDB with its log, synced at each write if durable."""
    import rocksdict

    with folder(context, "rocks") as path:
        base = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        options = rocksdict.WriteOptions()
        options.sync = durable
        base.set_write_options(options)
        number, began = 0, time.perf_counter()
        for _ in range(groups):
            if size == 1:
                base[number.to_bytes(8, "big")] = BODY
                number += 1
                continue
            batch = rocksdict.WriteBatch(raw_mode=True)
            for _ in range(size):
                batch.put(number.to_bytes(8, "big"), BODY)
                number += 1
            base.write(batch, options)
        took = time.perf_counter() - began
        base.close()
        return took / (groups * size) * 1e6


PEERS: dict[str, Peer] = {"sqlite3": sqlite, "lmdb": lmdb, "rocksdict": rocksdict}


def installed() -> dict[str, Peer]:
    """The peers whose packages are there.

    Raises:
        Unavailable: one is missing.
    """
    missing = []
    for name in PEERS:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise Unavailable(f"{' and '.join(missing)} missing; pip install -e '.[bench]'")
    return PEERS


def compared(context: Context, groups: int, size: int, durable: bool) -> dict[str, float]:
    """Microseconds a message of each."""
    everybody: dict[str, Peer] = {"flintmq": own, "plain file": plain_file} | installed()
    return rounds(
        context,
        {name: lambda peer=peer: peer(context, groups, size, durable) for name, peer in everybody.items()},  # type: ignore[misc]
    )


def p17(context: Context) -> list[Result]:
    found = compared(context, 20_000 if context.quick else 300_000, 1, False)
    detail = {f"{name} us": round(value, 3) for name, value in found.items()}
    return [
        Result(f"P17.{name}", f"one message a call, 100 B, not synced: time of {name} / ours, dispatch included",
               found[name] / found["flintmq"], 2.5, False, 5.0, "first touch of pages; calls of Python", detail)
        for name in PEERS
    ]  # fmt: skip


def p18(context: Context) -> list[Result]:
    results, groups = [], 300 if context.quick else 3_000
    for size, bar, moonshot in ((1, 1.0, 1.1), (64, 0.95, 1.2)):
        found = compared(context, groups, size, True)
        best = min(PEERS, key=lambda name: found[name])
        detail = {f"{name} us": round(value, 1) for name, value in found.items()}
        what = f"durable, {size} a sync, 100 B: time of {best}, the best of {', '.join(PEERS)} / ours"
        results.append(
            Result(f"P18.{size}", what, found[best] / found["flintmq"], bar, False, moonshot, "the disk", detail)
        )
    return results


LINES = {"P17": p17, "P18": p18}
