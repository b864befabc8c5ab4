"""P17, P18: what a Python user might take instead: SQLite, LMDB, RocksDB. Bodies of 100 B, keys in order.

P17: one message a call, left to the kernel. P18: durable, one or 64 a sync. Ours count until everything is dispatched.
"""

from __future__ import annotations

import importlib
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from flush_lines import BODY, CALLER, each
from harness import Context, Cost, Result, Unavailable, measure

from flintmq import Message, MessageStore

Peer = Callable[[Context, int, int, bool], Cost]  # groups, messages of each, durable


def own(context: Context, groups: int, size: int, durable: bool, **options: Any) -> Cost:
    """Groups of so many messages; if durable, each before the next."""
    options |= {"flush_disk_type": "SYNC_FLUSH" if durable else "ASYNC_FLUSH", "unique_keys": False}
    with context.folder("own") as path, MessageStore(path, **options) as store:
        store.put(Message("Bench", BODY))
        put, began = store.put, time.perf_counter()
        for _ in range(groups):
            if size == 1:
                put(Message("Bench", BODY, "TagA"))
            else:
                store.put_many([Message("Bench", BODY, "TagA") for _ in range(size)])
        store.wait_dispatched()
        return each(began, groups * size)


def sqlite(context: Context, groups: int, size: int, durable: bool) -> Cost:
    """SQLite in WAL mode, a transaction a group."""
    with context.folder("sqlite") as path:
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
        cost = each(began, groups * size)
        base.close()
        return cost


def lmdb(context: Context, groups: int, size: int, durable: bool) -> Cost:
    """LMDB, a transaction a group."""
    import lmdb

    options: dict[str, Any] = {"map_size": 4 << 30, "sync": durable, "metasync": durable, "writemap": not durable}
    with context.folder("lmdb") as path, lmdb.open(str(path), **options) as base:
        number, began = 0, time.perf_counter()
        for _ in range(groups):
            with base.begin(write=True) as transaction:
                for _ in range(size):
                    transaction.put(number.to_bytes(8, "big"), BODY, append=True)
                    number += 1
        return each(began, groups * size)


def rocksdict(context: Context, groups: int, size: int, durable: bool) -> Cost:
    """RocksDB with its log, synced at each write if durable."""
    import rocksdict

    with context.folder("rocks") as path:
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
        cost = each(began, groups * size)
        base.close()
        return cost


PEERS: dict[str, Peer] = {"sqlite3": sqlite, "lmdb": lmdb, "rocksdict": rocksdict}


def installed(*names: str) -> dict[str, Peer]:
    """The peers of these names.

    Raises:
        Unavailable: the package of one is missing.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            raise Unavailable(f"{name} is missing; pip install -e '.[bench]'") from None
    return {name: PEERS[name] for name in names}


def p17(context: Context) -> dict[str, Result]:
    peers, count = {"flintmq": own} | installed("lmdb"), 20_000 if context.quick else 300_000
    found = measure(context, {name: partial(peer, context, count, 1, False) for name, peer in peers.items()})
    return {"P17.lmdb": found.result(found["lmdb us"] / found["flintmq us"])}


def p18(context: Context) -> dict[str, Result]:
    peers, groups, results = installed(*PEERS), 300 if context.quick else 3_000, {}
    owns = {"flusher": own} | ({"caller": partial(own, **CALLER)} if CALLER else {})
    for size in (1, 64):
        cases = {name: partial(peer, context, groups, size, True) for name, peer in (owns | peers).items()}
        found = measure(context, cases, rounds=9)
        best = found.best(*(f"{name} us" for name in peers))
        results[f"P18.{size}"] = found.result(best / found[f"{list(owns)[-1]} us"])
    return results


FAMILIES = {"P17": p17, "P18": p18}
