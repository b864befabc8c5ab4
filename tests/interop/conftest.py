import pytest

from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
from tests.interop.java import VERSIONS, Java
from tests.interop.running_broker import java_of


@pytest.fixture(params=VERSIONS)
def java(request: pytest.FixtureRequest) -> Java:
    """The real store, one version after the other."""
    return java_of(request.param)
