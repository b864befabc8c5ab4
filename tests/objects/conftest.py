"""Servers of every kind: moto's, which is always there, and the real ones that `make object-servers` builds."""

from collections.abc import Callable

import pytest

from flintmq.objects.bucket import Bucket
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
from tests.support.object_server import BUCKET, KEYS
from tests.support.object_servers import SERVERS, RealServer, lacks


@pytest.fixture(scope="module", params=["moto", *SERVERS])
def server(request: pytest.FixtureRequest, real_server: Callable[[str], RealServer]) -> RealServer:
    """A server with a bucket, of each kind in turn."""
    if request.param == "moto":
        moto = request.getfixturevalue("objects")
        return RealServer(f"s3://{BUCKET}", {"s3.endpoint": moto.endpoint}, KEYS)
    if reason := lacks(request.param):
        pytest.skip(reason)
    return real_server(request.param)


@pytest.fixture
def bucket(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Its bucket, with the credentials in the environment."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.bucket()
