"""Skips fail a run unless their reason is allowed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import skips

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.harness.skips import register

def pytest_configure(config):
    register(config)
"""
TESTS = """
import pytest

def test_one():
    pytest.skip({reason!r})

def test_two():
    pass
"""


def run(folder: Path, test: str, *words: str) -> tuple[int, str]:
    """A run of pytest on this test: its code, and what it printed."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *words]
    done = subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [("lz4 is not installed", 0, []), ("it fails on Mondays", 1, []), ("it fails on Mondays", 1, ["-n", "1"])],
    ids=["allowed", "not-allowed", "workers"],
)
def test_a_reason_that_is_not_in_the_list_fails_the_run(tmp_path: Path, reason: str, code: int, words: list[str]):
    got, said = run(tmp_path, TESTS.format(reason=reason), *words)
    assert got == code, said
    assert ("not in tests/harness/allowed_skips.txt: it fails on Mondays" in said) == bool(code)


def test_a_module_that_is_skipped_counts_too(tmp_path: Path):
    got, said = run(tmp_path, "import pytest\npytest.importorskip('nothing', reason='no luck')\n")
    assert got == 1 and "no luck" in said


def test_the_list_is_one_of_patterns_that_say_something():
    lines = [line for line in skips.LIST.read_text().splitlines() if line and not line.startswith("#")]
    assert len(set(lines)) == len(lines) > 20
    assert all(re.compile(line) and not re.match(line, "") for line in lines)
    assert not skips.allowed("because") and not skips.allowed("")


def test_every_reason_that_stands_in_a_test_is_in_the_list():
    """Those that are written out; the others have their pattern beside them."""
    found = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        found |= set(re.findall(r'(?:importorskip|skipif)\([^\n]*reason="([^"{]+)"', text))
        found |= set(re.findall(r'pytest\.skip\("([^"{]+)"', text))
    found -= {"no luck"}
    assert len(found) > 15 and [reason for reason in sorted(found) if not skips.allowed(reason)] == []
