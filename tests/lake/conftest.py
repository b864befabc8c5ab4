"""Fixtures of the tests of the lake."""

from typing import Any

import pytest

from tests.harness.in_memory import tmp_path_factory as tmp_path_factory


@pytest.fixture(params=["whole", "once"])
def make(request: pytest.FixtureRequest) -> Any:
    """An export in one pass, and a stream's."""
    from tests.support import exporting

    return getattr(exporting, request.param)


def formats(*names: str) -> list[Any]:
    """Formats of tables as parameters of a test: one a day, of each test another; all where the lake changed."""
    of = ["src/flintmq/lake/"]
    return [pytest.param(name, marks=pytest.mark.turn(len(names), member=name, of=of)) for name in names]


@pytest.fixture(params=formats("parquet", "delta", "iceberg"))
def to(request: pytest.FixtureRequest) -> str:
    """A format of tables."""
    return request.param
