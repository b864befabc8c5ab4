"""P10: rebuild of queues and index against Java's own. S8: on Spark against the local engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import java
from data import SIZES, log_bytes, sized, store
from harness import Context, Result, Sample, figures, measure


def ours(source: Path, into: Path) -> None:
    """`flintmq rebuild` as a process of its own, at its best; Java maps its files too."""
    script = "import sys; from flintmq.cli.app import main; sys.exit(main())"
    words = [sys.executable, "-c", script, "rebuild", str(source), "--into", str(into), "--access", "map"]
    subprocess.run(words, check=True, capture_output=True)


def less(sample: Sample, start: Sample) -> Sample:
    """Without what starting up costs."""
    return Sample(sample.wall - start.wall, sample.cpu - start.cpu)


def p10(context: Context) -> list[Result]:
    """Both from commitlog/ alone, in a process of their own; what the same costs on a tiny log is taken off."""
    java.home(context)
    results = []
    tiny = store(context, "tiny", 100, mib=1)
    tiny_copy = java.log_only(context, tiny.path, "tiny-java")
    for size in SIZES:
        written = sized(context, size)
        copy, into = java.log_only(context, written.path, f"java-{size}"), context.scratch / "rebuilt"

        def clear(copy: Path = copy, into: Path = into) -> None:
            for path in (copy, tiny_copy):
                java.strip(path)
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir()

        samples = measure(
            context,
            {
                "java": lambda copy=copy: java.oracle(context, "rebuild", copy),  # type: ignore[misc]
                "flintmq": lambda written=written, into=into: ours(written.path, into),  # type: ignore[misc]
                "java start": lambda: java.oracle(context, "rebuild", tiny_copy),
                "flintmq start": lambda into=into: ours(tiny.path, into),  # type: ignore[misc]
            },
            before=clear,
        )
        peer, own = less(samples["java"], samples["java start"]), less(samples["flintmq"], samples["flintmq start"])
        detail = figures(samples) | {f"{name} cpu": round(sample.cpu, 4) for name, sample in samples.items()}
        for kind, ratio, bar in (
            ("wall", peer.wall / own.wall, 10.0),
            ("cpu", peer.cpu / own.cpu, 12.0 if size == "100B" else 10.0),
        ):
            results.append(
                Result(
                    f"P10.{kind}.{size}",
                    f"rebuild of queues and index, {size} bodies: Java's {kind} / ours, start-up taken off",
                    ratio,
                    bar,
                    moonshot=25,
                    bound="cache misses of index insertion (100 B), reading the log (1 KB), fsync of what was made",
                    detail=detail,
                )
            )
    return results


def s8(context: Context) -> list[Result]:
    """Session start not counted; a log four times as large as the reading lines have."""
    from spark_session import session

    from flintmq.forensics.rebuild import rebuild
    from flintmq.spark.jobs.rebuild import rebuild as spark_rebuild

    spark = session(context)
    written = store(context, "rebuild-1KB", SIZES["1KB"], mib=4 * context.mib)
    into = context.scratch / "rebuilt"

    def clear() -> None:
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()

    samples = measure(
        context,
        {
            "local": lambda: rebuild(str(written.path), str(into)),
            "spark": lambda: spark_rebuild(spark, str(written.path), str(into)),
        },
        before=clear,
    )
    return [
        Result(
            "S8",
            f"speed of rebuild on Spark local[2] / local engine, {log_bytes(written) >> 20} MiB of log",
            samples["local"].wall / samples["spark"].wall,
            0.7,
            moonshot=1.2,
            bound="stages of tasks (25 ms each) and the serial index stage",
            detail=figures(samples),
        )
    ]


LINES = {"P10": p10, "S8": s8}
