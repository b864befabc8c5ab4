"""Do the tests kill the faults that they are there for?

    python -m labs.mutants                 all mutants (make mutants)
    python -m labs.mutants 3 17            these
    python -m labs.mutants --changed main  those whose sources, killers or patches differ from that commit's

Sources, tests and compiled kernels are copied to a temporary folder once. There each patch goes in, its killers run,
and it goes out again. A mutant is dead if every one of its killers fails by an assertion (or by what its patch allows),
while all of them pass without it. The exit code is 1 if one is alive or cannot be judged, 2 for wrong use.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labs.mutants.patches import Mutant, PatchError, all_mutants
from labs.mutants.verdicts import PASSED

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0  # for the killers of one mutant
RIGHT = {"AssertionError", "Failed"}  # the latter is pytest's "DID NOT RAISE"


class Copy:
    """A copy of the tree in which sources may be changed.

    Every file that is written gets a time of its own, so that no bytecode of another version is taken for its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.times = int(time.time())
        waste = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.c")
        for name in ("src", "tests", "labs"):
            shutil.copytree(ROOT / name, folder / name, ignore=waste, symlinks=True)
        shutil.copy2(ROOT / "pyproject.toml", folder)

    def write(self, files: dict[Path, str]) -> None:
        """Change sources."""
        self.times += 10
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
            os.utime(path, (self.times, self.times))

    def run(self, tests: list[str], uncompiled: bool, limit_s: float) -> dict[str, str]:
        """How each of these tests ends: "passed", or the exception's name, or what else happened.

        Raises:
            subprocess.TimeoutExpired: they did not end in time.
        """
        told = self.folder / "verdicts.json"
        told.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "FLINTMQ_PURE"}
        environment |= {"PYTHONPATH": str(self.folder / "src"), "FLINTMQ_VERDICTS": str(told)}
        environment |= {"FLINTMQ_PURE": "1"} if uncompiled else {}
        plugins = ["-p", "no:cacheprovider", "-p", "labs.mutants.verdicts"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins, *tests],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=limit_s,
        )  # fmt: skip
        found: dict[str, str] = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
        where = found.pop("flintmq", "")
        if found and not where.startswith(str(self.folder.resolve())):
            raise PatchError(f"the tests ran on {where}, not on the copy")
        missing = f"did not run: {(done.stdout + done.stderr)[-300:]!r}"
        return {test: found.get(test, missing) for test in tests}


def changed_since(base: str) -> set[str]:
    """Paths that differ from a commit's; from the commit before if that commit is the one checked out.

    Raises:
        PatchError: git does not know it.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise PatchError(f"git {' '.join(words)}: {done.stderr.strip()}; give --changed a commit that git knows")
        return done.stdout.strip()

    begin = git("merge-base", base, "HEAD")
    if begin == git("rev-parse", "HEAD"):
        begin = git("rev-parse", "HEAD~1")
    return {*git("diff", "--name-only", begin).splitlines(), *git("ls-files", "-o", "--exclude-standard").splitlines()}


def judge(copy: Copy, mutant: Mutant) -> str:
    """Nothing if every killer fails for the right reason, else what happened."""
    patched = mutant.changed(copy.folder)
    before = {path: path.read_text(encoding="utf-8") for path in patched}
    copy.write(patched)
    try:
        found = copy.run(list(mutant.killers), mutant.uncompiled, LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"its killers did not end in {LIMIT_S:g} s"
    finally:
        copy.write(before)
    bad = {test: how for test, how in found.items() if how not in RIGHT | mutant.dies_by}
    return "; ".join(f"{test}: {'ALIVE' if how == PASSED else how}" for test, how in bad.items())


def unpatched(copy: Copy, mutants: list[Mutant]) -> list[str]:
    """Killers that do not pass on the sources as they are."""
    bad = []
    for uncompiled in (False, True):
        tests = sorted({test for m in mutants if m.uncompiled == uncompiled for test in m.killers})
        found = copy.run(tests, uncompiled, 600) if tests else {}
        bad += [f"{test}: {how}" for test, how in found.items() if how != PASSED]
    return bad


def main(words: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m labs.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, metavar="NN", help="only these")
    parser.add_argument("--changed", metavar="BASE", help="only those that differ from this commit")
    given = parser.parse_args(words)
    try:
        mutants = all_mutants()
        if unknown := set(given.numbers) - {m.number for m in mutants}:
            known = f"there are {len(mutants)}, the last is {mutants[-1].number}"
            parser.error(f"no mutant {', '.join(map(str, sorted(unknown)))}; {known}")
        if given.numbers:
            mutants = [m for m in mutants if m.number in given.numbers]
        if given.changed:
            changed = changed_since(given.changed)
            mutants = [m for m in mutants if m.files & changed]
        if not mutants:
            print("mutants: none concerns what changed")
            return 0
        return report(mutants)
    except PatchError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


def report(mutants: list[Mutant]) -> int:
    """Try these and print a table."""
    alive = 0
    with tempfile.TemporaryDirectory(prefix="flintmq-mutants-") as folder:
        copy = Copy(Path(folder))
        for mutant in mutants:
            mutant.changed(copy.folder)  # before anything runs: does it apply?
        if bad := unpatched(copy, mutants):
            print("killers that fail, or do not run, without any mutant:", *bad, sep="\n  ")
            return 1
        for mutant in mutants:
            began = time.monotonic()
            wrong = judge(copy, mutant)
            alive += bool(wrong)
            text = f"NOT KILLED: {wrong}" if wrong else f"killed by {len(mutant.killers)}"
            print(f"{mutant.number:2d}  {mutant.name:32} {time.monotonic() - began:5.1f} s  {text}", flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} mutants killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
