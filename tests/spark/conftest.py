"""One Spark session for all tests: it takes longer to start than most of them to run.

It has the source in the JVM, where the jar was built; with FLINTMQ_JAR=0 the one in Python.
"""

import os
from collections.abc import Iterator

import pytest

from flintmq.spark import session
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A session on this machine with two cores, made as users make one."""
    settings = {
        "spark.sql.shuffle.partitions": 2,
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
        **({"spark.jars": ""} if os.environ.get("FLINTMQ_JAR") == "0" else {}),
    }
    running = session("flintmq tests", "local[2]", **settings)
    yield running
    running.stop()
