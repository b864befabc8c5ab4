"""Divides the options of a read of several stores into those of each broker.

Offsets and times of queues are given by broker: `{"broker-a": {"Orders": {"0": 5}}}`. A broker that they do not name is
read from its first message, and to its last. All other options are the same for each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.lake.read.offsets import WORDS, json_object

BY_BROKER = ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
"""Options whose value is a JSON object of brokers."""
ANY_STORE = "/any/store"
"""A path for options that are checked before their stores are found."""
_PATHS = ("path", "paths")
_EXAMPLE = '{"broker-a": {"Orders": {"0": 5}}}'


def options_of_broker(given: Mapping[str, str], broker: str | None, path: str) -> dict[str, str]:
    """Return the options for the store of one broker.

    `broker`: its name; None for any that no option names.
    """
    own = {name: value for name, value in given.items() if name not in (*_PATHS, *BY_BROKER)}
    for option in BY_BROKER:
        if option in given:
            if given[option].lower() in WORDS:
                own[option] = given[option]
            elif broker in (parts := _by_broker(option, given[option])):
                own[option] = json.dumps(parts[broker])
    return {**own, "path": path}


def brokers_named(given: Mapping[str, str]) -> set[str]:
    return {
        broker
        for option in BY_BROKER
        if option in given and given[option].lower() not in WORDS
        for broker in _by_broker(option, given[option])
    }


def texts_by_broker(text: str) -> list[str]:
    """Return the offsets of each broker as JSON; none if the text is of another form."""
    try:
        return [json.dumps(queues) for queues in _by_broker("startingOffsets", text).values()]
    except UsageError:
        return []


def _by_broker(option: str, text: str) -> dict[str, Any]:
    found = json_object(option, text, _EXAMPLE)
    for broker, queues in found.items():
        if not isinstance(queues, dict) or not queues or any(isinstance(one, int) for one in queues.values()):
            raise UsageError(
                f"option {option}: several stores are read, so brokers come first, as in {_EXAMPLE}; "
                f"{short(broker)} has no topics"
            )
    return found
