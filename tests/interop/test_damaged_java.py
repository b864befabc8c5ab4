"""The short form of tests/interop/damaged.py. The long one's figures stand in docs/reliability.md."""

from __future__ import annotations

import pytest

from tests.interop.damaged import run
from tests.interop.java import VERSIONS, Java, home
from tests.store.crashed import small_and_quick

pytestmark = pytest.mark.slow


def test_t18_damaged_stores_are_recovered_alike_or_differ_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    built, why = home(VERSIONS[0])
    if built is None:
        pytest.skip(f"RocketMQ {VERSIONS[0]}: {why}")
    small_and_quick(monkeypatch.setattr)
    found, wrong = run(Java(VERSIONS[0], built), 0, 10)
    assert wrong == [] and found["same"] and found["refused"], (found, wrong)
