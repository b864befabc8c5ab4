"""The quarters of the tests: `--quarter lake` runs those that a change of the lake needs (ARCHITECTURE.md, "Layers").

A test is of the quarter of its folder, and of each quarter whose rooms its file names. An example of a page is of the
quarter that the page is about, one of docs/operations/cli.md of the quarter of its command.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from flintmq.cli.names import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "lake": ("lake", "spark", "cli.lake"),
    "live": ("broker", "ha", "metrics", "remoting", "cli.live"),
}
"""The rooms of each quarter; all others are the core."""
QUARTERS = ("core", *ROOMS)
FOLDERS = {
    "docs/guide/history.md": "lake",
    "docs/guide/tutorial.md": "lake",
    "docs/spark/": "lake",
    "tests/cli/lake/": "lake",
    "tests/examples/test_schedulers.py": "lake",
    "tests/lake/": "lake",
    "tests/robustness/test_job_kills.py": "lake",
    "tests/robustness/torture_spark/": "lake",
    "tests/spark/": "lake",
    "docs/guide/broker.md": "live",
    "docs/guide/processes.md": "live",
    "docs/operations/broker.md": "live",
    "docs/operations/follow.md": "live",
    "docs/operations/metrics.md": "live",
    "docs/operations/runbooks/follower-refused.md": "live",
    "docs/operations/runbooks/read-a-backup.md": "live",
    "tests/broker/": "live",
    "tests/cli/live/": "live",
    "tests/deploy/test_dashboards.py": "live",
    "tests/deploy/test_units.py": "live",
    "tests/ha/": "live",
    "tests/metrics/": "live",
    "tests/remoting/": "live",
    "tests/robustness/broker/": "live",
    "tests/robustness/replication/": "live",
    "tests/robustness/three_brokers/": "live",
}
"""Begin of a path -> the quarter of the tests or of the page there; all others are of the core."""
_ROOM = {room: quarter for quarter, rooms in ROOMS.items() for room in rooms}
_NAMED = re.compile(rf"\bflintmq\.({'|'.join(map(re.escape, _ROOM))})\b")


def quarter_of(module: str) -> str:
    """The quarter of a module of the package."""
    found = _NAMED.match(module)
    return _ROOM[found[1]] if found else "core"


def quarters_of(test: str) -> set[str]:
    """The quarters of a test, by its id."""
    file, _, name = test.partition("::")
    about = name.partition("[")[2]
    if file == "tests/test_docs.py" and about:
        return {_of_path(about)}
    if about.startswith("flintmq "):
        module = next((row[0] for name, row in COMMANDS.items() if about.startswith(f"flintmq {name} ")), "app")
        return {quarter_of(f"flintmq.cli.{module}")}
    return {_of_path(file), *_named_in(file)}


def _of_path(path: str) -> str:
    return next((quarter for begin, quarter in FOLDERS.items() if path.startswith(begin)), "core")


@cache
def _named_in(file: str) -> frozenset[str]:
    return frozenset(_ROOM[room] for room in _NAMED.findall((ROOT / file).read_text(encoding="utf-8")))


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--quarter", choices=QUARTERS, help="only the tests of this quarter")


def take(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other quarters; pytest counts them as deselected."""
    quarter = config.getoption("--quarter")
    if quarter is not None:
        others = [item for item in items if quarter not in quarters_of(item.nodeid)]
        items[:] = [item for item in items if quarter in quarters_of(item.nodeid)]
        config.hook.pytest_deselected(items=others)
