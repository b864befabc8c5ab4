"""A store that is being written."""

import pytest

from tests.spark.stream.drive import Writer


@pytest.fixture
def writer(tmp_path):
    made = Writer(tmp_path / "store")
    yield made
    made.store.close()
