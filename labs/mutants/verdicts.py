"""A pytest plugin (`-p labs.mutants.verdicts`): how each test ended, as JSON in the file named by
FLINTMQ_VERDICTS."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PASSED = "passed"
told: dict[str, str] = {}  # node id -> "passed", or the name of the exception, or the phase and the name


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the first thing that went wrong."""
    outcome: Any = yield
    report = outcome.get_result()
    name = type(call.excinfo.value).__name__ if call.excinfo is not None else ""
    if report.failed:
        told.setdefault(item.nodeid, name if call.when == "call" else f"{call.when}: {name}")
    elif report.skipped:
        told.setdefault(item.nodeid, f"skipped: {report.longrepr[2] if isinstance(report.longrepr, tuple) else name}")


def pytest_runtest_logfinish(nodeid: str) -> None:
    """It went through."""
    told.setdefault(nodeid, PASSED)


def pytest_sessionfinish() -> None:
    """Write what is known."""
    import flintmq

    told["flintmq"] = str(Path(flintmq.__file__).resolve())
    Path(os.environ["FLINTMQ_VERDICTS"]).write_text(json.dumps(told), encoding="utf-8")
