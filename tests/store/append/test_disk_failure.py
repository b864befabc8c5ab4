"""The mark of a store whose disk refused."""

from __future__ import annotations

import pytest

from flintmq.store.append.disk_failure import DiskFailure


def test_poison_keeps_its_first_reason_and_tells_it_once(caplog: pytest.LogCaptureFixture):
    failure = DiskFailure()
    assert not failure
    failure.set("first")
    failure.set("second")
    assert failure and failure.reason == "first"
    assert [r.getMessage()[:6] for r in caplog.records] == ["first;"]
