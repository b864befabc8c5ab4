"""Warns of addresses that others than the programs of this machine reach."""

from __future__ import annotations

import ipaddress
from typing import Final

from flintmq.cli.output import Output

READS_NAMES: Final = "read the names of topics and groups, without a password"


def note_others(out: Output, host: str, may: str) -> None:
    """Say what whoever reaches an address may do, unless only this machine does."""
    if not is_loopback(host):
        out.note(f"{host} is no address of this machine alone: whoever reaches it can {may}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
