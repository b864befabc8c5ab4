"""The real stores of Apache RocketMQ."""

import pytest

from tests.interop.java import VERSIONS, Java, home


@pytest.fixture(params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Java:
    """The real store, one version after the other."""
    built, why = home(request.param)
    if built is None:
        pytest.skip(f"RocketMQ {request.param}: {why}")
    return Java(request.param, built)
