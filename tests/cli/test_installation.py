"""The doctor: findings about this installation, and about installations that are made to be ill."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flintmq.cli import installation
from flintmq.kernels import _select


def by_name(diagnosis: installation.Diagnosis) -> dict[str, installation.Check]:
    return {check.name: check for check in diagnosis.checks}


def test_this_installation_is_healthy_and_says_what_it_is() -> None:
    checks = by_name(installation.diagnose())
    assert checks["self-test"].state == "ok", checks["self-test"]
    assert importlib.metadata.version("flintmq") in checks["flintmq"].found
    assert sys.executable in checks["python"].found
    assert checks["kernels"].found.startswith("compiled: ") == (_select.compiled() and not _select.stale())


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    names = dict(project["optional-dependencies"])
    assert project["dependencies"] == []
    for extra in installation.EXTRAS:
        wanted = {re.split(r"[^A-Za-z0-9_.-]", one)[0] for one in names.pop(extra)} - {"flintmq"}
        assert set(installation.EXTRAS[extra][1]) == wanted, extra
    assert set(names) == {"all", "bench", "site", "dev"}


def test_what_an_extra_lacks_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("jinja2", "fastavro", "duckdb"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name) if name == "flintmq" else "1.0"

    monkeypatch.setattr(importlib.metadata, "version", without)
    diagnosis = installation.diagnose()
    checks = by_name(diagnosis)
    assert (
        diagnosis.healthy
        and checks["stats"].state == "missing"
        and checks["stats"].found.startswith("not installed: jinja2 (")
    )
    assert (checks["duckdb"].state, checks["duckdb"].advice) == ("missing", "pip install 'flintmq[duckdb]'")
    assert checks["avro"].advice == "pip install 'flintmq[avro]'"
    assert (checks["delta"].state, checks["delta"].found) == ("ok", "deltalake 1.0")


def test_the_sample_record_is_the_one_that_java_wrote(golden) -> None:  # type: ignore[no-untyped-def]
    log = golden("flags").path / "commitlog" / "00000000000000000000"
    with log.open("rb") as file:
        file.seek(installation.RECORD_AT)
        assert file.read(len(installation.RECORD)) == installation.RECORD


@pytest.mark.parametrize("at", [0, 4, 8, 28, 84, 88])
def test_a_sample_that_is_damaged_is_refused(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(installation.RECORD)
    damaged[at] ^= 0x10
    monkeypatch.setattr(installation, "RECORD", bytes(damaged))
    check = by_name(installation.diagnose())["self-test"]
    assert check.state == "broken" and "a sound record is refused" in check.found and "FLINTMQ_PURE=1" in check.advice


def test_a_walker_that_sees_no_damage_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_counts", lambda record: True)
    diagnosis = installation.diagnose()
    assert not diagnosis.healthy
    assert "a flipped bit in byte 8 goes unseen" in by_name(diagnosis)["self-test"].found


def test_uncompiled_kernels_are_slow_and_no_illness() -> None:
    script = "from flintmq.cli import installation as doctor; d = doctor.diagnose(); print(d.healthy, d.checks[2])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "FLINTMQ_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("True Check(name='kernels', state='slow'"), done.stdout
    assert "unset FLINTMQ_PURE" in done.stdout
