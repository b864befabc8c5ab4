"""Fixtures for replication: the recorded masters."""

from __future__ import annotations

import pytest

from tests.compat.replication import VERSIONS, GoldenMaster


@pytest.fixture(scope="session", params=VERSIONS)
def master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenMaster:
    """Each recorded master in turn, unpacked once; read it only."""
    return GoldenMaster(request.param, tmp_path_factory.mktemp("ha"))
