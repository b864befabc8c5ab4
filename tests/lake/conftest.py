"""Fixtures of the tests of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.exporting import Export


@pytest.fixture(params=["whole", "once"])
def make(request: pytest.FixtureRequest) -> Export:
    """An export in one pass, and a stream's."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from tests.support import exporting

    found: Export = getattr(exporting, request.param)
    return found
