"""Running a command inside this process, as the script `flintmq` does."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flintmq.cli import app
from tests.compat.stores import Golden
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory

EXPECTED = Path(__file__).resolve().parent / "expected"


@dataclass
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Result]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """run("scan", path, ...) -> Result. No command may print a traceback or anything that a terminal would obey."""

    def call(*words: object) -> Result:
        code = app.run([str(word) for word in words])
        out, err = (data.decode("utf-8") for data in capsysbinary.readouterr())
        assert "Traceback" not in out + err
        assert "internal error" not in err, err
        odd = {c for c in out + err if not c.isprintable() and c not in "\n\t"}
        assert not odd, odd
        return Result(code, out, err)

    return call


@contextmanager
def process(*words: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, ended by its id."""
    command = [sys.executable, "-m", "flintmq", *map(str, words)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.fixture
def basic(golden: Callable[[str], Golden]) -> Golden:
    """The store that most commands are asked about."""
    return golden("basic")


@pytest.fixture
def expected(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """expected(name, text): the text equals the file of that name, whose paths are written STORE."""

    def compare(name: str, text: str) -> None:
        assert text == (EXPECTED / name).read_text(encoding="utf-8")

    return compare
