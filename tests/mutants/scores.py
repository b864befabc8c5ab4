"""mutmut on format, storage and recovery, module by module: how many small faults do a module's own tests kill?

    python -m tests.mutants.scores                        all modules (make mutmut); goes on where it stopped
    python -m tests.mutants.scores format/record          these
    python -m tests.mutants.scores --again                after tests were added: the survivors of what was tried before
    python -m tests.mutants.scores --survivors            what lives, as diffs
    python -m tests.mutants.scores --write                the table into docs/reliability.md

A mutant is tried with the tests of its module alone, those that mirror it, so that one costs about a second. mutmut
runs in build/mutmut, on links to sources and tests, with the settings of pyproject.toml and the module's. Results are
kept there, and are tried again when the module or its tests have changed. Survivors that no test can kill stand in
equivalent.toml, each with its reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutmut"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
PAGE = ROOT / "docs" / "reliability.md"
RECOVERY = (
    "recovery", "recover_store", "load_derived", "small_files", "tail", "queue_list", "keeping", "config_store",
)  # fmt: skip
MORE_TESTS = {
    "store/recover_store": ["tests/store/test_recovery_choices.py", "tests/store/test_recovery_faults.py"],
    "store/load_derived": ["tests/store/test_recovery_choices.py", "tests/store/test_queue_list.py"],
}
MEMORY = 6 << 30  # bytes that a mutant may ask for: some loop and append for ever
KILLED = {1, 3, 24, -24, 36, 152, 255, -9, -11}  # failed, or did not end, or ended its process


def modules() -> list[str]:
    """Every module that is tried, as format/record."""
    found = [
        f"{part}/{path.stem}"
        for part in ("format", "storage")
        for path in sorted((ROOT / "src" / "flintmq" / part).glob("[!_]*.py"))
    ]
    return found + [f"store/{name}" for name in RECOVERY]


def part_of(module: str) -> str:
    """format, storage or recovery."""
    return (
        module.partition("/")[0].replace("store", "recovery") if module.startswith("store/") else module.split("/")[0]
    )


def tests_of(module: str) -> list[str]:
    """The tests that a module's mutants are tried with."""
    part, _, name = module.partition("/")
    return [f"tests/{part}/test_{name}.py", *MORE_TESTS.get(module, [])]


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


def fingerprint(module: str) -> str:
    """Of what a module's result depends on: of its source, then of its tests."""

    def of(*names: str) -> str:
        return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()[:12]

    return f"{of(f'src/flintmq/{module}.py')}-{of(*tests_of(module))}"


def prepare(module: str) -> None:
    """Let build/mutmut be a project of this one module."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "results").mkdir(exist_ok=True)
    for name in ("src", "tests"):
        if not (WORK / name).is_symlink():
            (WORK / name).symlink_to(ROOT / name)
    marker, wanted = WORK / "module", f"{module} {fingerprint(module)}"
    if not marker.exists() or marker.read_text() != wanted:
        shutil.rmtree(WORK / "mutants", ignore_errors=True)
        marker.write_text(wanted)
    more = f'only_mutate = ["src/flintmq/{module}.py"]\n'
    more += f"pytest_add_cli_args_test_selection = {json.dumps(tests_of(module))}"
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (WORK / "pyproject.toml").write_text(text.replace("[tool.mutmut]", f"[tool.mutmut]\n{more}", 1), encoding="utf-8")


def run(module: str, children: int, names: list[str] | None = None) -> dict[str, object]:
    """Try a module's mutants, or only those of these names, the others being dead; what came of them."""
    prepare(module)
    of = fingerprint(module)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(children), *(names or ())],
        cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)), env=environment(),
    )  # fmt: skip
    meta = WORK / "mutants" / "src" / "flintmq" / f"{module}.py.meta"
    codes = json.loads(meta.read_text())["exit_code_by_key"] if meta.exists() else {}
    tried = {name: code for name, code in codes.items() if names is None or name in names}
    if done.returncode != 0 or None in tried.values():
        raise SystemExit(f"{module}: mutmut did not get to its end:\n{done.stdout.decode(errors='replace')[-2000:]}")
    alive = [name for name, code in tried.items() if code not in KILLED]
    return keep(module, {"fingerprint": of, "mutants": len(codes), "alive": diffs(module, alive)})


def keep(module: str, result: dict[str, object]) -> dict[str, object]:
    """Write a result down."""
    (WORK / "results" / f"{module.replace('/', '.')}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def run_again(module: str, children: int, result: dict[str, object]) -> dict[str, object]:
    """A result whose tests have changed since: only its survivors are tried again."""
    assert isinstance(result["alive"], list)
    names = [one["name"] for one in result["alive"]]
    return run(module, children, names) if names else keep(module, result | {"fingerprint": fingerprint(module)})


def environment() -> dict[str, str]:
    """Nothing that leads to other sources than the mutated ones."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FLINTMQ_PURE")}


def diffs(module: str, names: list[str]) -> list[dict[str, str]]:
    """What each of these mutants changes: function, the lines before and after."""
    if not names:
        return []
    code = (
        "import sys\nfrom pathlib import Path\nfrom mutmut.mutation.diff_apply import get_diff_for_mutant\n"
        "for name in sys.argv[2:]: print('%%', name); print(get_diff_for_mutant(name, path=Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, f"src/flintmq/{module}.py", *names], cwd=WORK, capture_output=True, text=True,
        env=environment(),
    )  # fmt: skip
    found = []
    for block in done.stdout.split("%% ")[1:]:
        name, *lines = block.splitlines()
        old = " ".join(line[1:].strip() for line in lines if re.match(r"-(?!--)", line))
        new = " ".join(line[1:].strip() for line in lines if re.match(r"\+(?!\+\+)", line))
        short = name.rpartition(".")[2].partition("__mutmut")[0]
        short = short.removeprefix("x_") if short.startswith("x_") else short.removeprefix("xǁ").replace("ǁ", ".")
        found.append({"name": name, "function": short, "old": old, "new": new})
    assert len(found) == len(names), done.stderr
    return found


def known(module: str) -> tuple[dict[str, object] | None, bool]:
    """A module's result if it is of this source, and whether it is of these tests too."""
    path = WORK / "results" / f"{module.replace('/', '.')}.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"fingerprint": "-"}
    now = fingerprint(module)
    same = result["fingerprint"].partition("-")[0] == now.partition("-")[0]
    return (result, result["fingerprint"] == now) if same else (None, False)


@dataclass(frozen=True)
class Score:
    """Of one module: mutants, those that live and are not equivalent, those that are."""

    mutants: int
    alive: list[dict[str, str]]
    equivalent: int

    @property
    def percent(self) -> float:
        """Killed, of those that are not equivalent."""
        real = self.mutants - self.equivalent
        return 100.0 * (real - len(self.alive)) / real if real else 100.0


def score(module: str, result: dict[str, object], given: list[Equivalent]) -> Score:
    """Judge a module's result."""
    survivors = result["alive"]
    assert isinstance(survivors, list) and isinstance(result["mutants"], int)
    alive = [one for one in survivors if not any(e.is_this(module, one) for e in given)]
    return Score(result["mutants"], alive, len(survivors) - len(alive))


def table(scores: dict[str, Score]) -> str:
    """For docs/reliability.md."""
    lines = ["| module | mutants | killed | equivalent | alive | score |", "|---|---|---|---|---|---|"]
    parts: dict[str, list[Score]] = {}
    for module, one in scores.items():
        parts.setdefault(part_of(module), []).append(one)
        lines.append(_row(f"`{module}`", one))
    for part, ones in parts.items():
        alive = [one for s in ones for one in s.alive]
        total = Score(sum(s.mutants for s in ones), alive, sum(s.equivalent for s in ones))
        lines.append(_row(f"**{part}**", total))
    return "\n".join(lines) + "\n"


def _row(name: str, one: Score) -> str:
    killed = one.mutants - len(one.alive) - one.equivalent
    return f"| {name} | {one.mutants} | {killed} | {one.equivalent} | {len(one.alive)} | {one.percent:.1f} % |"


def put_between(name: str, text: str) -> None:
    """Write between the marks of this name in docs/reliability.md."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    page = PAGE.read_text(encoding="utf-8")
    assert begin in page and end in page, f"{PAGE} lacks {begin!r} or {end!r}"
    before, after = page.partition(begin)[0], page.partition(end)[2]
    PAGE.write_text(before + begin + text + end + after, encoding="utf-8")


def main(words: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m tests.mutants.scores", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="only these, as format/record")
    parser.add_argument("--survivors", action="store_true", help="print what lives; try nothing")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md; try nothing")
    parser.add_argument("--again", action="store_true", help="tests were only added: try only survivors again")
    parser.add_argument("--children", type=int, default=2, help="mutants that are tried at once")
    given = parser.parse_args(words)
    if unknown := set(given.modules) - set(modules()):
        parser.error(f"no module {', '.join(sorted(unknown))}; there are {', '.join(modules())}")
    kept, scores = equivalents(), {}
    for module in given.modules or modules():
        result, current = known(module)
        only_tell = given.survivors or given.write
        if result is not None and not current and given.again and not only_tell:
            result, current = run_again(module, given.children, result), True
        if not current and not only_tell:
            result, current = run(module, given.children), True
        if result is None or not current:
            continue
        one = scores[module] = score(module, result, kept)
        print(f"{module:32} {one.mutants:5} mutants {len(one.alive):4} alive {one.percent:6.1f} %", flush=True)
        for lives in one.alive if given.survivors else ():
            print(f"    {lives['function']}\n      - {lives['old']}\n      + {lives['new']}")
    if given.write:
        put_between("mutmut", table(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
