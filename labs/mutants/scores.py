"""mutmut on format, storage and recovery, module by module: how many small faults do a module's own tests kill?

    python -m labs.mutants.scores                        all modules without a figure (make mutmut)
    python -m labs.mutants.scores format/record          these
    python -m labs.mutants.scores --again  after tests were added: the survivors of what was tried before
    python -m labs.mutants.scores --survivors            what lives, as diffs
    python -m labs.mutants.scores --write                the sums into docs/internals/reliability.md

A mutant is tried with the tests of its module alone, those that mirror it (labs/mutants/forked.py). The
figures stand in labs/torture/state/mutmut.json, with hashes of the module and of its tests: where both are
as they were, the figure holds on any machine, and the module is not tried again. Survivors that no test can kill stand
in equivalent.toml, each with its reason.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutmut.mutation.file_mutation import MutatedFile

from labs.mutants.forked import BASELINE_FAILED, ROOT, mutated
from labs.torture import figures, report

WORK = ROOT / "build" / "mutmut"
KEPT = ROOT / "labs" / "torture" / "state" / "mutmut.json"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
PAGE = ROOT / "docs" / "internals" / "reliability.md"
RECOVERY = (
    "commitlog/end_of_log", "recovery/plan", "recovery/apply", "recovery/find_end",
    "recovery/truncate", "recovery/decisions", "recovery/derived", "recovery/torn_record",
    "layout/small_files", "layout/mark",
    "consumequeue/known_ends", "services/housekeeping", "layout/config_writer",
)  # fmt: skip
# The tests of the log's part of recovery alone, and of its choices; kills at every call and seeded lives take minutes
# and would be run for every mutant that lives.
LOG_TESTS = [f"tests/store/recovery/test_{name}.py" for name in ("log_recovery", "recovery_choices")]
MORE_TESTS = {
    "format/group_topics": ["tests/store/consumer/test_retry.py"],
    "storage/files/filesystem": ["tests/storage/files/test_filesystem_calls.py", "tests/storage/files/test_guarded.py"],
    "storage/memory/mapped_file": ["tests/storage/memory/test_transient_pool.py"],
    "storage/memory/mapped_file_queue": ["tests/storage/memory/test_allocation.py"],
    "storage/files/system_error": ["tests/storage/files/test_filesystem.py", "tests/storage/files/test_lock.py"],
    **{f"store/recovery/{name}": LOG_TESTS for name in ("find_end", "truncate", "decisions")},
    "store/recovery/apply": [*LOG_TESTS, "tests/store/recovery/test_lost_log.py"],
    "store/layout/mark": ["tests/store/layout/test_small_files.py", "tests/store/recovery/test_log_recovery.py"],
    "store/recovery/derived": [
        "tests/store/recovery/test_recovery_choices.py",
        "tests/store/consumequeue/test_known_ends.py",
    ],
}


def modules() -> list[str]:
    """Every module that is tried, as format/record."""
    package = ROOT / "src" / "flintmq"
    found = [
        path.relative_to(package).with_suffix("").as_posix()
        for part in ("format", "storage")
        for path in sorted((package / part).rglob("[!_]*.py"))
    ]
    return found + [f"store/{name}" for name in RECOVERY]


def part_of(module: str) -> str:
    """format, storage or recovery."""
    return (
        module.partition("/")[0].replace("store", "recovery") if module.startswith("store/") else module.split("/")[0]
    )


def tests_of(module: str) -> list[str]:
    """The tests that a module's mutants are tried with."""
    folder, _, name = module.rpartition("/")
    more, own = MORE_TESTS.get(module, []), f"tests/{folder}/test_{name}.py"
    return more if own in more or not (ROOT / own).is_file() else [own, *more]


@dataclass(frozen=True)
class Equivalent:
    """A mutant that no test can kill, or need not.

    Attributes:
        module: where it is.
        function, old, new: regular expressions of the function (a method as Class.method), of the whole line that it
            changes, and of what that becomes, without indentation.
        reason: why.
    """

    module: str
    function: str
    old: str
    new: str
    reason: str

    def is_this(self, module: str, survivor: dict[str, str]) -> bool:
        """Whether a survivor is this one."""
        return (
            self.module == module
            and re.fullmatch(self.function, survivor["function"]) is not None
            and re.fullmatch(self.old, survivor["old"]) is not None
            and re.fullmatch(self.new, survivor["new"]) is not None
        )


def equivalents() -> list[Equivalent]:
    """The kept list."""
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", []) if EQUIVALENT.exists() else []
    return [Equivalent(**{"function": ".*", "old": ".*", "new": ".*"} | row) for row in rows]


def fingerprint(module: str) -> dict[str, str]:
    """Of what a module's figure depends on: of its source, and of its tests."""

    def of(*names: str) -> str:
        return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()[:12]

    return {"source": of(f"src/flintmq/{module}.py"), "tests": of(*tests_of(module))}


def run(module: str, dead: set[str]) -> dict[str, Any]:
    """Try a module's mutants, but for those that are known to be dead; what came of them. Goes on where it stopped."""
    file, of = mutated(module), fingerprint(module)
    WORK.mkdir(parents=True, exist_ok=True)
    report = WORK / f"{module.replace('/', '.')}-{of['source']}-{of['tests']}.json"
    if not report.exists():
        report.write_text(json.dumps(dict.fromkeys(sorted(dead), "died before")), encoding="utf-8")
    outcome: dict[str, str] = {}
    while left := len(set(file.mutant_names) - set(outcome)):
        done = subprocess.run(
            [sys.executable, "-m", "labs.mutants.forked", module, str(report), *tests_of(module)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(),
        )  # fmt: skip
        outcome = json.loads(report.read_text(encoding="utf-8"))
        if done.returncode == BASELINE_FAILED or len(set(file.mutant_names) - set(outcome)) == left:
            said = done.stdout.decode(errors="replace")
            raise SystemExit(f"{module}: not all mutants were tried:\n{said[:2000]}\n...\n{said[-2000:]}")
    alive = [name for name in file.mutant_names if outcome[name] in ("alive", "no test")]
    return of | {"mutants": len(file.mutant_names), "survivors": diffs(file, alive)}


def environment() -> dict[str, str]:
    """Processes that a test starts take this tree's sources, and compiled kernels."""
    kept = {name: value for name, value in os.environ.items() if name != "FLINTMQ_PURE"}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def diffs(file: MutatedFile, names: list[str]) -> list[dict[str, str]]:
    """What each of these mutants changes: function, the lines before and after."""
    lines = file.code.splitlines()

    def text(name: str) -> list[str]:
        span = file.line_span_by_function_name[name]
        return [line.replace(name, "") for line in lines[span.start - 1 : span.end]]

    found = []
    for name in names:
        stem = name.partition("__mutmut_")[0]
        changes = list(difflib.unified_diff(text(f"{stem}__mutmut_orig"), text(name), n=0, lineterm=""))[2:]
        old = " ".join(line[1:].strip() for line in changes if line[0] == "-")
        new = " ".join(line[1:].strip() for line in changes if line[0] == "+")
        short = stem.removeprefix("x_") if stem.startswith("x_") else stem.removeprefix("xǁ").replace("ǁ", ".")
        found.append({"name": name, "function": short, "old": old, "new": new})
    return found


def load() -> dict[str, dict[str, Any]]:
    """The kept figures: module -> hashes, sums, survivors."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def keep(module: str, result: dict[str, Any], one: Score) -> None:
    """Write a module's figures down."""
    sums = {"killed": one.killed, "equivalent": one.equivalent, "alive": len(one.alive)}
    every = load() | {module: result | sums}
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    ordered = {name: every[name] for name in modules() if name in every}
    KEPT.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Score:
    """Of one module: mutants, those that live and are not equivalent, those that are."""

    mutants: int
    alive: list[dict[str, str]]
    equivalent: int

    @property
    def killed(self) -> int:
        """Those that some test killed."""
        return self.mutants - len(self.alive) - self.equivalent

    @property
    def percent(self) -> float:
        """Killed, of those that are not equivalent."""
        real = self.mutants - self.equivalent
        return 100.0 * self.killed / real if real else 100.0


def score(module: str, result: dict[str, Any], given: list[Equivalent]) -> Score:
    """Judge a module's result."""
    survivors = result["survivors"]
    alive = [one for one in survivors if not any(e.is_this(module, one) for e in given)]
    return Score(result["mutants"], alive, len(survivors) - len(alive))


def series(scores: dict[str, Score], untried: list[str]) -> figures.Series:
    """What was counted, a row for each module; which have survivors, and which have no figure."""
    rows = [
        [module, part_of(module), one.mutants, one.killed, one.equivalent, len(one.alive), round(one.percent, 1)]
        for module, one in scores.items()
    ]
    lives = [f"`{module}`" for module, one in scores.items() if one.alive]
    notes = [f"Some are alive in {', '.join(lives)}."] if lives else []
    if untried:
        names = ", ".join(f"`{module}`" for module in untried)
        notes.append(f"Not in the sums, as they changed since they were tried: {names}.")
    columns = ["module", "part", "mutants", "killed", "equivalent", "alive", "score"]
    return figures.Series(columns, rows, [report.commit()], note=" ".join(notes))


def main(words: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m labs.mutants.scores", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="only these, as format/record")
    parser.add_argument("--survivors", action="store_true", help="print what lives; try nothing")
    parser.add_argument(
        "--write", action="store_true", help="put the sums into docs/internals/reliability.md; try nothing"
    )
    parser.add_argument("--again", action="store_true", help="tests were only added: try only survivors again")
    given = parser.parse_args(words)
    if unknown := set(given.modules) - set(modules()):
        parser.error(f"no module {', '.join(sorted(unknown))}; there are {', '.join(modules())}")
    equal, kept, scores = equivalents(), load(), {}
    untried: list[str] = []
    for module in given.modules or modules():
        result, now = kept.get(module), fingerprint(module)
        if result is not None and result["source"] != now["source"]:
            result = None
        if not given.survivors and not given.write and (result is None or result["tests"] != now["tests"]):
            dead: set[str] = set()
            if given.again and result is not None:
                lived = {one["name"] for one in result["survivors"]}
                dead = set(mutated(module).mutant_names) - lived
            result = run(module, dead)
        if result is None:
            untried.append(module)
            continue
        one = scores[module] = score(module, result, equal)
        keep(module, result, one)
        print(f"{module:32} {one.mutants:5} mutants {len(one.alive):4} alive {one.percent:6.1f} %", flush=True)
        for lives in one.alive if given.survivors else ():
            print(f"    {lives['function']}\n      - {lives['old']}\n      + {lives['new']}")
    if given.write:
        figures.record(PAGE, "mutmut", series(scores, untried))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
