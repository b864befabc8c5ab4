"""A store and a broker that serves it, for the tests of its rooms."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker import Broker
from tests.broker.talk import Line
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory

LOOK_S = 0.02  # between two looks at the store: a test does not wait for a second


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Broker]]:
    """served(root, ...) -> a broker that looks at its store often; it is stopped after the test."""
    monkeypatch.setattr("flintmq.broker.served_view.LOOK_S", LOOK_S)
    monkeypatch.setattr("flintmq.broker.served_view.LOOK_SHARE", 0)
    with ExitStack() as stack:

        def serve(root: Path | str, **given: Any) -> Broker:
            return stack.enter_context(Broker(root, read_only=True, **given))

        yield serve


@pytest.fixture
def line() -> Iterator[Callable[[Broker], Line]]:
    """line(broker) -> a connection of its own, closed after the test."""
    with ExitStack() as stack:
        yield lambda broker: stack.enter_context(Line(broker.address))
