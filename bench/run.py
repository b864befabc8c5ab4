"""Measure the ratios that FlintMQ must reach: `python bench/run.py [--only P9b,S1] [--quick]`.

Writes bench/results.json and bench/RESULTS.md; lines that were not measured keep what an earlier run found. See
docs/internals/bench.md for what each line means and needs. Exit code 1 if a measured bar is missed.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import report
from harness import Context, Result, Unavailable

# Line -> the module whose LINES has it. Modules are imported when they are needed: some start a JVM.
MODULES = {
    "A1": "flush_lines",
    "P1": "put_lines",
    "P2": "put_lines",
    "P3": "put_lines",
    "P4": "put_lines",
    "P5": "put_lines",
    "P6": "put_lines",
    "P7": "flush_lines",
    "P8": "flush_lines",
    "P9a": "start_lines",
    "P9b": "read_lines",
    "P10": "rebuild_lines",
    "P11": "read_lines",
    "P12": "read_lines",
    "P13": "queue_lines",
    "P16": "flush_lines",
    "P17": "peer_lines",
    "P18": "peer_lines",
    "P19": "cold_lines",
    "S1": "spark_lines",
    "S2": "spark_lines",
    "S3": "kafka_lines",
    "S4": "spark_lines",
    "S5": "export_lines",
    "S6": "engine_lines",
    "S7": "stream_lines",
    "S8": "rebuild_lines",
    "S9": "stream_lines",
    "S10": "growth_lines",
    "S11": "growth_lines",
    "S12": "growth_lines",
}


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure FlintMQ's ratios.")
    parser.add_argument("--only", default="", help=f"lines to measure, with commas; of: {', '.join(MODULES)}")
    parser.add_argument("--quick", action="store_true", help="small logs, three rounds: to see that everything runs")
    parser.add_argument("--mib", type=int, default=1024, help="MiB of log of the stores to read (1024)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument(
        "--scratch", help="where the stores go; made and removed; default: the system's temporary folder"
    )
    parser.add_argument("--keep", action="store_true", help="leave the scratch directory there")
    parser.add_argument("--oracle", help="the Java peer's build folder; default: tests/interop/oracle/build/5.3.3")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    wanted = given.only.split(",") if given.only else list(MODULES)
    unknown = [line for line in wanted if line not in MODULES]
    if unknown:
        print(f"no such line: {', '.join(unknown)}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="flintmq-bench-", dir=given.scratch))
    oracle = Path(given.oracle) if given.oracle else report.FOLDER.parent / "tests/interop/oracle/build/5.3.3"
    mib, rounds = (64, 3) if given.quick else (given.mib, given.rounds)
    context = Context(scratch, mib, rounds, given.quick, given.keep, oracle, tuple(wanted))
    results: list[Result] = []
    failed = False
    try:
        for line in wanted:
            try:
                results += run_line(context, line)
                if results and not given.quick:
                    report.save(results, context)  # after each line: a run may be cut
            except Exception:
                failed = True  # the others are measured all the same
                traceback.print_exc()
    finally:
        for closing in context.shared.values():
            if hasattr(closing, "stop"):
                closing.stop()
        if not given.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    if given.quick:
        print("a quick run is not written to results.json")
    elif results:
        print(f"wrote {report.JSON.name} and {report.PAGE.name}")
    return int(failed or not all(result.holds for result in results))


def run_line(context: Context, line: str) -> list[Result]:
    """Measure one line and print it."""
    began = time.perf_counter()
    print(f"{line}:", flush=True)
    measure: Callable[[Context], list[Result]] = importlib.import_module(MODULES[line]).LINES[line]
    try:
        found = measure(context)
    except Unavailable as missing:
        print(f"  not measured: {missing}")
        return []
    for result in found:
        sign = "<=" if result.at_most else ">="
        mark = "holds " if result.holds else "MISSED"
        print(f"  {mark} {result.id:<22} {result.ratio:7.2f}  (bar {sign} {result.bar:g})  {result.what}", flush=True)
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
