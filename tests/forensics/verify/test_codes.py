"""Codes and their documentation are one."""

from __future__ import annotations

import re
from pathlib import Path

from flintmq.forensics.verify import codes

ROOT = Path(__file__).resolve().parents[3]


def test_every_code_is_used_somewhere_and_every_used_one_is_known():
    """A code that nothing gives is a promise that nobody keeps."""
    used = set()
    for path in (ROOT / "src" / "flintmq" / "forensics").rglob("*.py"):
        if path.name != "codes.py":
            used |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+|abort|live)"', path.read_text(encoding="utf-8")))
    walker = {"torn-tail", "stale-tail", "time-step", "vanished", "named-after"}  # told by the walk, with underscores
    known = set(codes.DEFECTS) | set(codes.NOTES)
    assert known - used - walker == set()


def test_codes_are_words_with_dashes_and_texts_fit_a_table():
    for code, (meaning, cost, advice) in codes.DEFECTS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", code)
        assert not any("|" in text or "\n" in text for text in (meaning, cost, advice))
    assert not set(codes.DEFECTS) & set(codes.NOTES)
