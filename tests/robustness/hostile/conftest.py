"""Tests of hostile bytes make many small stores; none of them has to survive a power cut."""

import pytest

from flintmq.storage.files.filesystem import Effects


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Effects, "sync", lambda self, fd: None)
    monkeypatch.setattr(Effects, "sync_dir", lambda self, path: None)
