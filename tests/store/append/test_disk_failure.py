"""The mark of a store whose disk refused."""

from __future__ import annotations

import pytest

from flintmq.store.append.disk_failure import Poison


def test_poison_keeps_its_first_reason_and_tells_it_once(caplog: pytest.LogCaptureFixture):
    poison = Poison()
    assert not poison
    poison.set("first")
    poison.set("second")
    assert poison and poison.reason == "first"
    assert [r.getMessage()[:6] for r in caplog.records] == ["first;"]
