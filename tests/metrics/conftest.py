"""A cluster of brokers whose stores Java wrote."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.stores import Golden
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory

BROKERS = {"broker-a": "config", "broker-b": "config540", "库存": "config550"}


@pytest.fixture
def cluster(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    """A directory with three brokers that have consumer offsets, of three versions of RocketMQ."""
    root = tmp_path / "data"
    for broker, name in BROKERS.items():
        shutil.copytree(golden(name).path, root / broker / "store")
    return root
