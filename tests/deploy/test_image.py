"""deploy/Dockerfile without Docker: each instruction is looked at, and what it runs is run in a bare environment."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.compat.stores import Golden
from tests.deploy.conftest import ROOT, run

pytestmark = pytest.mark.slow
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
HERE = {
    "FLINTMQ_MUST_COMPILE=1 ": "FLINTMQ_PURE=1 ",  # compiled kernels are tried by tests/test_install.py
    "pip wheel ": "pip wheel --no-index --no-build-isolation ",
    " python -m ": f" {sys.executable} -m ",
}
"""What runs otherwise here than in a container, which has an index."""
NOT_RUN = "apt-get "


def instructions() -> list[tuple[str, str]]:
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE)
    assert len(found) == len([line for line in text.splitlines() if line and not line.startswith("#")])
    return found


def all_of(name: str) -> list[str]:
    return [words for one, words in instructions() if one == name]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a file through: the last line that fits counts, for what is below it too."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!")
            parts = Path(path).parts
            begins = ["/".join(parts[: end + 1]) for end in range(len(parts))]
            names = parts if pattern.startswith("**/") else ()
            if any(fnmatch(one, pattern) for one in begins) or any(fnmatch(one, pattern[3:]) for one in names):
                sent = line.startswith("!")
    return sent


def test_the_base_is_pinned_and_the_same_twice() -> None:
    bases = [words.split()[0] for words in all_of("FROM")]
    assert len(bases) == 2 and len({*bases}) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", bases[0])


def test_it_is_not_root_and_takes_commands() -> None:
    order = [name for name, _ in instructions()]
    [user] = all_of("USER")
    number, group = map(int, user.split(":"))
    assert number >= 10000 and group >= 10000, "a number: Kubernetes' runAsNonRoot reads no names"
    assert order.index("USER") > max(at for at, name in enumerate(order) if name in ("RUN", "COPY"))
    assert order.count("ENTRYPOINT") == order.count("CMD") == 1


def test_what_is_copied_is_there_and_is_sent() -> None:
    copied = [words.split()[:-1] for words in all_of("COPY") if not words.startswith("--from=")]
    sources = [source for sources in copied for source in sources]
    assert {"src", "setup.py", "pyproject.toml"} <= {*sources}
    assert [source for source in sources if not (ROOT / source).exists() or not is_sent(source)] == []
    assert is_sent("src/flintmq/kernels/read/walk.pxd")
    left = ["src/flintmq/kernels/read/walk.cpython-311-x86_64-linux-gnu.so", "src/flintmq/__pycache__/a.pyc", "tests/a"]
    left += [".git/config", "src/flintmq.egg-info/PKG-INFO", "dist/flintmq.pyz", "docs/README.md", ".venv/bin/python"]
    assert [path for path in left if is_sent(path)] == []


def test_what_comes_from_the_first_stage_is_made_there() -> None:
    [words] = [words for words in all_of("COPY") if words.startswith("--from=")]
    stage, source, target = words.split()
    assert all_of("FROM")[0].endswith(f" AS {stage.removeprefix('--from=')}")
    assert source == target, "scripts of an environment name their interpreter"
    assert any(f" {source}" in line for line in all_of("RUN"))
    assert all_of("ENTRYPOINT") == [f'["{source}/bin/flintmq"]']


@pytest.fixture(scope="module")
def built(tree: Path) -> Iterator[Path]:
    """The directory in place of `/` of a container, after all that the file runs; anybody may look into it."""
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        root = Path(name)
        root.chmod(0o755)
        shutil.copytree(tree, root / "flintmq")
        lines = [line for line in all_of("RUN") if not line.startswith(NOT_RUN)]
        assert len(lines) == len(all_of("RUN")) - 1 == 3
        used = dict.fromkeys(HERE, 0)
        for line in lines:
            code = f" {line}"
            for there, here in HERE.items():
                used[there] += code.count(there)
                code = code.replace(there, here)
            code = re.sub(r"(?<= )/(?=flintmq|opt|wheels)", f"{root}/", code)
            done = run("bash", "-ec", code, cwd=root)
            assert done.returncode == 0, f"{code}\n{done.stderr}"
        assert used == {"FLINTMQ_MUST_COMPILE=1 ": 1, "pip wheel ": 1, " python -m ": 3}
        yield root


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_what_it_runs_makes_a_command(built: Path, golden: Callable[[str], Golden]) -> None:
    """`docker run -v /store:/store flintmq verify /store`, with a directory for `/`."""
    [entry] = all_of("ENTRYPOINT")
    program = f"{built}{entry.strip('[]').strip(chr(34))}"
    done = run(program, "verify", golden("basic").path, cwd=built)
    assert done.returncode == 0 and "result  no defects, no notes" in done.stdout, done.stderr
    assert run(program, "--help", cwd=built).stdout.startswith("Usage: flintmq")
    environment = built / "opt" / "flintmq" / "lib"
    [packages] = environment.rglob("site-packages")
    assert {path.name.partition("-")[0] for path in packages.iterdir()} - {"__pycache__"} == {
        "flintmq", "pyspark_flintmq.py",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_another_user_runs_it(built: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    [user] = all_of("USER")
    number, group = map(int, user.split(":"))
    as_user = {"cwd": "/", "user": number, "group": group, "extra_groups": [], "capture_output": True, "text": True}
    new_enough = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        with suppress(OSError):  # this one lies where others may not look, or nowhere
            if subprocess.run([python, *new_enough], **as_user).returncode == 0:
                break
    else:
        pytest.skip("no interpreter that other users may run")
    [packages] = (built / "opt").rglob("site-packages")
    environment = {"PYTHONPATH": str(packages)}
    done = subprocess.run([python, "-m", "flintmq", "doctor"], env=environment, **as_user)
    assert done.returncode == 0 and str(packages) in done.stdout, done.stderr
    script = built / "opt" / "flintmq" / "bin" / "flintmq"
    assert script.stat().st_mode & 0o005 == 0o005, "others may run it"
