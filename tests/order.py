"""The order of test files with several workers: the longest first, so that no worker ends long after another.

By itself pytest-xdist hands out the files with the most tests first. Ours that take longest have few: each starts Java
or other processes, so they came last, one worker busy with them and the other idle. Files that are not in the list come
behind those that are, the most tests first; a wrong place costs time, nothing else.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent

LONGEST_FIRST = (
    "test_docs.py",
    "spark/test_session.py",
    "spark/test_cluster.py",
    "cli/test_docs.py",
    "spark/jobs/test_export_stream.py",
    "spark/jobs/test_dispatch_kills.py",
    "spark/stream/test_on_spark.py",
    "spark/stream/test_live_java.py",
    "spark/jobs/test_replay_bulk.py",
    "spark/jobs/test_dispatch.py",
    "spark/jobs/test_replay.py",
    "spark/jobs/test_export.py",
    "spark/sink/test_writer.py",
    "spark/stream/test_queues.py",
    "torture_spark/test_loop.py",
    "interop/test_broker_java.py",
    "interop/test_salvage_java.py",
    "interop/test_retention_java.py",
    "interop/test_engine_java.py",
    "interop/test_dispatch_java.py",
    "interop/test_damaged_java.py",
    "hostile/test_special.py",
    "forensics/test_salvage_in_place.py",
    "test_install.py",
)
_PLACES = {ROOT / name: place for place, name in enumerate(LONGEST_FIRST)}


def with_several_workers(config: pytest.Config) -> None:
    """Have pytest-xdist hand out files in the order in which they were collected."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def sort(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests in this order where several workers share them; within a file they stay as they are."""
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (_PLACES.get(item.path, len(_PLACES)), -tests[item.path]))
