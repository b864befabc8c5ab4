from typing import Any

import pytest

from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
from tests.harness.turns import one_a_day


@pytest.fixture(params=["whole", "once"])
def make(request: pytest.FixtureRequest) -> Any:
    """An export in one pass, and a stream's."""
    from tests.support import exporting

    return getattr(exporting, request.param)


@pytest.fixture(params=one_a_day(("parquet", "delta", "iceberg"), of=["src/flintmq/lake/"]))
def to(request: pytest.FixtureRequest) -> str:
    return request.param
