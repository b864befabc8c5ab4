"""The command line of the crash explorer."""

from __future__ import annotations

import logging
import sys

import pytest

from labs.sim import crash


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["crash", *words])
    return crash.main()


def test_one_state_by_its_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert run(monkeypatch, "--seed", "0", "--model", "posix", "--cut", "20", "--state", "0") == 0
    assert "0 wrong" in capsys.readouterr().out
    assert not logging.root.manager.disable, "what ran in this process is silent from now on"


def test_nothing_to_do_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemExit):
        run(monkeypatch)
