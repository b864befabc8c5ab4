"""Names a store: one among several, or an only one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flintmq.config.text import short

MASTER = 0
"""The broker id of a master; slaves have other ids."""

ONLY = ""
"""The broker of an only store, which nobody named."""


def broker_words(broker: str) -> dict[str, str]:
    """Return the column that names a broker, and its value; an only store has none."""
    return {"broker": broker} if broker else {}


def broker_text(text: str, broker: str, shown: Callable[[str], str] = short) -> str:
    """Return words about a broker, with its name in place of {}; none of an only store."""
    return text.format(shown(broker)) if broker else ""


@dataclass(frozen=True, slots=True)
class Member:
    """One store among several, or an only one.

    `broker`: the broker's name: the value of the column `broker`; ONLY for an only store, whose rows have no such
    column.
    """

    path: str  # its directory, absolute, or its URL; of an only store as it was given
    broker: str
    broker_id: int | None = None  # 0 for a master, more for a slave; None where nobody said
    cluster: str = ""  # the cluster's name; empty where nobody said

    @property
    def words(self) -> dict[str, str]:
        """The columns that name it among several, and their values; none of an only store."""
        return {"broker": self.broker, "store": self.path} if self.broker else {}
