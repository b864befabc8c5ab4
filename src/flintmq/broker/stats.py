"""Declares the figures of a running broker, as Python reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Figures of a running broker.

    Attributes:
        connections: how many there are now.
        accepted: how many there were.
        broken: how many of these were closed because they broke a rule, or were silent, which the log tells.
        held: pulls and pops that wait for messages.
        groups: consumer group -> number of its members.
        unsupported: code of a request, or a call of gRPC, that is not known here -> how many came.
        failed: requests that met an error, which the log tells.
    """

    connections: int
    accepted: int
    broken: int
    held: int
    groups: Mapping[str, int]
    unsupported: Mapping[int | str, int]
    failed: int
