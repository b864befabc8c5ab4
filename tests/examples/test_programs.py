"""Each program of examples/ prints what its docstring says, twice where it may be run again."""

import ast
import re
import shlex
import textwrap
from pathlib import Path

import pytest

from tests.harness.one_java import OneJava
from tests.harness.pages import ROOT, Command, commands, run, same

PROGRAMS = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def shown(path: Path) -> list[Command]:
    """The commands of a program's docstring, with the output that it promises."""
    head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    block = re.search(r"^(?: {4}.*\n)+", head, re.MULTILINE)
    assert block is not None, f"{path.name}: no indented block in the docstring"
    return list(commands(textwrap.dedent(block[0])))


def words_of(command: Command, program: str) -> list[str]:
    """What follows the program's name in a command."""
    python, file, *words = shlex.split(command.code.removesuffix(" 2>/dev/null"))
    assert (python, file) == ("python", f"examples/{program}.py")
    return words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory that looks like the root of a clone, as far as the programs' commands can see."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    return tmp_path


def test_there_are_three_and_the_readme_names_them():
    assert set(PROGRAMS) == {"put_and_get", "log_to_parquet", "spark_stream"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in PROGRAMS if f"(examples/{name}.py)" not in text] == []


@pytest.mark.parametrize("name", ["put_and_get", "log_to_parquet"])
def test_it_prints_what_its_docstring_says(name: str, folder: Path):
    if name == "log_to_parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for command in shown(PROGRAMS[name]):
        found = run(["bash", "-c", command.code], folder).stdout
        assert same(command.output, found), f"{command.code}\nprints:\n{found}"


def test_put_and_get_goes_on_with_the_store_it_made(folder: Path):
    [command] = shown(PROGRAMS["put_and_get"])
    run(["bash", "-c", command.code], folder)
    again = run(["bash", "-c", command.code], folder).stdout.splitlines()
    assert again[0] == "stored order-1 as Orders/0/2"
    assert again[-2:] == ["billed 3 orders, 0 left", "a reader sees 6 messages in 2 queues"]


@pytest.mark.turn(2, of=["examples/"])
@pytest.mark.spark
@pytest.mark.slow
def test_spark_stream_prints_what_its_docstring_says_and_counts_on(one_java: OneJava):
    [command] = shown(PROGRAMS["spark_stream"])
    one_java.empty()
    words = [str(PROGRAMS["spark_stream"]), *words_of(command, "spark_stream")]
    program = f"import runpy, sys; sys.argv = {words!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = one_java.program(program)
    assert done.code == 0, done.err[-2000:]
    assert same(command.output, done.out), done.out
    done = one_java.program(program)
    assert done.code == 0, done.err[-2000:]
    assert done.out.splitlines()[-1] == "1000 rows, 1000 different orders"
