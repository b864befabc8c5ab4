"""A plugin for pytest: a broker for tests of programs that talk to RocketMQ.

    def test_orders(flintmq_broker):
        run_my_service(namesrv=flintmq_broker.address)
        flintmq_broker.store.put(Message("orders", b"hello", tags="paid"))
        assert [m.body for m in flintmq_broker.wait("bills", 1)] == [b"bill for hello"]

It is installed with the package, and needs no import. Path and configuration are those of the plugin of stores.
`flintmq_broker_session` is one broker for all tests of a run, for services that start slowly; after each test it is
emptied. `pytest -p no:flintmq_broker` disables the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flintmq.broker.testing.control import BrokerControl

SHARED = pytest.StashKey["BrokerControl"]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Empty the broker of the session, if there is one, after the fixtures of a test have ended."""
    broker = item.config.stash.get(SHARED, None)
    if broker is not None:
        broker.reset()


@pytest.fixture(scope="session")
def flintmq_broker_session(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, flintmq_session_keys: dict[str, object]
) -> Iterator[BrokerControl]:
    """Return one running `flintmq.broker.testing.BrokerControl` for all tests.

    After each test it is emptied, by `reset`. Markers of tests do not count, the ini option does.
    """
    from flintmq.broker.testing.control import BrokerControl

    path = tmp_path_factory.mktemp("flintmq_broker") / "store"
    with BrokerControl(path, flintmq_session_keys) as broker:
        pytestconfig.stash[SHARED] = broker
        try:
            yield broker
        finally:
            del pytestconfig.stash[SHARED]


@pytest.fixture
def flintmq_broker(flintmq_path: Path, flintmq_keys: dict[str, object]) -> Iterator[BrokerControl]:
    """Return a running `flintmq.broker.testing.BrokerControl`, stopped after the test.

    It is in this process. Its store is the one at `flintmq_path`, so `flintmq_reader` reads it.
    """
    from flintmq.broker.testing.control import BrokerControl

    with BrokerControl(flintmq_path, flintmq_keys) as broker:
        yield broker
