"""The three quarters: the core loads none of the others, and each test has its quarter."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.quarters import FOLDERS, QUARTERS, ROOMS, quarter_of, quarters_of

SOURCE = Path(__file__).resolve().parents[1] / "src"
SCRIPT = """
import importlib, sys
from tests.harness.quarters import quarter_of
for name in sys.argv[1:]:
    importlib.import_module(name)
    if found := sorted(one for one in sys.modules if quarter_of(one) != "core"):
        sys.exit(f"{name} loads {found}")
print(len(sys.argv) - 1)
"""


def modules() -> list[str]:
    paths = [path.relative_to(SOURCE).with_suffix("") for path in (SOURCE / "flintmq").rglob("*.py")]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def test_every_room_has_modules():
    assert {quarter_of(name) for name in modules()} == set(QUARTERS)
    for room in [f"flintmq.{room}" for rooms in ROOMS.values() for room in rooms]:
        assert room in modules()


def test_no_module_of_the_core_loads_another_quarter():
    """By the import system, so also what contracts of imports cannot see: a name that is loaded by its text."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    core = [name for name in modules() if quarter_of(name) == "core"]
    command = [sys.executable, "-c", SCRIPT, *core]
    done = subprocess.run(command, cwd=SOURCE.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(core)}\n"), done.stderr


def test_every_folder_is_there():
    assert [begin for begin in FOLDERS if not (SOURCE.parent / begin).exists()] == []


@pytest.mark.parametrize(
    ("test", "quarters"),
    [
        ("tests/format/test_index.py::test_x", {"core"}),
        ("tests/lake/table/test_delta.py::test_x", {"lake"}),
        ("tests/ha/test_acks.py::test_x", {"live"}),
        ("tests/sim/test_pair_explorer.py::test_x", {"core", "live"}),  # imports flintmq.ha
        ("tests/test_docs.py::test_example[docs/spark/export.md:12]", {"lake"}),
        ("tests/test_docs.py::test_example[docs/operations/verify.md:12]", {"core"}),
        ("tests/cli/test_docs.py::test_examples_run[flintmq serve-ha /store]", {"live"}),
        ("tests/cli/test_docs.py::test_examples_run[flintmq spark stats /store]", {"lake"}),
        ("tests/cli/test_docs.py::test_examples_run[flintmq stats /store]", {"lake"}),
        ("tests/cli/test_docs.py::test_examples_run[flintmq scan /store]", {"core"}),
    ],
)
def test_the_quarters_of_a_test(test: str, quarters: set[str]):
    assert quarters_of(test) == quarters
