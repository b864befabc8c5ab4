"""Branch coverage of format, storage and recovery, each by its own tests alone.

    python -m labs.mutants.branches [--write] [format|storage|recovery ...]       (make branches)

Fails below 95 % of any of the three. `--write` puts the sums into docs/internals/reliability.md. Other tests, of
whatever else uses these modules, cover more; what stands here is what is tried on purpose.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from labs.mutants.scores import PAGE, ROOT, modules, part_of, tests_of
from labs.torture import figures, report

LEAST = 95.0  # percent
OTHERS = {
    "format": ["tests/format"],
    "storage": ["tests/storage"],
    "recovery": ["tests/robustness/mutants/test_aimed.py"],
}
KEPT = ROOT / "build" / "branches.json"


def measure(part: str, folder: Path) -> dict[str, dict[str, int]]:
    """coverage's sums of each module of a part."""
    mine = [module for module in modules() if part_of(module) == part]
    tests = (
        OTHERS[part] if part != "recovery" else [*OTHERS[part], *dict.fromkeys(t for m in mine for t in tests_of(m))]
    )
    environment = os.environ | {"COVERAGE_FILE": str(folder / part)}
    coverage = [sys.executable, "-m", "coverage"]
    ran = subprocess.run(
        [*coverage, "run", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT, env=environment
    )
    if ran.returncode != 0:
        raise SystemExit(f"{part}: its tests fail; nothing was measured")
    told = folder / f"{part}.json"
    files = ",".join(f"src/flintmq/{module}.py" for module in mine)
    subprocess.run(
        [*coverage, "json", "-q", f"--include={files}", "-o", str(told)], cwd=ROOT, env=environment, check=True
    )
    found = json.loads(told.read_text(encoding="utf-8"))["files"]
    return {module: found[f"src/flintmq/{module}.py"]["summary"] for module in mine}


def series(kept: dict[str, dict[str, dict[str, int]]]) -> figures.Series:
    """What was measured, a row for each part."""
    names = ("num_statements", "num_branches", "missing_branches", "covered_branches")
    rows: list[list[Any]] = []
    for part in [part for part in OTHERS if part in kept]:
        statements, branches, missing, taken = (sum(one[name] for one in kept[part].values()) for name in names)
        rows.append([part, len(kept[part]), statements, branches, missing, round(100 * taken / branches, 1)])
    columns = ["part", "modules", "statements", "branches", "not taken", "% taken"]
    return figures.Series(columns, rows, [report.commit()])


def main(words: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m labs.mutants.branches", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*OTHERS, []], help="only these; the others' last sums stand")
    parser.add_argument("--write", action="store_true", help="put the sums into docs/internals/reliability.md")
    given = parser.parse_args(words)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for part in given.parts or OTHERS:
            kept[part] = measure(part, Path(folder))
            KEPT.write_text(json.dumps(kept), encoding="utf-8")
            worst = {m: one["missing_branches"] for m, one in kept[part].items() if one["missing_branches"]}
            print(f"{part}: branches not taken: {worst}")
    found = series(kept)
    print(*figures.shown("branches", found), sep="\n")
    if given.write:
        figures.record(PAGE, "branches", found)
    counts = zip(found.values("branches"), found.values("not taken"), strict=True)
    return 1 if any(100 * (1 - missing / branches) < LEAST for branches, missing in counts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
