"""What RocketMQ's filters make of conditions in SQL92: the answers in tests/compat/sql92.json are written by this.

    python -m labs.sql_filters        # asks three versions, which must agree; some seconds

The table has messages, by their properties, and conditions, each with a letter for each message: T true, F false,
N unknown, ! the evaluation fails; null if the condition is refused. A new condition is written into it without answers.
"""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop.java import VERSIONS, Java, home

FILE = Path(__file__).resolve().parents[1] / "tests" / "compat" / "sql92.json"
LETTERS = {True: "T", False: "F", None: "N", "failed": "!"}


def asked(java: Java, conditions: Sequence[str], messages: Sequence[dict[str, str]]) -> list[str | None]:
    """The letters of each condition; None: it is refused."""
    lines = "".join(json.dumps({"sql": text, "of": messages}) + "\n" for text in conditions)
    with tempfile.TemporaryDirectory() as place:
        words = java.words("filters", Path(place), {}, (), (), Path(place))
        done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(conditions)
    return [None if "refused" in one else "".join(LETTERS[answer] for answer in one["answers"]) for one in found]


def main() -> None:
    table = json.loads(FILE.read_text(encoding="utf-8"))
    messages, conditions = table["messages"], [row[0] for row in table["conditions"]]
    answers = []
    for version in VERSIONS:
        built, why = home(version)
        assert built is not None, why
        answers.append(asked(Java(version, built), conditions, messages))
    assert answers[0] == answers[1] == answers[2], "the versions differ"
    parts = messages, zip(conditions, answers[0], strict=True)
    told, rows = (",\n".join(json.dumps(one, ensure_ascii=False) for one in part) for part in parts)
    FILE.write_text(f'{{"messages": [\n{told}\n],\n"conditions": [\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
