import pytest

from tests.spark.jobs.replay.replaying import tasks_as_calls


@pytest.fixture(autouse=True)
def in_process(request, monkeypatch):
    """Tasks as calls, where a test has no session."""
    if "spark" not in request.fixturenames:
        tasks_as_calls(monkeypatch)
