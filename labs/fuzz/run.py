"""Runs targets on mutated seeds and shrinks what is found."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from flintmq.errors import FlintError
from labs.fuzz.more_targets import TARGETS
from labs.fuzz.mutate import mutate

ERROR_CHARS = 600  # never more than 200 bytes of data in an error, each perhaps escaped
SLOW_SECONDS = 5.0  # an input of at most 20 KB that takes longer is a find


@dataclass
class Fuzzed:
    """What a run did: inputs tried and refused, and the first find with its (shrunk) input."""

    rounds: int = 0
    refused: int = 0
    found: BaseException | None = None
    input: bytes = b""


class TooSlow(Exception):
    """An input took longer than SLOW_SECONDS of CPU."""


def attempt(name: str, data: bytes) -> tuple[bool, BaseException | None]:
    """(whether the target refuses an input, what it raises that it must not)."""
    began, refused = time.process_time(), False
    try:
        TARGETS[name](data)
    except FlintError as error:
        refused = True
        if len(str(error)) > ERROR_CHARS:
            return True, AssertionError(f"an error of {len(str(error))} characters")
    except Exception as error:  # this is what fuzzing is for
        return False, error
    return refused, TooSlow(name) if time.process_time() - began > SLOW_SECONDS else None


def try_one(name: str, data: bytes) -> BaseException | None:
    """What an input raises that it must not, or None."""
    return attempt(name, data)[1]


def fuzz(name: str, seeds: Sequence[bytes], seed: int, *, rounds: int = 1 << 60, seconds: float = 1e9) -> Fuzzed:
    """Try the seeds, then mutations of them, until the rounds or the seconds are over or something is found."""
    chance, done = random.Random(f"{name} {seed}"), Fuzzed()
    until = time.monotonic() + seconds
    while done.rounds < rounds and time.monotonic() < until:
        data = seeds[done.rounds] if done.rounds < len(seeds) else mutate(seeds, chance)
        done.rounds += 1
        refused, found = attempt(name, data)
        done.refused += refused
        if found is not None:
            done.found, done.input = found, shrink(name, data, type(found))
            break
    return done


def shrink(name: str, data: bytes, kind: type[BaseException]) -> bytes:
    """A shorter input that raises the same kind of error: pieces are left out as long as it does."""
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if isinstance(try_one(name, shorter), kind):
                data = shorter
            else:
                at += size
        size //= 2
    return data
