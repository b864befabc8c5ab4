"""Which version of RocketMQ a test meets today.

A test that is there once for each version starts a Java machine each time, and what it finds with one it would mostly
find with all. Where several workers share the tests, so in `make test` and CI, each such test meets one version,
another one each day; a file or test that is named meets all of them, and so it does with FLINTMQ_JAVA_TURN=all (one
of the runs of `make torture`). FLINTMQ_JAVA_TURN=0, 1 or 2 names the turn.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections import defaultdict

import pytest

VARIABLE = "FLINTMQ_JAVA_TURN"
_VERSION = re.compile(r"(?<=[\[-])5\.\d\.\d(?=[]-])")  # in a test's id: [5.4.0-basic], [basic-5.4.0]


def agree() -> None:
    """Have all workers take the same turn, also at midnight. The process that starts them calls it."""
    os.environ.setdefault(VARIABLE, str(int(time.time() // 86400)))


def take(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the versions whose turn it is not; pytest counts them as deselected."""
    told = os.environ.get(VARIABLE, "all")
    if told == "all" or not hasattr(config, "workerinput"):
        return
    alike: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if _VERSION.search(item.nodeid):
            alike[_VERSION.sub("", item.nodeid)].append(item)
    left_out: set[str] = set()
    for name, versions in alike.items():
        chosen = (zlib.crc32(name.encode()) + int(told)) % len(versions)
        left_out.update(item.nodeid for place, item in enumerate(versions) if place != chosen)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
