"""The values of a request: each is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.cli.values import parse_time
from flintmq.errors import UsageError

TEXT_CHARS = 4096
INT64_MAX = (1 << 63) - 1


class Ask:
    """The values of a request; `typed`: those that its form shows again, where some were left out as wrong."""

    def __init__(self, given: Mapping[str, str], typed: Mapping[str, str] | None = None) -> None:
        self.given, self.typed = given, given if typed is None else typed

    @property
    def as_json(self) -> bool:
        return self.given.get("format") == "json"

    def text(self, name: str, default: str = "") -> str:
        found = self.given.get(name, default)
        if len(found) > TEXT_CHARS:
            raise UsageError(f"{name}: over {TEXT_CHARS} characters; give less")
        return found

    def needed(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise UsageError(f"{name} is missing in the address; begin at the overview")
        return found

    def number(self, name: str, default: int = 0, most: int = INT64_MAX) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most):
            raise UsageError(f"{name}: {text[:60]!r} is not a whole number from 0 to {most}")
        return int(text)

    def time(self, name: str) -> int | None:
        text = self.text(name).strip()
        return parse_time(name, text) if text else None
