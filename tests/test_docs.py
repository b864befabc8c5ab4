"""The examples of README.md and docs/ are run, and must print what the pages say: `tests/pages.py` tells the rules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import pages
from tests.pages import Example, same


def parameters() -> list:
    """pytest's parameters: the examples of each page in its order, named by page and line."""
    found = []
    for example in (example for page in pages.pages() for example in pages.examples(page)):
        spark = example.kind == "python" and re.search(r"pyspark|flintmq\.spark", example.code)
        found.append(pytest.param(example, id=example.where, marks=[pytest.mark.spark] if spark else []))
    return found


@pytest.fixture(scope="module")
def folder_of() -> Iterator[Callable[[Example], Path]]:
    """Gives the directory of an example's page, with private copies of the golden stores that the page names."""
    folders: dict[str, Path] = {}
    with ExitStack() as stack:

        def folder_of(example: Example) -> Path:
            page = example.where.partition(":")[0]
            if page not in folders:
                folders[page] = stack.enter_context(pages.folder_of(pages.ROOT / page))
            return folders[page]

        yield folder_of


def check(example: Example, folder: Path) -> None:
    """Run a block, and compare."""
    for command, found in pages.run_example(example, folder):
        if example.kind == "console" or example.output is not None:
            assert same(command.output, found), (
                f"{example.where}: {command.code}\nprints:\n{found}\nif that is right: "
                f"python -m tests.pages --write {example.where.partition(':')[0]}"
            )


def test_the_readme_has_examples():
    kinds = [example.kind for example in pages.examples(pages.ROOT / "README.md")]
    assert kinds.count("console") >= 3 and kinds.count("python") >= 3


@pytest.mark.parametrize("example", parameters())
def test_example(example: Example, folder_of: Callable[[Example], Path]):
    if example.kind == "console" and shutil.which("bash") is None:
        pytest.skip("the console examples are written for bash")
    if reason := pages.lacks(example):
        pytest.skip(reason)
    check(example, folder_of(example))
