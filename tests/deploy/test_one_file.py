"""flintmq.pyz: the core as one file, in an empty directory, with no package but Python's own."""

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq import __version__
from tests.compat.stores import Golden
from tests.deploy.conftest import ROOT, run
from tools import one_file

pytestmark = pytest.mark.slow
COMMANDS = [
    ["inspect", "STORE"],
    ["inspect", "STORE", "--json"],
    ["verify", "STORE"],
    ["verify", "STORE", "--json"],
    ["scan", "STORE", "--limit", "50"],
    ["scan", "STORE", "--topic", "Orders", "--json"],
    ["get", "STORE", "Orders", "0", "0"],
    ["scan", "STORE", "--topic", "Ordres"],
    ["verify"],
    ["metrics", "--help"],
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package, not even pip; it is that of the tests."""
    folder = tmp_path_factory.mktemp("bare")
    done = run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "env" / "bin" / "python"


@pytest.fixture(scope="module")
def pyz(pure_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pyz") / "flintmq.pyz"
    done = subprocess.run([sys.executable, "-m", "tools.one_file", pure_wheel, path], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("store", ["basic", "rolled", "crash"])
def test_it_says_what_the_installed_command_says(
    bare: Path, pyz: Path, golden: Callable[[str], Golden], tmp_path: Path, store: str
) -> None:
    (tmp_path / "here").mkdir()
    shutil.copytree(golden(store).path, tmp_path / "store")
    for given in COMMANDS if store == "basic" else COMMANDS[:4]:
        words = [word.replace("STORE", "../store") for word in given]
        one = run(bare, "-I", pyz, *words, cwd=tmp_path / "here", COLUMNS="100")
        other = run(sys.executable, "-m", "flintmq", *words, cwd=tmp_path / "here", COLUMNS="100")
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr), words
        assert one.stdout or one.stderr
    assert [*(tmp_path / "here").iterdir()] == []


def test_java_wrote_as_many_messages_as_it_counts(
    bare: Path, pyz: Path, golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    done = run(bare, "-I", pyz, "scan", golden("basic").path, "--format", "{topic} {queue_offset}", cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{row['topic']} {row['queue_offset']}" for row in golden("basic").rows]


def test_nothing_of_it_comes_from_elsewhere(pyz: Path, tmp_path: Path) -> None:
    """Where a FlintMQ is installed, the file is used nevertheless; it says so itself."""
    done = run(sys.executable, "-I", pyz, "doctor", cwd=tmp_path)
    assert f"{pyz}/flintmq\n" in done.stdout and "all of it is one file" in done.stdout, done.stdout
    assert run(sys.executable, "-I", pyz, "--version", cwd=tmp_path).stdout == f"flintmq {__version__}\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("spark stats STORE", "pyspark is not installed, which this command needs; run: pip install 'flintmq[spark]'"),
        (
            "export STORE --out x",
            "pyarrow is not installed, which this command needs; run: pip install 'flintmq[arrow]'",
        ),
    ],
)
def test_a_command_that_needs_more_names_it(
    bare: Path, pyz: Path, golden: Callable[[str], Golden], tmp_path: Path, words: str, text: str
) -> None:
    given = [word.replace("STORE", str(golden("basic").path)) for word in words.split()]
    done = run(bare, "-I", pyz, *given, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (8, "", f"flintmq: {text}\n")


def test_spark_is_not_begun_where_it_is_installed(pyz: Path, golden: Callable[[str], Golden], tmp_path: Path) -> None:
    """Its workers could not import from the file."""
    done = run(sys.executable, "-I", pyz, "spark", "stats", golden("basic").path, "--out", "x.html", cwd=tmp_path)
    assert done.returncode == 8 and "pip install 'flintmq[spark]'" in done.stderr
    told = run(sys.executable, "-I", pyz, "doctor", "--json", cwd=tmp_path)
    checks = [one for one in json.loads(told.stdout)["checks"] if one["name"].startswith("spark")]
    assert [(one["name"], one["state"]) for one in checks] == [("spark", "missing")]
    assert "not in this one file" in checks[0]["found"]


def test_it_is_made_the_same_each_time(pyz: Path, pure_wheel: Path, tmp_path: Path) -> None:
    one_file.make(pure_wheel, tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()
    assert pyz.read_bytes().startswith(b"#!/usr/bin/env python3\nPK") and pyz.stat().st_mode & 0o777 == 0o755
    assert pyz.stat().st_size < 3 << 20
    names = zipfile.ZipFile(pyz).namelist()
    assert len([name for name in names if name.endswith("LICENSE")]) == 1
    assert {name.rpartition(".")[2] for name in names if name.startswith("flintmq/")} == {"py"}


def test_a_wheel_with_compiled_kernels_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        wheel.writestr("flintmq/kernels/read/walk.so", b"")
    with pytest.raises(ValueError, match="some.whl has compiled kernels .*none-any"):
        one_file.make(tmp_path / "some.whl", tmp_path / "some.pyz")
    assert not (tmp_path / "some.pyz").exists()


def test_an_older_python_is_told_which_one_it_needs() -> None:
    head = one_file.MAIN.partition("sys.modules")[0]
    ast.parse(head, feature_version=(3, 7))
    for version in ((3, 10, 4), (3, 11, 0)):
        found: list[str] = []
        code = head.replace("import sys", "").replace("sys.version_info", "version").replace("sys.exit", "found.append")
        exec(code, {"version": version, "found": found})
        assert found == (["flintmq: needs Python 3.11 or newer, and this is 3.10"] if version < (3, 11) else [])


def test_make_dist_makes_it_and_the_index_does_not_get_it() -> None:
    script = (ROOT / ".ci" / "dist").read_text(encoding="utf-8")
    assert "-m tools.one_file " in script and "-m tools.docs.man" in script
    uploads = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    assert "dist/*.tar.gz" in uploads and "dist/*-none-any.whl" in uploads
    made = ["flintmq.pyz", "flintmq-man.tar.xz"]
    assert all(name in script for name in made) and not any(name.endswith((".tar.gz", ".whl")) for name in made)
