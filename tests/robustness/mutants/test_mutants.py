"""The mutants themselves: complete, applicable, aimed at tests that exist; and their runner tells dead from alive."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labs.mutants.__main__ import ROOT, changed_since, main, report
from labs.mutants.patches import Mutant, PatchError, all_mutants, parse

MUTANTS = all_mutants()
HEAD = "Breaks: x\nKiller: tests/a.py::test_a\n"
DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


def test_there_are_the_32_of_the_programme():
    assert [m.number for m in MUTANTS[:32]] == list(range(1, 33))
    assert len({m.name for m in MUTANTS}) == len({m.number for m in MUTANTS}) == len(MUTANTS)


def test_the_pages_tell_how_many_there_are():
    for page, words in [
        ("docs/reliability.md", "| known faults put into the sources on purpose | {} |"),
        ("docs/internals/reliability.md", "`tests/robustness/mutants/*.patch` are {} faults"),
    ]:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert words.format(len(MUTANTS)) in text, f"{page}: say {len(MUTANTS)}, and when they were run"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.number:02d}-{m.name}")
def test_it_applies_and_its_killers_exist(mutant: Mutant):
    for path, text in mutant.changed(ROOT).items():
        assert text != path.read_text(encoding="utf-8")
        compile(text, str(path), "exec")
        assert ("kernels" in path.parts) == mutant.uncompiled, "a compiled kernel would not see it"
    for killer in mutant.killers:
        file, _, name = killer.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name.partition("[")[0] in functions, killer


def test_pytest_knows_each_killer_by_its_whole_name():
    """A killer whose parameters got other names would run no test, and kill nothing."""
    killers = sorted({killer for mutant in MUTANTS for killer in mutant.killers})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *killers]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0, listed.stdout[-500:] + listed.stderr[-500:]
    assert set(killers) <= set(listed.stdout.splitlines())


def test_a_patch_that_the_sources_have_outgrown_says_so(tmp_path: Path):
    patch = tmp_path / "07-seven.patch"
    patch.write_text(HEAD + DIFF)
    mutant = parse(patch)
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "a.py"
    for text in ("", "one\ntow\n", "one\ntwo\none\ntwo\n"):
        source.write_text(text)
        with pytest.raises(PatchError, match="mutant 7: its lines stand [02] times in src/a.py"):
            mutant.changed(tmp_path)
    source.write_text("zero\none\ntwo\n")
    assert mutant.changed(tmp_path) == {source: "zero\none\nthree\n"}
    assert mutant.files == {"src/a.py", "tests/a.py", "tests/robustness/mutants/07-seven.patch"}


@pytest.mark.parametrize(
    "text", [DIFF, "Breaks: x\n" + DIFF, HEAD, "Bricks: x\n" + HEAD + DIFF], ids=["head", "killer", "diff", "unknown"]
)
def test_a_patch_that_is_badly_written_is_refused(tmp_path: Path, text: str):
    patch = tmp_path / "07-seven.patch"
    patch.write_text(text)
    with pytest.raises(PatchError):
        parse(patch)


def test_the_head_is_read(tmp_path: Path):
    patch = tmp_path / "07-seven.patch"
    patch.write_text("Breaks: one\n  two\nKiller: a::b\nKiller: c::d\nKernels: uncompiled\nDies by: E F\n" + DIFF)
    found = parse(patch)
    assert (found.number, found.name, found.breaks, found.killers) == (7, "seven", "one two", ("a::b", "c::d"))
    assert (found.uncompiled, found.dies_by) == (True, {"E", "F"})


def fake(number: int, old: str, new: str, killer: str) -> Mutant:
    return Mutant(number, "fake", "x", (killer,), False, frozenset(), (("src/flintmq/errors.py", old, new),))


def test_the_measure_tells_dead_from_alive_and_from_wrong(capsys: pytest.CaptureFixture[str]):
    text = (ROOT / "tests" / "test_errors.py").read_text(encoding="utf-8")
    killer = "tests/test_errors.py::" + re.findall(r"^def (test_\w+)\(\)", text, re.MULTILINE)[0]
    line = "from __future__ import annotations\n"
    harmless = fake(1, line, line + "# nothing\n", killer)
    broken = fake(2, line, line + "raise ImportError\n", killer)
    assert report([harmless, broken]) == 1
    one, two, end = capsys.readouterr().out.splitlines()
    assert "NOT KILLED" in one and "ALIVE" in one
    assert "NOT KILLED" in two and "did not run" in two, "a test that cannot be imported kills nothing"
    assert end == "0 of 2 mutants killed"


def test_one_is_killed(capsys: pytest.CaptureFixture[str]):
    assert main(["28"]) == 0
    assert "killed by 1" in capsys.readouterr().out


def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["7", "999"])
    assert ended.value.code == 2 and f"no mutant 999; there are {len(MUTANTS)}" in capsys.readouterr().err


def test_what_changed_is_asked_of_git(capsys: pytest.CaptureFixture[str]):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    with pytest.raises(PatchError, match="give --changed a commit that git knows"):
        changed_since("no-such-commit")
    assert main(["--changed", "no-such-commit"]) == 2
    capsys.readouterr()
