"""A plugin for pytest: a broker for tests of programs that talk to RocketMQ.

    def test_orders(flintmq_broker):
        run_my_service(namesrv=flintmq_broker.address)
        flintmq_broker.store.put(Message("orders", b"hello", tags="paid"))
        assert [m.body for m in flintmq_broker.wait("bills", 1)] == [b"bill for hello"]

It is installed with the package, and needs no import. Path and configuration are those of the plugin of stores.
`pytest -p no:flintmq_broker` disables it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flintmq.broker.testing.control import BrokerControl


@pytest.fixture
def flintmq_broker(flintmq_path: Path, flintmq_keys: dict[str, object]) -> Iterator[BrokerControl]:
    """Return a running `flintmq.broker.testing.BrokerControl`, stopped after the test.

    It is in this process. Its store is the one at `flintmq_path`, so `flintmq_reader` reads it.
    """
    from flintmq.broker.testing.control import BrokerControl

    with BrokerControl(flintmq_path, flintmq_keys) as broker:
        yield broker
