"""Connections by gRPC for the tests of its calls."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flintmq.broker import Broker
from flintmq.store.services.topics import TopicSettings
from tests.broker.grpc.talk import GrpcTalk
from tests.broker.test_send import stored


@pytest.fixture
def broker(writing: Callable[..., Broker]) -> Broker:
    """A broker with a topic T of two queues, into which anything may be sent."""
    made = writing(config={"enableTopicMessageTypeCheck": "false"})
    stored(made).create_topic("T", TopicSettings(2, 2))
    return made


@pytest.fixture
def talk() -> Iterator[Callable[..., GrpcTalk]]:
    """talk(broker, ...) -> a connection of its own, closed after the test."""
    with ExitStack() as stack:
        yield lambda broker, **more: stack.enter_context(GrpcTalk(broker.address, **more))
