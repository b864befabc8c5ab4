"""The pure wheel, which the image and flintmq.pyz are made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.in_memory import tmp_path_factory as tmp_path_factory

ROOT = Path(__file__).resolve().parents[2]


def run(*words: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command outside the project, whose own settings it does not see."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FLINTMQ", "VIRTUAL"))}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **more}, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build needs: it writes into the tree that it builds."""
    tree = tmp_path_factory.mktemp("deploy") / "tree"
    left_out = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "*.jar")
    shutil.copytree(ROOT / "src", tree / "src", ignore=left_out)
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tree)
    return tree


@pytest.fixture(scope="session")
def pure_wheel(tree: Path) -> Path:
    words = ["pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = run(sys.executable, "-m", *words, "--wheel-dir", tree.parent, tree, cwd=tree.parent, FLINTMQ_PURE="1")
    assert done.returncode == 0, done.stderr
    [wheel] = tree.parent.glob("flintmq-*-py3-none-any.whl")
    return wheel
