"""Fixtures for replication: the recorded masters, and a simulated line to them."""

import pytest

from tests.compat.replication import VERSIONS, GoldenMaster
from tests.ha.simulated import SimulatedMaster, SimulatedTime
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
from tests.harness.turns import one_a_day


@pytest.fixture(
    scope="session",
    params=one_a_day(
        VERSIONS,
        of=["src/flintmq/ha/", "src/flintmq/remoting/", "src/flintmq/store/append/raw_log.py", "src/flintmq/cli/live/"],
    ),
)
def master(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GoldenMaster:
    """Each recorded master in turn, unpacked once; read it only."""
    return GoldenMaster(request.param, tmp_path_factory.mktemp("ha"))


@pytest.fixture
def sim(master: GoldenMaster) -> SimulatedMaster:
    """A simulated line to the recorded master."""
    return SimulatedMaster(master.log, master.file_size, SimulatedTime())
