import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.stores import Golden
from tests.harness.in_memory import tmp_path_factory as tmp_path_factory


@pytest.fixture
def brokers(golden: Callable[[str], Golden], tmp_path: Path) -> Path:
    """A directory with three brokers, whose stores Java wrote, and with what else lies in such places."""
    root = tmp_path / "data"
    for broker, name in (("broker-a", "basic"), ("broker-b", "flags"), ("库存", "config")):
        shutil.copytree(golden(name).path, root / broker / "store")
    (root / "lost+found" / "store").mkdir(parents=True)
    (root / "unmounted").mkdir()
    (root / ".snapshots" / "store" / "commitlog").mkdir(parents=True)
    (root / "README").write_text("no directory")
    return root
