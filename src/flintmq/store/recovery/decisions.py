"""Collects what recovery decided, one line each, and logs it."""

from __future__ import annotations

import logging

log = logging.getLogger("flintmq.recovery")


class Decisions:
    def __init__(self, root: str) -> None:
        self.root = root
        self.lines: list[str] = []

    def add(self, text: str, level: int = logging.INFO) -> None:
        self.lines.append(text)
        log.log(level, "%s: %s", self.root, text)
