"""The long form: real brokers whose clock is set back, and every door beside them and after them.

    python -m labs.clocks [--lives 90] [--seconds N] [--no-spark] [--only TEXT] [--record] [--report
    docs/internals/reliability.md]

What is done is kept, so that a run goes on where it was stopped. RocketMQ is the judge of each store: its scan of a
copy of the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from labs.clocks.doors import ask_all, java_differs, java_rows, subject_of
from labs.clocks.lives import FLUSHES, STEPS, Life, broker, lives, make
from labs.torture import figures, report
from tests.interop.java import VERSIONS, Java, home
from tests.robustness.matrix import truth
from tests.robustness.matrix.truth import Row

STATE = Path("labs/torture/state/clocks.json")
RECORDED = Path(__file__).with_name("recorded.json")


def made_stores() -> list[tuple[str, str, int]]:
    """(step, how it stopped, files of the log) of the stores that are made byte by byte."""
    return [(step, stop, files) for step in STEPS for stop in ("stopped", "killed") for files in (1, 3)]


def names_of(rows: list[Row]) -> list[object]:
    """The number of rows, and a digest of them."""
    return [len(rows), hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]]


def record() -> None:
    """Write down what each version of RocketMQ keeps of the stores that are made."""
    found: dict[str, dict[str, list[object]]] = {}
    for made in made_stores():
        for version in VERSIONS:
            built, why = home(version)
            assert built is not None, why
            with tempfile.TemporaryDirectory(prefix="flintmq-clocks-") as work:
                make(Path(work, "store"), *made)
                kept = names_of(java_rows(Java(version, built), Path(work, "store")))
            found.setdefault(" ".join(map(str, made)), {})[version] = kept
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")


def one(life: Life, root: Path, *, spark: bool) -> tuple[int, int, list[str]]:
    """Live it and ask. The number of messages, of questions, and what was wrong."""
    built, why = home(life.version)
    assert built is not None, why
    with broker(life, root) as store:
        if life.stop == "living":
            time.sleep(1)
        subject = subject_of(store, root / "work", " ".join(life), living=life.stop == "living")
        wrong = java_differs(Java(life.version, built), store, root)
        asked, more = ask_all(subject)
        if spark and life.stop != "living":
            # Brokers that differ in version and flush mode alone share Spark's doors: minutes each.
            part = VERSIONS.index(life.version) * len(FLUSHES) + FLUSHES.index(life.flush)
            with_spark, found = ask_all(subject, spark=True, part=part, parts=len(VERSIONS) * len(FLUSHES))
            asked, more = asked + with_spark, more + found
        return len(truth.rows(store)), asked, wrong + more


def main() -> int:
    """Run what the options name; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=int, default=len(lives()))
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--only", default="", help="only lives whose names hold this")
    parser.add_argument("--no-spark", action="store_true", help="without the doors of Spark")
    parser.add_argument("--report", type=Path, help="the page that has the table")
    parser.add_argument("--record", action="store_true", help="only write recorded.json anew")
    given = parser.parse_args()
    if given.record:
        record()
        return 0
    if not given.no_spark:
        import labs.matrix.spark_cells  # noqa: F401
    commit = report.commit()
    state = report.State(STATE, lives={}) if given.report else None
    bad, until = 0, time.monotonic() + given.seconds
    for life in lives()[: given.lives]:
        name = " ".join(life)
        known = {} if state is None else state["lives"].get(name, {})
        if given.only not in name or known.get("wrong") == 0 or time.monotonic() > until:
            continue
        with tempfile.TemporaryDirectory(prefix="flintmq-clocks-", dir=report.memory()) as work:
            messages, asked, wrong = one(life, Path(work), spark=not given.no_spark)
        print(f"{name}: {messages} messages, {asked} questions, {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
        bad += len(wrong)
        if state is not None:
            line = {"messages": messages, "asked": asked, "wrong": len(wrong), "commit": commit}
            state["lives"] = {**state["lives"], name: line}
            state.save()
            figures.record(given.report, "clocks", series(state["lives"]))
    return 1 if bad else 0


def series(done: dict[str, dict[str, object]]) -> figures.Series:
    """What was counted: a row for each step and way to end."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for life in lives():
        line = done.get(" ".join(life))
        if line is not None:
            row = sums.setdefault((life.step, life.stop), Counter())
            row.update(brokers=1, **{name: int(str(line[name])) for name in ("messages", "asked", "wrong")})
    rows = [
        [step, stop, *(row[name] for name in ("brokers", "messages", "asked", "wrong"))]
        for (step, stop), row in sorted(sums.items())
    ]
    commits = list(dict.fromkeys(str(line["commit"]) for line in done.values()))
    return figures.Series(["clock", "broker", "brokers", "messages", "questions", "wrong"], rows, commits)


if __name__ == "__main__":
    sys.exit(main())
