"""Which form of a kernel an import gives: the compiled one, unless FLINTMQ_PURE asks for the source."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.kernels import _select

FOLDER = Path(_select.FOLDER)
PROBE = """
import json
from flintmq import kernels
from flintmq.kernels import _select
from flintmq.kernels.read import walk
print(json.dumps({"file": walk.__file__, "compiled": kernels.compiled(), "state": _select.state()}))
"""


def probe(pure: str) -> dict:
    """What a fresh interpreter imports as flintmq.kernels.read.walk."""
    environment = {**os.environ, "FLINTMQ_PURE": pure}
    done = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_source_runs_when_asked_for():
    found = probe("1")
    assert found["file"] == str(FOLDER / "read" / "walk.py")
    assert found["compiled"] is False
    assert found["state"]["walk"] is False


@pytest.mark.skipif(not list(FOLDER.glob("read/walk.*.so")), reason="the kernels are not compiled here (make compile)")
@pytest.mark.parametrize("pure", ["", "0"])
def test_the_compiled_one_runs_otherwise(pure: str):
    found = probe(pure)
    assert Path(found["file"]).suffix == ".so"
    assert found["state"]["walk"] is True


def test_every_kernel_is_counted_and_has_typed_stubs():
    names = set(_select.state())
    assert "walk" in names
    assert not names & {"__init__", "_cython", "_plain", "_select"}
    places = [FOLDER / module.replace(".", "/") for module in _select.kernels().values()]
    assert [path for path in places if not path.with_suffix(".pyi").is_file()] == []
    assert len(names) == len(list(FOLDER.rglob("*.pyi"))), "no name twice"


@pytest.mark.skipif(_select.pure(), reason="FLINTMQ_PURE asks for uncompiled kernels")
@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler here")
def test_all_kernels_are_compiled_where_a_compiler_is():
    assert [name for name, is_compiled in _select.state().items() if not is_compiled] == []
    assert _select.compiled()
    assert _select.stale() == [], "compiled kernels are older than their sources: make compile"


BARE = """
import importlib, sys
sys.modules["cython"] = sys.modules["Cython"] = None  # as if they were not installed
from flintmq.kernels import _select
for name in _select.kernels().values():
    assert importlib.import_module(f"flintmq.kernels.{name}").__file__.endswith(".py"), name
assert sys.modules["cython"] is None and "Cython.Shadow" not in sys.modules
from flintmq.cli.installation import diagnose
print([check.state for check in diagnose().checks if check.name == "self-test"])
"""


def test_sources_run_without_cython():
    environment = {**os.environ, "FLINTMQ_PURE": "1"}
    done = subprocess.run([sys.executable, "-c", BARE], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['ok']\n", "")


def test_an_installer_may_give_files_any_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """pip unpacks compiled kernels before their sources: they are no older for that."""
    folder = tmp_path / "site-packages" / "flintmq" / "kernels"
    folder.mkdir(parents=True)
    monkeypatch.setattr(_select, "FOLDER", str(folder))
    monkeypatch.setattr(_select, "EXTENSION_SUFFIXES", [".so"])
    monkeypatch.delenv("FLINTMQ_PURE", raising=False)
    for age_s, name in ((100, "one.so"), (50, "one.pxd"), (0, "one.py")):
        (folder / name).touch()
        os.utime(folder / name, (1_000_000 - age_s, 1_000_000 - age_s))
    assert (_select.state(), _select.stale()) == ({"one": True}, [])


def test_a_source_that_changed_makes_its_kernel_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "setup.py").touch()
    tmp_path = tmp_path / "src" / "flintmq" / "kernels"
    (tmp_path / "room").mkdir(parents=True)
    monkeypatch.setattr(_select, "FOLDER", str(tmp_path))
    monkeypatch.setattr(_select, "EXTENSION_SUFFIXES", [".so"])
    monkeypatch.delenv("FLINTMQ_PURE", raising=False)
    one = 'cdef extern from "one.h" nogil:\n    int x()\nfrom flintmq.kernels.types cimport T\n'
    texts = {"room/one.pxd": one, "types.pxd": "# C types", "room/one.h": "", "other.h": "", "room/one.py": ""}
    texts |= {"room/__init__.py": "", "two.py": ""}
    for age_s, name in [(200, name) for name in texts] + [(100, "room/one.so")]:
        (tmp_path / name).write_text(texts.get(name, ""))
        os.utime(tmp_path / name, (1_000_000 - age_s, 1_000_000 - age_s))
    assert _select.state() == {"one": True}  # two.py has no .pxd, so it is no kernel
    assert _select.stale() == []
    os.utime(tmp_path / "other.h", (1_000_000, 1_000_000))
    assert _select.stale() == [], "the header of another kernel"
    for name in ("room/one.py", "room/one.pxd", "types.pxd", "room/one.h"):
        os.utime(tmp_path / name, (1_000_000, 1_000_000))
        assert _select.stale() == ["one"], name
        os.utime(tmp_path / name, (1_000_000 - 200, 1_000_000 - 200))
        assert _select.stale() == []
    os.utime(tmp_path / "room" / "one.py", (1_000_000, 1_000_000))
    monkeypatch.setenv("FLINTMQ_PURE", "1")
    assert (_select.state(), _select.stale(), _select.compiled()) == ({"one": False}, [], False)
