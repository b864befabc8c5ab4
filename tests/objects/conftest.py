"""Servers of every kind: moto's, which is always there, and the real ones that `make object-servers` builds."""

from collections.abc import Iterator

import pytest

from flintmq.objects.bucket import Bucket
from tests.support import object_server
from tests.support.object_servers import BUCKET, SERVERS, RealServer, lacks, serving


@pytest.fixture(scope="module", params=["moto", *SERVERS])
def server(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    """A server with an empty bucket, of each kind in turn."""
    if request.param == "moto":
        for package in ("pyarrow", "moto", "flask"):
            pytest.importorskip(package, reason=f"{package} is not installed")
        with object_server.running() as moto:
            yield RealServer(f"s3://{BUCKET}", {"s3.endpoint": moto.endpoint}, object_server.KEYS)
        return
    if reason := lacks(request.param):
        pytest.skip(reason)
    with serving(request.param) as real:
        yield real


@pytest.fixture
def bucket(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Its bucket, with the credentials in the environment."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.bucket()
