"""How wheels are made: the configuration agrees with itself. That they work, `make dist` tries (minutes)."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = PROJECT["tool"]["cibuildwheel"]


def test_there_is_a_wheel_for_every_python_that_is_named():
    classifiers = re.findall(r"Python :: (3)\.(\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert BUILD["build"] == [f"cp{major}{minor}-*" for major, minor in classifiers]
    assert PROJECT["project"]["requires-python"] == ">=" + ".".join(classifiers[0])


def test_there_is_a_wheel_for_every_machine_that_is_named():
    assert BUILD["linux"]["archs"] == ["x86_64", "aarch64"]
    assert all(BUILD["linux"][f"manylinux-{arch}-image"] == "manylinux_2_28" for arch in BUILD["linux"]["archs"])
    assert BUILD["macos"]["archs"] == ["x86_64", "arm64"]
    assert {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"} <= set(PROJECT["project"]["classifiers"])


def test_the_test_command_is_a_module_of_the_wheel():
    python, option, module, word = shlex.split(BUILD["test-command"])
    assert (python, option, word) == ("python", "-m", "compiled")
    assert (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").is_file()


def test_the_tools_of_make_dist_come_with_the_extra_dev():
    words = (ROOT / ".ci" / "dist").read_text(encoding="utf-8")
    for tool, package in (("build", "build"), ("twine", "twine"), ("check_wheel_contents", "check-wheel-contents")):
        assert f"-m {tool} " in words
        assert any(re.match(rf"{package}\b", need) for need in PROJECT["project"]["optional-dependencies"]["dev"])


def test_stubs_come_with_the_wheel():
    """Type checkers of users read them: `MessageStore(path, **keys)` has its keys from one that is no module."""
    data = PROJECT["tool"]["setuptools"]["package-data"]
    stubs = [path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.pyi")]
    assert Path("flintmq/config/typed.pyi") in stubs
    assert [path for path in stubs if "*.pyi" not in data[".".join(path.parent.parts)]] == []


def test_the_wheel_has_tools_for_tests_and_no_laboratory():
    """Simulated disks, generators of pages and the demo's shop are for those who work on FlintMQ: beside src/."""
    assert sorted(path.stem for path in (ROOT / "src" / "flintmq" / "testing").rglob("[!_]*.py")) == [
        "consumer_ledger", "contract", "damage", "messages", "pytest_plugin", "rows", "sim", "slow_read", "smoke",
        "strategies", "write_store",
    ]  # fmt: skip
    assert [*(ROOT / "src").rglob("docs.py"), *(ROOT / "src").rglob("orders.py")] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is written for bash")
def test_the_script_reads_well_and_wants_an_interpreter(tmp_path: Path):
    script = ROOT / ".ci" / "dist"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    done = subprocess.run(["bash", script, tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.endswith("none is no interpreter; name one\n")


@pytest.mark.parametrize("must", ["", "1"])
def test_a_build_without_cython_ends_only_where_kernels_must_be_compiled(tmp_path: Path, must: str):
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(
        ROOT / "src" / "flintmq" / "kernels", tmp_path / "src/flintmq/kernels", ignore=shutil.ignore_patterns("*.so")
    )
    (tmp_path / "Cython").mkdir()
    (tmp_path / "Cython" / "__init__.py").write_text("raise ImportError('no Cython here')")
    words = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "FLINTMQ_MUST_COMPILE": must, "PYTHONPATH": str(tmp_path), "FLINTMQ_PURE": ""}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode != 0) == bool(must), done.stderr
    assert "no Cython here" in done.stderr
    assert ("FLINTMQ_MUST_COMPILE is set" in done.stderr) == bool(must)
