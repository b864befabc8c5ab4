"""What bounds S8, a rebuild on Spark beside the local engine.

    python experiments/rebuild_spark_bound.py STORE [ROUNDS]

Cases take turns in one session of local[2]; printed are medians in seconds, and local's divided by each:

    local       `rebuild` in this process
    spark       `flintmq spark rebuild`
    walk        two jobs: the first walks the ranges and stages nothing, the second does nothing
    jobs        the same two jobs with tasks that do nothing
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from flintmq.lake.splits import LogRange, resolve_cuts, shares, walk_count

from flintmq.forensics.rebuild import RebuildPlan, plan_rebuild, rebuild
from flintmq.spark import session
from flintmq.spark.jobs.rebuild import rebuild as spark_rebuild
from flintmq.spark.jobs.tasks import run_tasks
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import LogWalk


def walk(plan: RebuildPlan, end: int, part: LogRange) -> dict[str, Any]:
    part = resolve_cuts(plan.log, part, end)
    return {"records": sum(piece.count for piece in LogWalk(plan.log, begin=part.begin, end=part.end))}


def nothing(item: Any) -> dict[str, Any]:
    return {}


def main() -> None:
    store, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    spark = session("bound", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder, "into")

        def ranges() -> tuple[RebuildPlan, int, list[LogRange]]:
            plan = plan_rebuild(store, str(into))
            end = find_end(plan.log, plan.facts, Report()).offset
            span = end - plan.log.min_offset
            return plan, end, shares(plan.log, 0, end, walk_count(span, 2))

        def walking() -> None:
            plan, end, parts = ranges()
            run_tasks(spark, partial(walk, plan, end), parts)
            run_tasks(spark, nothing, range(5))

        def jobs() -> None:
            run_tasks(spark, nothing, ranges()[2])
            run_tasks(spark, nothing, range(5))

        cases = {
            "local": lambda: rebuild(store, str(into)),
            "spark": lambda: spark_rebuild(spark, store, str(into)),
            "walk": walking,
            "jobs": jobs,
        }
        found: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(rounds + 1):
            for name, run in cases.items():
                shutil.rmtree(into, ignore_errors=True)
                into.mkdir()
                began = time.perf_counter()
                run()
                if number:  # the first round warms Spark up
                    found[name].append(time.perf_counter() - began)
        local = statistics.median(found["local"])
        for name, times in found.items():
            print(f"{name:6} {statistics.median(times):.3f} s, local / this {local / statistics.median(times):.2f}")


if __name__ == "__main__":
    main()
