"""C1 to C6: several stores as one, planning of a hundred, exports without Spark, Iceberg, diff, object storage."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from data import OVERHEAD, SIZES, log_bytes, store, warm
from harness import Context, Result, Sample, figures, measure
from spark_session import load, noop, session

from flintmq import Message, MessageStore, scan_arrow
from flintmq.testing import Written, write_store
from tests.support.object_servers import lacks, serving

BODY = "1KB"
STORES, QUEUES = 100, 100  # of the planning lines
SMALL = {"mappedFileSizeConsumeQueue": 20_000, "mappedFileSizeCommitLog": 1 << 20, "maxHashSlotNum": 100}


def whole(context: Context) -> Written:
    """The store that is compared with three of a third of its size."""
    return store(context, f"read-{BODY}", SIZES[BODY])


def three(context: Context) -> str:
    """Three stores with as much log together; the pattern that names them."""
    folder = context.scratch / "three"
    for broker in "abc":
        path = folder / f"broker-{broker}" / "store"
        if str(path) not in context.stores:
            count = (context.mib << 20) // (SIZES[BODY] + OVERHEAD) // 3
            context.stores[str(path)] = write_store(path, count, body_bytes=SIZES[BODY], bodies="random")
        warm(context.stores[str(path)])
    return f"{folder}/{{broker}}/store"


def drain(batches: Any) -> None:
    """Read a stream of batches to its end."""
    for _ in batches:
        pass


def c1(context: Context) -> list[Result]:
    """The same bytes as one store and as three; all columns."""
    one, many = str(whole(context).path), three(context)
    spark = session(context)
    cases: dict[str, dict[str, Callable[[], Any]]] = {
        "arrow": {
            "one": lambda: drain(scan_arrow(one, access="map")),
            "three": lambda: drain(scan_arrow(many, access="map")),
        },
        "spark": {
            "one": lambda: noop(load(spark, one, access="map")),
            "three": lambda: noop(load(spark, many, access="map")),
        },
    }
    found = {name: measure(context, both) for name, both in cases.items()}
    return [
        Result(f"C1.{name}", f"{name}: three stores as one, speed / one store of their size",
               samples["one"].wall / samples["three"].wall, 0.95, bound="reading", detail=figures(samples))
        for name, samples in found.items()
    ]  # fmt: skip


def hundred(context: Context) -> str:
    """A hundred stores of a hundred queues with four messages each; the pattern that names them."""
    folder, stores = context.scratch / "hundred", 10 if context.quick else STORES
    for broker in range(stores):
        path = folder / f"b{broker:03d}" / "store"
        if path.exists():
            continue
        with MessageStore(path, SMALL | {"maxIndexNum": 400}) as opened:
            opened.put_many([Message(f"T{n % QUEUES // 4}", b"%d" % n, queue_id=n % 4) for n in range(4 * QUEUES)])
    return f"{folder}/{{broker}}/store"


def c2(context: Context) -> list[Result]:
    """Processor seconds of planning: a read, the first micro-batch of a stream, and one with nothing new."""
    from flintmq.lake.read.members import plan_members
    from flintmq.lake.read.options import ReadOptions
    from flintmq.lake.stream.members import StoresStream
    from flintmq.lake.stream.options import StreamOptions
    from flintmq.store.commitlog.report import Report

    pattern = hundred(context)
    options = ReadOptions(path=pattern, stores=pattern)
    taken: dict[str, list[float]] = {"read": [], "first": [], "idle": []}

    def timed(name: str, call: Callable[..., Any]) -> Any:
        began = time.process_time()
        answer = call()
        taken[name].append(time.process_time() - began)
        return answer

    for _ in range(context.rounds):
        timed("read", lambda: plan_members(options, Report()))
        stream = StoresStream(StreamOptions(options))
        begin = stream.initial()
        end = timed("first", lambda begin=begin, stream=stream: stream.next_end(begin))
        stream.next_end(end)
        timed("idle", lambda end=end, stream=stream: stream.next_end(end))
    bars: dict[str, float | None] = {"read": 3.0, "first": None, "idle": 0.5}
    words = {"read": "plan of a read", "first": "end of the first micro-batch", "idle": "a micro-batch without news"}
    return [
        Result(f"C2.{name}", f"{words[name]} of {STORES} stores of {QUEUES} queues, processor seconds",
               sorted(times)[len(times) // 2], bars[name], at_most=True, bound="system calls for each queue")
        for name, times in taken.items()
    ]  # fmt: skip


def exports(context: Context, cases: Mapping[str, Callable[[], Any]], out: Path) -> dict[str, Sample]:
    """Measure exports into a directory that is removed before each."""
    found = measure(context, cases, before=lambda: shutil.rmtree(out, ignore_errors=True))
    shutil.rmtree(out, ignore_errors=True)
    return found


def c3(context: Context) -> list[Result]:
    """An export without Spark beside Spark's: with a session made before, and as commands with their starts."""
    from user_lines import flintmq

    from flintmq.lake.export.export_once import export as export_here
    from flintmq.spark.jobs.export.job import export as export_on_spark

    spark, path, out = session(context), str(whole(context).path), context.scratch / "out"
    samples = exports(
        context,
        {
            "flintmq export": lambda: export_here(path, str(out)),
            "spark export": lambda: export_on_spark(spark, path, str(out)),
        },
        out,
    )
    ratio = samples["spark export"].wall / samples["flintmq export"].wall
    what = f"export to Parquet, {BODY} bodies: speed / spark export on local[2]"
    commands = exports(
        context,
        {
            "flintmq export": lambda: flintmq("export", path, "--out", str(out)),
            "flintmq spark export": lambda: flintmq("spark", "export", path, "--out", str(out), "--master", "local[2]"),
        },
        out,
    )
    whole_ratio = commands["flintmq spark export"].wall / commands["flintmq export"].wall
    bound = "Parquet's encoding on two cores"
    return [
        Result("C3", what, ratio, 1.5, bound=bound, detail=figures(samples)),
        Result("C3.command", f"{what}, commands with their starts", whole_ratio, 1.5, bound=f"{bound}; start of Spark",
               detail=figures(commands)),
    ]  # fmt: skip


def c4(context: Context) -> list[Result]:
    """The same files, and the commit of each format."""
    from flintmq.lake.export.export_once import export

    path, out = str(whole(context).path), context.scratch / "out"
    cases: dict[str, Callable[..., Any]] = {
        to: lambda to=to: export(path, str(out), to=to) for to in ("delta", "iceberg")
    }
    samples = exports(context, cases, out)
    ratio = samples["delta"].wall / samples["iceberg"].wall
    what = f"export to Iceberg, {BODY} bodies: speed / to Delta"
    return [Result("C4", what, ratio, 0.9, bound="Parquet's encoding", detail=figures(samples))]


def c5(context: Context) -> list[Result]:
    """A comparison of two equal stores beside a verify of both."""
    from user_lines import flintmq

    one = whole(context)
    copy = context.scratch / "copy"
    if not copy.exists():
        shutil.copytree(one.path, copy)
    both = (str(one.path), str(copy))
    samples = measure(
        context, {"diff": lambda: flintmq("diff", *both), "verify": lambda: [flintmq("verify", path) for path in both]}
    )
    what = f"diff of two equal stores of {log_bytes(one) >> 20} MiB: time / a verify of both"
    return [
        Result("C5", what, samples["diff"].wall / samples["verify"].wall, 1.3, at_most=True,
               bound="reading and summing up", detail=figures(samples) | {"cores": os.cpu_count()})
    ]  # fmt: skip


def c6(context: Context) -> list[Result]:
    """An export to an S3 server on this machine, which takes its part of the processors, beside one to the disk."""
    from flintmq.config.keys import StoreConfig
    from flintmq.lake.export.export_once import export

    if reason := lacks("versitygw"):
        print(f"C6 is left out: {reason}")
        return []
    path, out, number = str(whole(context).path), context.scratch / "out", itertools.count()
    with serving("versitygw", context.scratch) as server, patch.dict(os.environ, server.environment):
        bucket, config = server.bucket(), StoreConfig.from_keys(server.keys)

        def remote(to: str) -> None:
            table = f"lake{next(number)}"
            export(path, f"{server.url}/{table}", config, to=to)
            gone.append(table)

        gone: list[str] = []

        def before() -> None:
            shutil.rmtree(out, ignore_errors=True)
            for table in gone:
                bucket.delete([found.key for found in bucket.listed(table, True)])
            gone.clear()

        cases = {
            f"{to} {where}": call
            for to in ("parquet", "delta")
            for where, call in (
                ("disk", lambda to=to: export(path, str(out), to=to)),
                ("server", lambda to=to: remote(to)),
            )
        }
        samples = measure(context, cases, before=before)
        before()
    return [
        Result(f"C6.{to}", f"export to {to} on an S3 server, {BODY} bodies: speed / to the disk",
               samples[f"{to} disk"].wall / samples[f"{to} server"].wall, 0.7,
               bound="the server's own work: it gets the bytes, writes them, and copies them to their names",
               detail=figures(samples))
        for to in ("parquet", "delta")
    ]  # fmt: skip


LINES = {"C1": c1, "C2": c2, "C3": c3, "C4": c4, "C5": c5, "C6": c6}
