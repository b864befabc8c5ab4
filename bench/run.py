"""Measure the lines that FlintMQ must hold: `python bench/run.py [--only P9b,7] [--resume] [--report] [--quick]`.

Writes bench/results.json and bench/RESULTS.md; lines that were not measured keep what an earlier run found, with the
commit that it measured. bench/lines.py declares the lines; docs/internals/bench.md says how they are measured. Exit
code 1 if a measured bar is missed; with --report, if any line is not held.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests.support, tests.interop
sys.path.insert(0, str(Path(__file__).resolve().parent))

import report
from harness import Context, Result, Unavailable
from lines import FAMILIES, LINES
from pace import Pace, words
from provenance import ROOT, Repository


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure FlintMQ's ratios.")
    parser.add_argument(
        "--only", default="", help=f"lines to measure, with commas or spaces: numbers, or of {', '.join(FAMILIES)}"
    )
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
    parser.add_argument("--oracle", help="the Java peer's build folder; default: found, or built with Maven")
    return parser.parse_args(arguments)


def families(words: list[str]) -> list[str]:
    """The families that words name, by id or by number; all if there are none.

    Raises:
        KeyError: a word that names none.
    """
    numbers: dict[str, list[str]] = {}
    for line in LINES:
        numbers.setdefault(str(line.number), []).append(line.family)
    found = [family for word in words for family in ([word] if word in FAMILIES else numbers[word])]
    return list(dict.fromkeys(found)) or list(FAMILIES)


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    if given.report:
        return report.tell()
    try:
        wanted = families(given.only.replace(",", " ").split())
    except KeyError as unknown:
        print(f"no such line: {unknown.args[0]}; there are: {', '.join(FAMILIES)}", file=sys.stderr)
        return 2
    mib, rounds = (64, 3) if given.quick else (given.mib, given.rounds)
    if given.resume:
        fresh = [family for family in wanted if report.is_fresh(family, mib, rounds)]
        print(f"measured already, of the code as it is now: {', '.join(fresh) or 'none'}")
        wanted = [family for family in wanted if family not in fresh]
    # As an installed package has it; with PYTHONDONTWRITEBYTECODE set each process would compile its imports.
    compileall.compile_dir(ROOT / "src", quiet=1)
    scratch = Path(tempfile.mkdtemp(prefix="flintmq-bench-", dir=given.scratch))
    oracle = Path(given.oracle) if given.oracle else None
    context, repository, failed = Context(scratch, mib, rounds, given.quick, oracle), Repository(), False
    try:
        for family in wanted:
            try:
                measured = FAMILIES[family].code
                before, pace = repository.state(measured), Pace.now()
                results = run_family(context, family)
                paces = words(pace, Pace.now())
                print(f"  pace of the machine: {paces}", flush=True)
                failed = failed or any(line.holds(results[line.id].ratio.figure) is False for line in LINES
                                       if line.id in results)  # fmt: skip
                if results and not given.quick:  # after each family: a run may be cut
                    report.save(family, results, context, before, repository.state(measured), paces)
            except Exception:
                failed = True  # the others are measured all the same
                traceback.print_exc()
    finally:
        if not given.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    if given.quick:
        print("a quick run is not written to results.json")
    elif wanted:
        print(f"results are in {report.JSON.name} and {report.PAGE.name}")
    return int(failed)


def run_family(context: Context, family: str) -> Mapping[str, Result]:
    """Measure the lines of a family and print them."""
    began = time.perf_counter()
    print(f"{family}:", flush=True)
    module = importlib.import_module(FAMILIES[family].module)
    measure: Callable[[Context], Mapping[str, Result]] = module.FAMILIES[family]
    try:
        found = measure(context)
    except Unavailable as missing:
        print(f"  not measured: {missing}")
        return {}
    declared = {line.id: line for line in LINES if line.family == family}
    if not found.keys() <= declared.keys():
        raise KeyError(f"not declared in lines.py: {found.keys() - declared.keys()}")
    for id_, result in found.items():
        line = declared[id_]
        word = {True: "holds ", False: "MISSED", None: "      "}[line.holds(result.ratio.figure)]
        spread = report.spread_words(result.ratio.spread)
        bar = f"bar {line.bar}" if line.bar else "no bar"
        figure = f"{result.ratio.figure:8.2f}{spread}"
        print(f"  {word} {line.number:2} {id_:<20} {figure}  ({bar})  {line.what}", flush=True)
    for id_ in declared.keys() - found.keys():
        print(f"  not measured: {id_}")
    print(f"  {time.perf_counter() - began:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
