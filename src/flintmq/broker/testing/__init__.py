"""A broker for tests of programs that talk to RocketMQ.

control        a broker that a test starts, stops, kills, disturbs and asks: BrokerControl
clock          the broker's clock, which a test moves forward
remote         the same for tests in other languages, by HTTP
chaos          what clients asked, and what they get in place of an answer
pytest_plugin  offers it to pytest: the fixture flintmq_broker
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintmq.broker.testing.chaos import ClientRequest
    from flintmq.broker.testing.control import BrokerControl

__all__ = ["BrokerControl", "ClientRequest"]


def __getattr__(name: str) -> Any:
    """Load the module of a public name on first use, as pytest always imports this."""
    if name not in __all__:
        raise AttributeError(f"module 'flintmq.broker.testing' has no attribute {name!r}")
    from flintmq.broker.testing import control

    return getattr(control, name)
