"""Names one store among several."""

from __future__ import annotations

from dataclasses import dataclass

MASTER = 0
"""The broker id of a master; slaves have other ids."""


@dataclass(frozen=True, slots=True)
class Member:
    """One store among several.

    Attributes:
        path: its directory, absolute, or its URL.
        broker: the broker's name: the value of the column `broker`.
        broker_id: 0 for a master, more for a slave; None where nobody said.
        cluster: the cluster's name; empty where nobody said.
    """

    path: str
    broker: str
    broker_id: int | None = None
    cluster: str = ""
