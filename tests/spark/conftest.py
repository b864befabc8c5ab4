"""One Spark session for all tests: it takes longer to start than most of them to run."""

from collections.abc import Iterator

import pytest

from flintmq.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A session on this machine with two cores, made as users make one."""
    running = session("flintmq tests", "local[2]", **{"spark.sql.shuffle.partitions": 2, "spark.log.level": "OFF"})
    yield running
    running.stop()
