"""Fail a run that skipped a test for a reason that is not in tests/harness/allowed_skips.txt. Registered by
tests/conftest.py."""

import re
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("allowed_skips.txt")


def allowed(reason: str, text: str | None = None) -> bool:
    """Whether the list has this reason."""
    lines = (LIST.read_text() if text is None else text).splitlines()
    return any(re.match(line, reason) for line in lines if line and not line.startswith("#"))


class Skips:
    """Collects the skips of a run; with `-n` it runs where the reports of all workers come together."""

    def __init__(self) -> None:
        self.unknown: dict[str, str] = {}  # reason -> the first test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if not allowed(reason):
                self.unknown.setdefault(reason, report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """An unknown reason is a failure."""
        if self.unknown and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which, and what to do."""
        for reason, test in self.unknown.items():
            terminalreporter.write_line(
                f"FAILED {test}: skipped for a reason that is not in tests/harness/allowed_skips.txt: {reason}; run "
                f"it, or add "
                f"the reason there if it is one of the machine's", red=True,
            )  # fmt: skip


def register(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "flintmq-skips")
