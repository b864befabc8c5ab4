"""Bounded memory and linear time: four times the bytes of a bomb cost about four times the CPU, and little memory.

The bounds are those of docs/internals/hostile-input.md. CPU time is measured in a process of its own (cost.py), so that
other work on the machine does not count. With FLINTMQ_HOSTILE=all the bombs are 1 and 4 MiB.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labs.hostile.cost import COMMANDS
from tests.robustness.hostile.bombs import BOMBS
from tests.robustness.hostile.commands import exit_codes

ROOT = Path(__file__).resolve().parents[3]
SMALL, LARGE = (1024, 4096) if os.environ.get("FLINTMQ_HOSTILE") == "all" else (96, 384)  # KiB
SECONDS_A_MIB = 6.0
SECONDS_FORGIVEN = 0.5  # below this a ratio says nothing
RATIO_MAX = 7.0
FLAT_BYTES = 64 << 20  # of memory, whatever the store is
TIMES_JSON = 48  # bytes of memory for a byte of configuration: small objects are large
TIMES_QUEUES = 24  # for a byte of log in which no two records have one queue

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc"),
]


def memory_allowed(bomb: str, kib: int) -> int:
    times = TIMES_JSON if bomb.startswith("json") else TIMES_QUEUES
    return FLAT_BYTES + times * kib * 1024


@pytest.fixture(scope="module")
def costs() -> dict[tuple[str, str, int], dict[str, float]]:
    """(bomb, command, KiB) -> what it cost."""
    words = [sys.executable, "-m", "labs.hostile.cost", f"{SMALL},{LARGE}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr[-3000:]}"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {(row["bomb"], row["command"], row["kib"]): row for row in rows}


@pytest.mark.turn(3, member="bombs", of=["src/flintmq/format/", "src/flintmq/kernels/"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(bomb: str, costs: dict[tuple[str, str, int], dict[str, float]]) -> None:
    wrong, tried = [], 0
    for command in COMMANDS:
        small, large = costs.get((bomb, command, SMALL)), costs.get((bomb, command, LARGE))
        if small is None or large is None:
            continue  # named in cost.LEFT_OUT
        tried += 1
        if large["status"] not in exit_codes():
            wrong.append(f"{command} exits with {large['status']}: {large['error']}")
        if large["cpu"] > SECONDS_FORGIVEN + SECONDS_A_MIB * LARGE / 1024:
            wrong.append(f"{command} of {LARGE} KiB takes {large['cpu']} s")
        if large["cpu"] > SECONDS_FORGIVEN and large["cpu"] > RATIO_MAX * small["cpu"]:
            wrong.append(f"{command} takes {small['cpu']} s for {SMALL} KiB and {large['cpu']} s for {LARGE}")
        if large["growth"] > memory_allowed(bomb, LARGE):
            wrong.append(f"{command} takes {large['growth'] >> 20} MiB of memory")
    assert tried >= 5
    assert not wrong, f"{bomb}: {wrong}"
