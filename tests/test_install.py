"""The package without extras, installed as a user does it: it is light, complete, and looks into a store."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from flintmq.errors import MissingExtraError

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def run(*words: object, cwd: Path, **environment: str) -> str:
    """Runs a command outside the project; gives its output, fails the test with what it said."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "FLINTMQ_PURE")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of what is in the tree (a build writes into the tree it builds).

    Kernels that are compiled already, and not older than their sources, are not compiled again: that takes minutes.
    """
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    if (ROOT / "build" / "cython").is_dir():
        shutil.copytree(ROOT / "build" / "cython", tree / "build" / "cython")
    compiled = tree / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for path in (ROOT / "src" / "flintmq" / "kernels").rglob("*.so"):
        place = compiled / path.relative_to(ROOT / "src")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, tree, cwd=folder)
    return next(folder.glob("flintmq-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds the wheel and what it requires, no extras."""
    folder = tmp_path_factory.mktemp("light")
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    return python


def test_the_wheel_is_complete(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    stubs = {
        path.relative_to(source).as_posix() for pattern in ("*.pyi", "*.pxd", "*.h") for path in source.rglob(pattern)
    }
    assert modules | stubs | {"flintmq/py.typed"} <= names
    kernels = [name for name in stubs if re.fullmatch(r"flintmq/kernels/(\w+/)?\w+\.pyi", name)]
    kernels.append("_shared")  # what Cython puts into each of them otherwise
    if shutil.which("cc") or shutil.which("gcc"):
        assert len([name for name in names if name.endswith(".so")]) == len(kernels)


def test_the_package_index_gets_links_that_work(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
    head, _, body = text.partition("\n\n")
    assert "Project-URL: Source, https://" in head and "Maintainer: " in head
    home = head.partition("Project-URL: Source, ")[2].splitlines()[0]
    links = re.findall(r"\]\(([^)\s]+)\)", body)
    assert len(links) > 10 and [link for link in links if not link.startswith(("https://", "#"))] == []
    inside = [link.removeprefix(f"{home}/blob/main/").partition("#")[0] for link in links if link.startswith(home)]
    assert inside and [path for path in inside if not (ROOT / path).exists()] == []


@pytest.mark.turn(2, of=["setup.py", "pyproject.toml"])
def test_a_wheel_is_small_and_so_is_what_it_installs(wheel: Path, python: Path):
    assert wheel.stat().st_size <= 3_200_000  # with the sources of the jar, a broker, and a page over stores
    packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
    mine = [
        path
        for path in packages.iterdir()
        if not re.match(r"pip|setuptools|pkg_resources|_distutils_hack|distutils", path.name)
    ]
    files = [file for path in mine for file in [path, *path.rglob("*")] if file.is_file()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc")  # which Python makes, or pip
    assert size <= 8_000_000, {path.name: path for path in mine}


def test_it_starts_fast(python: Path, tmp_path: Path):
    """CPU seconds, the median of five: reading the version, and importing the package."""
    for limit_s, words in ((0.20, [python.parent / "flintmq", "--version"]), (0.10, [python, "-c", "import flintmq"])):
        run(*words, cwd=tmp_path)
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(*words, cwd=tmp_path)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert sorted(times)[2] <= limit_s, (words, times)


def test_it_is_light(python: Path, tmp_path: Path):
    names = {
        line["name"].lower() for line in json.loads(run(python, "-m", "pip", "list", "--format=json", cwd=tmp_path))
    }
    assert names - {"pip", "setuptools"} == {"flintmq"}  # which the environment brought


@pytest.mark.parametrize("pure", ["", "1"])
def test_it_inspects_a_store(python: Path, golden, tmp_path: Path, pure: str):
    store = golden("basic").copy(tmp_path)
    flintmq = python.parent / "flintmq"
    text = run(flintmq, "inspect", store, cwd=tmp_path, FLINTMQ_PURE=pure)
    assert "Orders" in text and "3000" in text.replace(",", "").replace(" ", "")
    rows = run(flintmq, "scan", store, "--limit", "3", "--json", cwd=tmp_path, FLINTMQ_PURE=pure).splitlines()
    assert [json.loads(row)["physical_offset"] for row in rows] == [
        row["physical_offset"] for row in golden("basic").rows[:3]
    ]


def test_what_needs_an_extra_names_it(python: Path, golden, tmp_path: Path):
    code = f"""if True:
        import flintmq
        try:
            flintmq.scan_arrow({str(golden("poison").path)!r})
        except ImportError as error:
            print(error)
    """
    assert "flintmq[arrow]" in run(python, "-c", code, cwd=tmp_path)


# What each command that wants an extra is called with, and the extra.
NEEDS_EXTRA = {
    "export": (("export", "{store}", "--out", "{out}"), "arrow"),
    "export --follow": (("export", "{store}", "--out", "{out}", "--follow"), "arrow"),
    "export of several": (("export", "{store}", "{other}", "--out", "{out}", "--to", "iceberg"), "arrow"),
    "diff of a table": (("diff", "{store}", "{table}"), "arrow"),
    "sql": (("sql", "{store}", "select 1"), "duckdb"),
    "sql of several": (("sql", "{store},{other}", "select 1"), "duckdb"),
    "rebuild": (("rebuild", "{store}", "--out", "{out}", "--engine", "spark"), "spark"),
    "spark export": (("spark", "export", "{store}", "--out", "{out}"), "spark"),
    "spark diff": (("spark", "diff", "{store}", "{table}"), "spark"),
    "stats": (("stats", "{store}"), "stats"),
    "spark stats": (("spark", "stats", "{store}"), "spark"),
}


@pytest.mark.parametrize("command", NEEDS_EXTRA)
def test_a_command_that_needs_an_extra_names_it_in_one_line(python: Path, golden, tmp_path: Path, command: str):
    words, extra = NEEDS_EXTRA[command]
    (tmp_path / "table" / "export=1").mkdir(parents=True)
    places = {"store": golden("basic").copy(tmp_path / "a"), "other": golden("poison").copy(tmp_path / "b")}
    places |= {"table": tmp_path / "table", "out": tmp_path / "out"}
    done = subprocess.run(
        [python.parent / "flintmq", *(word.format(**places) for word in words)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == MissingExtraError.exit_code, done.stderr
    assert f"flintmq[{extra}]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        "inspect {a} {b}", "verify {a} {b}", "scan {a} {b} --limit 2", "metrics {a} {b}", "diff {a} {c}",
        "tail {a} Orders", "get {a} Orders 0 0", "explain {a}/commitlog/00000000000000000000",
        "doctor",
    ],
)  # fmt: skip
def test_no_other_command_needs_one(python: Path, golden, tmp_path: Path, words: str):
    a, b = golden("basic").copy(tmp_path / "a"), golden("config").copy(tmp_path / "b")
    c = golden("basic").copy(tmp_path / "c")
    done = subprocess.run(
        [python.parent / "flintmq", *words.format(a=a, b=b, c=c).split()],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout
