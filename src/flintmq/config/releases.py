"""Compares releases of libraries with the oldest one that works."""

from __future__ import annotations

import re


def is_older(release: str, least: tuple[int, int]) -> bool:
    """Return whether a release, such as `1.36.1` or `v1.4.4`, is older than a minor version.

    One without two numbers in front is not.
    """
    found = re.match(r"v?(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) < least
