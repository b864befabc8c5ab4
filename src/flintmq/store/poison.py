"""The mark of a store whose disk refused once: shared by everything that writes to it (contract, line 3)."""

from __future__ import annotations

import logging
from dataclasses import dataclass

log = logging.getLogger("flintmq.flush")


@dataclass
class Poison:
    """Set once, by the first failed sync or commit of the store; never taken back while the process lives."""

    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)

    def set(self, reason: str) -> None:
        """Refuse everything from now on."""
        if not self.reason:
            self.reason = reason
            log.error("%s; the store takes no more puts, restart it to read what is on disk", reason)
