"""Measure the ratios that FlintMQ must reach: `python bench/run.py [--only P9b,S1] [--resume] [--report] [--quick]`.

Writes bench/results.json and bench/RESULTS.md; lines that were not measured keep what an earlier run found, with the
commit that it measured. See docs/internals/bench.md for what each line means and needs. Exit code 1 if a measured bar
is missed; with --report, if any line is not held.
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
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests.support
sys.path.insert(0, str(Path(__file__).resolve().parent))

import report
from harness import Context, Result, Unavailable
from pace import Pace, words
from provenance import Repository, code


@dataclass(frozen=True)
class Line:
    """A line of the bench.

    Attributes:
        module: the module whose LINES has it. Imported when it is needed: some start a JVM.
        layer: the highest layer of the package that it measures.
    """

    module: str
    layer: str

    @property
    def code(self) -> tuple[str, ...]:
        """The paths of the code that it measures, the measuring module too."""
        return (*code(self.layer), f"bench/{self.module}.py")


MODULES = {
    "A1": Line("flush_lines", "store"),
    "P1": Line("put_lines", "store"),
    "P1u": Line("put_lines", "store"),
    "P2": Line("put_lines", "store"),
    "P3": Line("put_lines", "store"),
    "P4": Line("put_lines", "store"),
    "P4t": Line("put_lines", "store"),
    "P5": Line("put_lines", "store"),
    "P6": Line("put_lines", "store"),
    "P7": Line("flush_lines", "store"),
    "P7t": Line("flush_lines", "store"),
    "P8": Line("flush_lines", "store"),
    "P9a": Line("start_lines", "store"),
    "P9b": Line("read_lines", "store"),
    "P10": Line("rebuild_lines", "forensics"),
    "P11": Line("read_lines", "arrow"),
    "P11q": Line("read_lines", "arrow"),
    "P12": Line("read_lines", "arrow"),
    "P13": Line("queue_lines", "store"),
    "P16": Line("flush_lines", "store"),
    "P17": Line("peer_lines", "store"),
    "P18": Line("peer_lines", "store"),
    "P19": Line("cold_lines", "store"),
    "P20": Line("start_lines", "store"),
    "P21": Line("command_lines", "cli"),
    "S1": Line("spark_lines", "spark"),
    "S2": Line("spark_lines", "spark"),
    "S3": Line("kafka_lines", "spark"),
    "S4": Line("spark_lines", "spark"),
    "S5": Line("export_lines", "spark"),
    "S6": Line("engine_lines", "spark"),
    "S7": Line("stream_lines", "spark"),
    "S8": Line("rebuild_lines", "spark"),
    "S9": Line("stream_lines", "spark"),
    "S10": Line("growth_lines", "spark"),
    "S11": Line("growth_lines", "spark"),
    "S12": Line("growth_lines", "spark"),
    "C1": Line("cluster_lines", "spark"),
    "C2": Line("cluster_lines", "lake"),
    "C3": Line("cluster_lines", "spark"),
    "C4": Line("cluster_lines", "lake"),
    "C5": Line("cluster_lines", "cli"),
    "C6": Line("cluster_lines", "lake"),
    "Z1": Line("zone_lines", "cli"),
    "Z2": Line("zone_lines", "cli"),
    "HA1": Line("replication_lines", "ha"),
    "HA4": Line("replication_lines", "ha"),
    "HA5": Line("replication_lines", "ha"),
    "HA6": Line("replication_lines", "cli"),
    "HA7": Line("replication_lines", "ha"),
    "HA8": Line("replication_lines", "ha"),
    "U1": Line("user_lines", "cli"),
    "U2": Line("user_lines", "cli"),
    "U3": Line("user_lines", "cli"),
    "U4": Line("user_lines", "cli"),
    "U5": Line("user_lines", "spark"),
}


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure FlintMQ's ratios.")
    parser.add_argument("--only", default="", help=f"lines to measure, with commas or spaces; of: {', '.join(MODULES)}")
    parser.add_argument("--quick", action="store_true", help="small logs, three rounds: to see that everything runs")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="leave out lines whose figures are of the code as it is now, as after a run that was cut",
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing; say what is held, missed and stale, and write the page"
    )
    parser.add_argument("--mib", type=int, default=1024, help="MiB of log of the stores to read (1024)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument(
        "--scratch", help="where the stores go; made and removed; default: the system's temporary folder"
    )
    parser.add_argument("--keep", action="store_true", help="leave the scratch directory there")
    parser.add_argument("--oracle", help="the Java peer's build folder; default: tests/interop/oracle/build/5.3.3")
    parser.add_argument(
        "--beside", help="the root of a built checkout of an earlier commit, which P7t measures in the same run"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    if given.report:
        return report.tell()
    wanted = given.only.replace(",", " ").split() or list(MODULES)
    unknown = [line for line in wanted if line not in MODULES]
    if unknown:
        print(f"no such line: {', '.join(unknown)}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    mib, rounds = (64, 3) if given.quick else (given.mib, given.rounds)
    if given.resume:
        fresh = [line for line in wanted if report.is_fresh(line, mib, rounds)]
        print(f"measured already, of the code as it is now: {', '.join(fresh) or 'none'}")
        wanted = [line for line in wanted if line not in fresh]
    scratch = Path(tempfile.mkdtemp(prefix="flintmq-bench-", dir=given.scratch))
    oracle = Path(given.oracle) if given.oracle else report.FOLDER.parent / "tests/interop/oracle/build/5.3.3"
    beside = Path(given.beside).resolve() if given.beside else None
    context = Context(scratch, mib, rounds, given.quick, given.keep, oracle, tuple(wanted), beside=beside)
    repository = Repository()
    failed = False
    try:
        for line in wanted:
            try:
                before, pace = repository.state(MODULES[line].code), Pace.now()
                results = run_line(context, line)
                paces = words(pace, Pace.now())
                print(f"  pace of the machine: {paces}", flush=True)
                failed = failed or any(result.holds is False for result in results)
                if results and not given.quick:  # after each line: a run may be cut
                    after = repository.state(MODULES[line].code)
                    report.save(line, results, context, before, after, MODULES[line].code, paces)
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
    elif wanted:
        print(f"results are in {report.JSON.name} and {report.PAGE.name}")
    return int(failed)


def run_line(context: Context, line: str) -> list[Result]:
    """Measure one line and print it."""
    began = time.perf_counter()
    print(f"{line}:", flush=True)
    measure: Callable[[Context], list[Result]] = importlib.import_module(MODULES[line].module).LINES[line]
    try:
        found = measure(context)
    except Unavailable as missing:
        print(f"  not measured: {missing}")
        return []
    for result in found:
        word = {True: "holds ", False: "MISSED", None: "      "}[result.holds]
        bar = "no bar" if result.bar is None else f"bar {'<=' if result.at_most else '>='} {result.bar:g}"
        print(f"  {word} {result.id:<22} {result.ratio:7.2f}  ({bar})  {result.what}", flush=True)
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
