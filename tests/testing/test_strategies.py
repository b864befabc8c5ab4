"""The strategies give what the functions they are for take."""

import inspect
from typing import Any

from hypothesis import given

from flintmq.testing import strategies, write_store
from flintmq.testing.damage import KINDS, random_damage
from flintmq.testing.rows import Rows


@given(strategies.messages())
def test_messages_are_rows(message: dict[str, Any]) -> None:
    rows = Rows()
    assert rows.add(**message) == 0
    assert rows.size(0) >= 91 + len(message["topic"]) + len(message["body"])


@given(strategies.stores(), strategies.damages())
def test_arguments_have_the_right_names(store: dict[str, Any], damage: dict[str, Any]) -> None:
    inspect.signature(write_store).bind("path", **store)
    inspect.signature(random_damage).bind("path", **damage)
    assert set(damage["kinds"]) <= set(KINDS)
