"""Run the matrix, whole or in part; what is done is kept, so that a run goes on where it was stopped.

    python -m labs.matrix [--spark] [--stores TEXT] [--cells TEXT] [--turn N] [--report
    docs/internals/reliability.md]

With --report, stores that this commit has been asked about already are left out, and the page's table is written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from labs.matrix.run import run_share, share
from labs.torture import figures, report

STATE = Path("labs/torture/state/matrix.json")


def main() -> int:
    """Run what the options name; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turn", type=int, help="one tenth of it, 0 to 9; of large stores a twentieth, 0 to 19")
    parser.add_argument("--stores", default="", help="only stores whose names hold this")
    parser.add_argument("--cells", default="", help="only cells whose names hold this")
    parser.add_argument("--spark", action="store_true", help="the cells that need Spark, instead of the others")
    parser.add_argument("--report", type=Path, help="the page that has the table")
    given = parser.parse_args()
    if given.spark:
        import labs.matrix.spark_cells  # noqa: F401
    kind, commit = "with Spark" if given.spark else "without Spark", report.commit()
    state = report.State(STATE, stores={}) if given.report else None
    asked = bad = 0
    for store, cells in share(given.turn, spark=given.spark):
        cells = [cell for cell in cells if given.cells in cell]
        done = {} if state is None else state["stores"].get(f"{store} {kind}", {})
        # A store with a wrong answer is asked again: what is asked may have been mended.
        if given.stores not in store or not cells or (done.get("commit") == commit and not done["wrong"]):
            continue
        with tempfile.TemporaryDirectory(prefix="flintmq-matrix-", dir=report.memory()) as work:
            counted, wrong = run_share([(store, cells)], Path(work))
        asked, bad = asked + counted[store], bad + len(wrong)
        if state is not None:
            line = {"store": store, "kind": kind, "cells": counted[store], "wrong": len(wrong), "commit": commit}
            state["stores"] = {**state["stores"], f"{store} {kind}": line}
            state.save()
            figures.record(given.report, "matrix", series(list(state["stores"].values())))
    print(f"{asked} questions, {bad} answers wrong")
    return 1 if bad else 0


def series(lines: list[dict[str, object]]) -> figures.Series:
    """What was counted: a row for each store."""
    rows: dict[str, list[object]] = {}
    for line in lines:
        row = rows.setdefault(str(line["store"]), [line["store"], 1, 0, 0, 0])
        row[3 if line["kind"] == "with Spark" else 2] = line["cells"]
        row[4] = int(str(row[4])) + int(str(line["wrong"]))
    commits = list(dict.fromkeys(str(line["commit"]) for line in lines))
    columns = ["store", "stores", "questions without Spark", "questions with Spark", "wrong"]
    return figures.Series(columns, list(rows.values()), commits)


if __name__ == "__main__":
    sys.exit(main())
