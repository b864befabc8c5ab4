"""The examples of README.md and docs/ are run, and must print what the pages say.

In the pages:
- a block marked `console` holds commands after `$ ` with their output. They run in bash, one after the other, in a
  directory of the page that holds golden stores under their names (`basic/`, `rolled/`, ...). Output is compared line
  by line; `...` stands for any text in a line, and alone on a line for any lines.
- a block marked `python` runs there as a program; a block marked `text` right behind it is its output.
- a program that names pyspark or flintmq.spark runs too, marked `spark`.
- blocks of any other kind, and indented ones, are not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.stores import GOLDEN_NAMES

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
SECONDS = 120


class Example(NamedTuple):
    """One block of a page."""

    where: str
    kind: str
    code: str
    output: str | None


def examples() -> Iterator[Example]:
    """Every block that is to be run, in the order of the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            kind, code, output = match.groups()
            yield Example(f"{page.relative_to(ROOT)}:{line}", kind, code, output if kind == "python" else None)


def parameters(kind: str) -> list:
    """pytest's parameters: the examples of one kind, named by page and line."""
    found = []
    for example in examples():
        if example.kind == kind:
            spark = kind == "python" and re.search(r"pyspark|flintmq\.spark", example.code)
            found.append(pytest.param(example, id=example.where, marks=[pytest.mark.spark] if spark else []))
    return found


@pytest.fixture(scope="module")
def folder_of(golden, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Example], Path]:
    """Gives the directory of an example's page, with private copies of the golden stores that the page names."""
    folders: dict[str, Path] = {}

    def folder_of(example: Example) -> Path:
        page = example.where.partition(":")[0]
        if page not in folders:
            folders[page] = tmp_path_factory.mktemp("docs")
            codes = (other.code for other in examples() if other.where.startswith(f"{page}:"))
            for name in set(re.findall(r"[\w-]+", " ".join(codes))) & set(GOLDEN_NAMES):
                golden(name).copy(folders[page])
        return folders[page]

    return folder_of


def run(words: list[str], folder: Path, errors: int = subprocess.STDOUT) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user with a terminal of 100 columns does; its errors among its output unless told."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, timeout=SECONDS, encoding="utf-8"
    )


def same(expected: str, found: str) -> bool:
    """Whether the output is the one of the page; `...` is a wildcard, blanks at line ends do not count."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = ""
    for line in lines:
        pattern += "(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
    clean = "".join(line.rstrip() + "\n" for line in found.strip("\n").splitlines())
    return re.fullmatch(pattern, clean) is not None


def test_comparing():
    assert same("a\nb 1 ms\n", "a  \nb 1 ms\n\n")
    assert same("a\n...\nb ... ms\n", "a\nx\ny\nb 17.2 ms\n")
    assert same("a\n...\nb\n", "a\nb\n")
    assert same("", "\n")
    assert not same("a\nb\n", "a\n")
    assert not same("a\n...\nb\n", "a\nx\n")
    assert not same("a.c\n", "abc\n")


def test_the_readme_has_examples():
    kinds = [example.kind for example in examples() if example.where.startswith("README.md")]
    assert kinds.count("console") >= 3 and kinds.count("python") >= 3


@pytest.mark.skipif(shutil.which("bash") is None, reason="the console examples are written for bash")
@pytest.mark.parametrize("example", parameters("console"))
def test_console(example: Example, folder_of: Callable[[Example], Path]):
    parts = re.split(r"^\$ ", example.code, flags=re.MULTILINE)
    assert parts[0] == "" and len(parts) > 1, f"{example.where}: a console block begins with `$ `"
    for part in parts[1:]:
        command, _, rest = part.partition("\n")
        while command.endswith("\\"):
            more, _, rest = rest.partition("\n")
            command += "\n" + more
        found = run(["bash", "-c", command], folder_of(example)).stdout
        assert same(rest, found), f"{example.where}: {command}\nprints:\n{found}"


@pytest.mark.parametrize("example", parameters("python"))
def test_python(example: Example, folder_of: Callable[[Example], Path]):
    done = run([sys.executable, "-c", example.code], folder_of(example), errors=subprocess.PIPE)
    assert done.returncode == 0, f"{example.where}: {done.stderr[-2000:]}"
    if example.output is not None:
        assert same(example.output, done.stdout), f"{example.where} prints:\n{done.stdout}"
