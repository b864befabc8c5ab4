"""Files of equal units: every place once, whatever is asked for."""

import random
import struct
from pathlib import Path

from flintmq.forensics.explain.unit_table import MOST_RUNS
from tests.support.looks import look

UNIT = struct.pack(">qiq", 1 << 40, 100, 0)


def test_any_pattern_any_limit_any_place(tmp_path: Path) -> None:
    chance = random.Random(1)
    path = tmp_path / "file"
    for _ in range(60):
        units = [chance.choice([bytes(20), UNIT, UNIT]) for _ in range(chance.randrange(1, 60))]
        data = b"".join(units) + bytes(chance.randrange(20))
        path.write_bytes(data)
        limit = chance.choice([0, 1, 5, 100])
        seen = look(path, kind="consumequeue", limit=limit)
        assert len(seen.named("unit")) == min(limit, sum(unit == UNIT for unit in units))
        number = chance.randrange(len(units))
        focus = look(path, number * 20 + chance.randrange(20), kind="consumequeue", limit=limit)
        told = [line for line in focus.lines if line.unit == f"unit {number}"]
        assert sum(line.length for line in told) == 20 and told[0].offset == number * 20


def test_runs_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes((bytes(20) + UNIT) * 3000)
    seen = look(path, kind="consumequeue", limit=0)
    assert len(seen.lines) == MOST_RUNS + 1
    assert seen.found["holds"] == "3000 zeros, 3000 units"
