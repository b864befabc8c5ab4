"""U1 to U5: what users wait for, each a whole process from its start, beside a tool or the bare work on the same bytes.

No bars: the figures are the result. Ratios above 1: we take longer. Their seconds are in the detail.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from data import OVERHEAD, files, log_bytes, warm
from harness import Context, Result, Sample, measure

from flintmq import Message, MessageStore, open_store
from flintmq.testing import Written, write_store

MIB = 256  # of log: small, and still seconds for whoever waits
BODY = 1024
FILE = 16 << 20  # of the log: other tools read the whole of a file
MAIN = "import sys; from flintmq.__main__ import main; sys.exit(main())"  # what the script `flintmq` does
EMPTY_JOB = """
from flintmq.spark import session
spark = session("empty", master="local[2]")
spark.range(8).write.mode("overwrite").parquet(__import__("sys").argv[1])
"""


def flintmq(*words: str) -> str:
    """Run a command in a process of its own; return what it printed."""
    done = subprocess.run([sys.executable, "-c", MAIN, *words], check=True, capture_output=True, text=True)
    return done.stdout


def run(*words: str) -> str:
    """Run a tool; return what it printed."""
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def kept(context: Context) -> Written:
    """The store of these lines: bodies of words, from a seed; its files are full but the last one."""
    if "user" not in context.stores:
        path, mib = context.scratch / "user", min(MIB, context.mib)
        context.say(f"  making user: {mib} MiB of log with {BODY} B bodies")
        count = (mib << 20) // (BODY + OVERHEAD)
        context.stores["user"] = write_store(path, count, body_bytes=BODY, commit_log_file_size=FILE)
    written: Written = context.stores["user"]
    warm(written)
    return written


def needle(written: Written) -> str:
    """Some words of the body in the middle of a queue."""
    with open_store(written.path) as view:
        queue = view.queues()[0]
        [message] = view.read(queue.topic, queue.queue_id, queue.max_offset // 2, 1)
    return message.body[100:260].decode()  # a shorter text may come twice in a body


def paths(written: Written) -> list[str]:
    """The log files that hold records."""
    return [str(path) for path, _ in files(written)]


def compared(
    context: Context,
    line: str,
    what: str,
    cases: Mapping[str, Callable[[], Any]],
    bound: str,
    before: Callable[[], None] | None = None,
    kinds: tuple[str, ...] = ("wall", "cpu"),
) -> list[Result]:
    """The time of "flintmq" in ratio to the best of the other cases, wall and processor."""
    samples = measure(context, cases, before=before)
    peer = min((name for name in cases if name != "flintmq"), key=lambda name: samples[name].wall)
    detail = {f"{name} {kind}": round(getattr(found, kind), 3) for name, found in samples.items() for kind in kinds}
    return [
        Result(f"{line}.{kind}", f"{what}: {kind} time / {peer}'s", part(samples["flintmq"], kind) / part(
            samples[peer], kind), at_most=True, bound=bound, detail=detail)
        for kind in kinds
    ]  # fmt: skip


# Wall alone where Spark runs: nobody waits for its JVM, so the system counts its processor time for nobody.
OF_SPARK = ("wall",)


def part(sample: Sample, kind: str) -> float:
    """Seconds of one kind, at least a clock tick: a tool may take less than the system counts."""
    return max(float(getattr(sample, kind)), 0.01)


def u1(context: Context) -> list[Result]:
    """Each finds the same messages; grep knows no records, and no compressed bodies."""
    written = kept(context)
    logs, text = paths(written), needle(written)
    found = flintmq("scan", str(written.path), "--grep", text, "--json").count("\n")
    assert 1 <= found == run("grep", "-a", "-o", "-F", text, *logs).count(text), (text, found)
    cases: dict[str, Callable[[], Any]] = {
        "flintmq": lambda: flintmq("scan", str(written.path), "--grep", text),
        "grep": lambda: run("grep", "-a", "-c", "-F", text, *logs),
    }
    if shutil.which("rg"):
        cases["ripgrep"] = lambda: run("rg", "-a", "-c", "-F", text, *logs)
    what = f"flintmq scan --grep, {log_bytes(written) >> 20} MiB of log"
    return compared(context, "U1", what, cases, "start of the process, then validation of every record")


def u2(context: Context) -> list[Result]:
    """The report counts every record; wc reads every byte."""
    written = kept(context)
    cases: dict[str, Callable[[], Any]] = {
        "flintmq": lambda: flintmq("spark", "stats", str(written.path), "--json"),
        "wc": lambda: run("wc", "-l", *paths(written)),
        "an empty job of Spark": lambda: run(sys.executable, "-c", EMPTY_JOB, str(context.scratch / "user-empty")),
    }
    samples = measure(context, cases)
    detail = {f"{name} wall": round(found.wall, 3) for name, found in samples.items()}
    return [
        Result(f"U2.{name.split()[0]}", f"flintmq spark stats, {log_bytes(written) >> 20} MiB of log: wall time / "
               f"{name}'s", part(samples["flintmq"], "wall") / part(samples[name], "wall"), at_most=True,
               bound="start of Spark", detail=detail)
        for name in ("an empty job of Spark", "wc")
    ]  # fmt: skip


def u3(context: Context) -> list[Result]:
    """Verify compares queues and index with the log; the others only read, or sum up, the log's bytes."""
    written = kept(context)
    cases: dict[str, Callable[[], Any]] = {
        "flintmq": lambda: flintmq("verify", str(written.path)),
        "sha256sum": lambda: run("sha256sum", *paths(written)),
    }
    what = f"flintmq verify, {log_bytes(written) >> 20} MiB of log"
    return compared(context, "U3", what, cases, "start of the process, then every record, unit and index entry")


def u4(context: Context) -> list[Result]:
    """Export to Parquet beside a copy of the log, with what Spark takes to start and write eight rows."""
    written, out = kept(context), context.scratch / "user-out"

    def copy() -> None:
        out.mkdir()
        run("cp", "--sparse=never", *paths(written), str(out))

    cases: dict[str, Callable[[], Any]] = {
        "flintmq": lambda: flintmq("spark", "export", str(written.path), "--out", str(out)),
        "cp": copy,
        "an empty job of Spark": lambda: run(sys.executable, "-c", EMPTY_JOB, str(out)),
    }
    samples = measure(context, cases, before=lambda: shutil.rmtree(out, ignore_errors=True))
    shutil.rmtree(out, ignore_errors=True)
    detail = {f"{name} wall": round(found.wall, 3) for name, found in samples.items()}
    what = f"flintmq spark export to Parquet, {log_bytes(written) >> 20} MiB of log: wall time / cp's"
    return [
        Result("U4.wall", what, part(samples["flintmq"], "wall") / part(samples["cp"], "wall"), at_most=True,
               bound="start of Spark, Parquet's encoding", detail=detail)
    ]  # fmt: skip


def u5(context: Context) -> list[Result]:
    """A micro-batch of eight new messages, as a process that takes it and ends, with an empty job of Spark."""
    path, out, empty = (context.scratch / f"user-{name}" for name in ("stream", "files", "empty"))
    shutil.rmtree(out, ignore_errors=True)
    with MessageStore(path, unique_keys=False) as opened:
        opened.put(Message("Stream", b"first"))

    def put() -> None:
        with MessageStore(path, unique_keys=False) as opened:
            for number in range(8):
                opened.put(Message("Stream", b"%d" % number, queue_id=number))

    cases: dict[str, Callable[[], Any]] = {
        "flintmq": lambda: flintmq("spark", "export", str(path), "--out", str(out), "--stream", "--once"),
        "an empty job of Spark": lambda: run(sys.executable, "-c", EMPTY_JOB, str(empty)),
    }
    what = "flintmq spark export --stream --once of 8 to 16 new messages"
    return compared(
        context, "U5", what, cases, "start of Spark, two micro-batches' log and commit", before=put, kinds=OF_SPARK
    )


LINES = {"U1": u1, "U2": u2, "U3": u3, "U4": u4, "U5": u5}
