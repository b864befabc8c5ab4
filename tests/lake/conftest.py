"""Fixtures of the tests of the lake."""

from typing import Any

import pytest


@pytest.fixture(params=["whole", "once"])
def make(request: pytest.FixtureRequest) -> Any:
    """An export in one pass, and a stream's."""
    from tests.support import exporting

    return getattr(exporting, request.param)


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def to(request: pytest.FixtureRequest) -> str:
    """A format of tables."""
    return request.param
