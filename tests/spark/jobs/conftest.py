import pytest

from tests.spark.jobs.calls import tasks_as_calls


@pytest.fixture
def in_process(monkeypatch):
    """Tasks as calls; each is done twice."""
    tasks_as_calls(monkeypatch)
