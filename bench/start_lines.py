"""P9a: a store that was stopped uncleanly, from the start of the process until everything is dispatched.

Each side finds the same log and what it knows of it itself: both the checkpoint, ours its durable mark too. Queues and
index are missing, so everything is validated and dispatched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import java
from data import SIZES, sized, store
from harness import Context, Result, figures, measure
from rebuild_lines import less

SCRIPT = """
import sys
from flintmq import MessageStore
with MessageStore(sys.argv[1], unique_keys=False) as store:
    assert store.wait_dispatched()
"""


def ours(path: Path) -> None:
    """Open the store in a process of its own, wait until it is dispatched, close it (Java closes its, too)."""
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, capture_output=True)


def stopped(path: Path) -> dict[str, bytes]:
    """What a store that was flushed and then killed has besides its log, by name."""
    java.strip(path)
    ours(path)
    return {name: (path / name).read_bytes() for name in ("checkpoint", "flintmq.mark")} | {"abort": b"1"}


def p9a(context: Context) -> list[Result]:
    """Starting on a tiny log is taken off."""
    java.home(context)
    results = []
    tiny = java.log_only(context, store(context, "tiny", 100, mib=1).path, "tiny-java")
    for size in SIZES:
        copy = java.log_only(context, sized(context, size).path, f"java-{size}")
        kept = {path: stopped(path) for path in (copy, tiny)}

        def crashed(kept: dict[Path, dict[str, bytes]] = kept) -> None:
            for path, files in kept.items():
                java.strip(path)
                for name, data in files.items():
                    (path / name).write_bytes(data)

        samples = measure(
            context,
            {
                "java": lambda copy=copy: java.oracle(context, "rebuild", copy),  # type: ignore[misc]
                "flintmq": lambda copy=copy: ours(copy),  # type: ignore[misc]
                "java start": lambda: java.oracle(context, "rebuild", tiny),
                "flintmq start": lambda: ours(tiny),
            },
            before=crashed,
        )
        for path in kept:
            java.strip(path)
        peer, own = less(samples["java"], samples["java start"]), less(samples["flintmq"], samples["flintmq start"])
        what = f"unclean start, {context.mib} MiB of log, {size} bodies, until dispatched: Java's time / ours"
        results.append(
            Result(f"P9a.{size}", what, peer.wall / own.wall, 10.0, moonshot=25,
                   bound="validation, then cache misses of index insertion", detail=figures(samples))
        )  # fmt: skip
    return results


LINES = {"P9a": p9a}
