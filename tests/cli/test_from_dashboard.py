"""Each command that docs/guide/from-dashboard.md names is one that the parser takes; test_docs.py runs its examples."""

import re
import shlex
from pathlib import Path

import pytest

from flintmq.cli import parser

PAGE = (Path(__file__).resolve().parents[2] / "docs/guide/from-dashboard.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
NAMED = sorted(set(re.findall(r"`flintmq ([^`]+)`", "\n".join(ROWS))))
VALUES = {"QUEUE": "0", "OFFSET": "0"}


def test_each_row_has_two_cells_and_many_name_a_command() -> None:
    assert {len(row.strip("| ").split(" | ")) for row in ROWS} == {2} and len(ROWS) > 12 and len(NAMED) > 10


@pytest.mark.parametrize("line", NAMED)
def test_a_command_of_the_table_is_parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(parser, "need", lambda *_: None)
    monkeypatch.setattr(parser, "call", lambda command, values: called.append(values) or 0)
    assert parser.run([VALUES.get(word, word) for word in shlex.split(line)]) == 0
    assert len(called) == 1
