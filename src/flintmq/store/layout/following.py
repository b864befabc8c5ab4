"""The file `flintmq.following` in a store's root: how far a follower is.

JSON of one line. The follower replaces it at most once a second, and every few seconds while nothing happens; never
with a sync, so a power cut may leave it empty. It is for those who watch (`flintmq metrics`): the follower never reads
it, and nothing depends on it. RocketMQ does not know it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final, NamedTuple

from flintmq.errors import FlintError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file

FILE_NAME: Final = "flintmq.following"
BYTES_MAX: Final = 4096
FRESH_MS: Final = 15_000
"""Age from which on a note says nothing of the present: its writer renews it every 5 s."""


class Following(NamedTuple):
    """A follower at one moment. Times are Unix milliseconds, of the follower's clock."""

    at_ms: int
    connected: bool  # a line is open, and the master has sent something on it
    caught_up: bool  # all that the master sent is here, and no more came for a moment
    heard_ms: int = 0  # when the master last sent a byte; 0: never
    complete_ms: int = 0  # when the copy last had all; 0: never
    master_end: int = -1  # log offset where the master's log ended, as the broker last said; -1: it was not asked

    def is_fresh(self, now_ms: int) -> bool:
        """Return whether it still says how things are."""
        return abs(now_ms - self.at_ms) <= FRESH_MS


def write(root: str, now: Following, effects: Effects) -> None:
    """Replace the file. Durability: none."""
    data = json.dumps({"version": 1, **now._asdict()}).encode() + b"\n"
    replace_file(os.path.join(root, FILE_NAME), data, effects, durable=False)


def read(root: str, effects: Effects) -> Following | None:
    """Read the file; None if there is none, or it cannot be understood."""
    with suppress(OSError, FlintError, ValueError, TypeError, KeyError, RecursionError):
        data = effects.read_file(os.path.join(root, FILE_NAME), BYTES_MAX + 1)
        state = None if data is None else json.loads(data)
        if isinstance(state, dict) and state.pop("version", None) == 1:
            found = Following(**{name: state[name] for name in Following._fields})
            flags, numbers = (found.connected, found.caught_up), (found.at_ms, *found[3:])
            if all(type(flag) is bool for flag in flags) and all(
                type(number) is int and -1 <= number < 1 << 63 for number in numbers
            ):
                return found
    return None
