"""The examples of README.md and docs/ are run, and must print what the pages say: `tests/harness/pages.py` tells the
rules."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import pages
from tests.harness.one_java import OneJava
from tests.harness.pages import Example, same


def parameters() -> list:
    """pytest's parameters: the examples of each page in its order, named by page and line.

    Of the pages that start Spark, but for README.md, some run a day (tests/harness/turns.py), and those that changed,
    or whose part of the sources did: docs/spark/export.md tells of src/flintmq/spark/jobs/export/ and lake/export/.
    """
    found = []
    for page in sorted(pages.pages(), key=lambda page: len(page.parts)):  # the tutorial, the longest: beside short ones
        blocks = list(pages.examples(page))
        name = str(page.relative_to(pages.ROOT))
        of = [name, *(f"src/flintmq/{folder}{page.stem[:6]}" for folder in ("spark/", "spark/jobs/", "lake/"))]
        turn = [pytest.mark.turn(3, member=name, of=of)] if any(map(pages.on_spark, blocks)) else []
        for example in blocks:
            spark = example.kind == "python" and pages.on_spark(example)
            marks = [*([pytest.mark.spark] if spark else []), *(turn if page.name != "README.md" else [])]
            found.append(pytest.param(example, id=example.where, marks=marks))
    return found


@pytest.fixture(scope="module")
def folder_of(one_java: OneJava) -> Iterator[Callable[[Example], Path]]:
    """Gives the directory of an example's page, with private copies of the golden stores that the page names.

    Pages with examples for Spark have the directory of `one_java` in turn, emptied for each.
    """
    folders: dict[str, Path] = {}
    with ExitStack() as stack:

        def folder_of(example: Example) -> Path:
            page = example.where.partition(":")[0]
            if page not in folders:
                path = pages.ROOT / page
                if any(map(pages.on_spark, pages.examples(path))):
                    for earlier in [name for name, folder in folders.items() if folder == one_java.folder]:
                        del folders[earlier]
                    one_java.empty()
                    pages.fill(one_java.folder, path)
                    folders[page] = one_java.folder
                else:
                    folders[page] = stack.enter_context(pages.folder_of(path))
            return folders[page]

        yield folder_of


def check(example: Example, folder: Path, one_java: OneJava) -> None:
    for command, found in pages.run_example(example, folder, java=one_java if folder == one_java.folder else None):
        if example.kind == "console" or example.output is not None:
            assert same(command.output, found), (
                f"{example.where}: {command.code}\nprints:\n{found}\nif that is right: "
                f"python -m tests.harness.pages --write {example.where.partition(':')[0]}"
            )


def test_the_readme_has_examples():
    kinds = [example.kind for example in pages.examples(pages.ROOT / "README.md")]
    assert kinds.count("console") >= 3 and kinds.count("python") >= 3


@pytest.mark.parametrize("example", parameters())
def test_example(example: Example, folder_of: Callable[[Example], Path], one_java: OneJava):
    if example.kind == "console" and shutil.which("bash") is None:
        pytest.skip("the console examples are written for bash")
    if reason := pages.lacks(example):
        pytest.skip(reason)
    check(example, folder_of(example), one_java)
