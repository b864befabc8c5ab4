"""A real disk that counts its calls and refuses those that a test names; a clock that a test sets.

Syncs are counted and not done, unless asked for: what a test asks is mostly when they are called.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flintmq.errors import StoreError
from flintmq.storage.files.filesystem import Effects
from flintmq.store.message_store import MessageStore

FAULTS = ("allocate", "create", "open_write", "pwrite", "sync", "sync_dir", "rename", "unlink", "mkdirs", "truncate",
          "map_write", "drop_cache", "populate", "advise_random", "advise_needed", "advise_huge", "lock_memory",
          "unlock_memory", "open_disk", "sync_disk")  # fmt: skip


def unclean() -> Any:
    """Expect that a store cannot be stopped cleanly where this block ends, and that its close says so."""
    return pytest.raises(StoreError, match="could not be stopped cleanly")


def close_unclean(store: MessageStore) -> None:
    """Close a store whose disk failed."""
    with unclean():
        store.close()


@dataclass
class Rule:
    """Refuse calls: of this name, whose path holds `part`, after letting `after` of them pass, `times` times."""

    call: str
    part: str = ""
    error: int = errno.EIO
    after: int = 0
    times: int = 1 << 30

    def hits(self, call: str, path: str) -> bool:
        if call != self.call or self.part not in path:
            return False
        self.after -= 1
        if self.after >= 0 or self.times <= 0:
            return False
        self.times -= 1
        return True


class Faulty(Effects):
    """The real disk behind rules."""

    syncs = False  # they are done

    def __init__(self, *rules: Rule) -> None:
        self.rules = list(rules)
        self.calls: list[tuple[str, str]] = []  # (name, path) of all that change the disk, the refused ones too
        self.refused: list[tuple[str, str]] = []
        self.clock: int | None = None  # wall clock in ms; None: the real one
        self.before: Callable[[str, str], None] | None = None  # called with (name, path) of each of them; may raise

    def refuse(self, call: str, part: str = "", error: int = errno.EIO, after: int = 0, times: int = 1 << 30) -> None:
        self.rules.append(Rule(call, part, error, after, times))

    def count(self, call: str, part: str = "") -> int:
        return sum(name == call and part in path for name, path in self.calls)

    def now_ms(self) -> int:
        return super().now_ms() if self.clock is None else self.clock


def _guarded(name: str) -> Callable[..., Any]:
    real = getattr(Effects, name)

    def call(self: Faulty, first: Any, *rest: Any, **more: Any) -> Any:
        path = (
            first if isinstance(first, str) else os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else ""
        )
        if self.before is not None:
            self.before(name, path)
        self.calls.append((name, path))
        for rule in self.rules:
            if rule.hits(name, path):
                self.refused.append((name, path))
                raise OSError(rule.error, os.strerror(rule.error), path)
        skipped = name in ("sync", "sync_dir", "sync_disk") and not self.syncs
        return None if skipped else real(self, first, *rest, **more)

    return call


for _name in FAULTS:
    setattr(Faulty, _name, _guarded(_name))
