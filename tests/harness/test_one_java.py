"""tests/harness/one_java.py: what runs there, and what comes back. Spark itself runs in the tests of pages."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.one_java import FITS, OneJava


@pytest.fixture
def java(tmp_path: Path) -> Iterator[OneJava]:
    found = OneJava(tmp_path, {"COLUMNS": "100"})
    yield found
    found.close()


def test_commands_and_programs_run_one_after_the_other(java: OneJava, golden) -> None:  # type: ignore[no-untyped-def]
    golden("basic").copy(java.folder)
    done = java.command(["scan", "basic", "--limit", "2", "--format", "{topic}"])
    assert done.code == 0 and len(done.out.splitlines()) == 2 and not done.err
    missing = java.command(["inspect", "nothing"])
    assert missing.code == 2 and not missing.out and missing.err.startswith("flintmq: ")
    assert java.program("import os; seen = os.listdir(); print(seen)") == (0, "['basic']\n", "")
    failed = java.program("print(1); seen")  # names of the program before are gone
    assert (failed.code, failed.out) == (1, "1\n") and "NameError" in failed.err
    assert java.program("import os; os.write(1, b'x'); print(2)").out == "2\n"


def test_a_process_that_dies_is_an_error(java: OneJava) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        java.program("import os; os._exit(3)")


def test_what_fits() -> None:
    for line, errors in (
        ("spark replay a --out b --where \"topic = 'A'\" 2>/dev/null", "/dev/null"),
        ("rebuild a --engine spark 2> job.log", "job.log"),
    ):
        found = FITS.fullmatch(f"flintmq {line}")
        assert found and shlex.split(found[1])[:2] == ["flintmq", line.split()[0]] and found[2] == errors
    for line in ("spark stats a", "spark stats a 2> a/log", "spark stats $HOME 2>/dev/null", "rebuild a 2>/dev/null"):
        assert not FITS.fullmatch(f"flintmq {line}")
