"""`flintmq doctor`: what is printed. What is found is tested in tests/forensics."""

from __future__ import annotations

import pytest

from flintmq.errors import JavaNotFoundError
from flintmq.forensics.doctor import Check, Diagnosis
from tests.cli.conftest import Run


def test_this_installation(run: Run) -> None:
    result = run("doctor")
    assert result.code == 0, result.out
    for name in ("flintmq ", "python ", "kernels ", "crc32 ", "self-test "):
        assert f"\n{name}" in "\n" + result.out


def test_json(run: Run) -> None:
    [found] = run("doctor", "--json").rows
    assert list(found) == ["checks"]
    assert all(list(check) == ["name", "state", "found", "advice"] for check in found["checks"])
    assert {"flintmq", "python", "kernels", "crc32", "self-test"} <= {check["name"] for check in found["checks"]}


def test_an_ill_installation_is_exit_code_1_with_advice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ill = Diagnosis([Check("python", "ok", "3.11"), Check("self-test", "broken", "it lies\x1b", "reinstall")])
    monkeypatch.setattr("flintmq.forensics.doctor.diagnose", lambda find_java: ill)
    result = run("doctor")
    assert result.code == 1
    assert result.out == "python     ok      3.11\nself-test  broken  it lies\\x1b\n                   -> reinstall\n"


def test_java_is_asked_for_where_spark_would_look(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")

    def none() -> None:
        raise JavaNotFoundError("Spark needs Java; install one")

    monkeypatch.setattr("flintmq.spark.java.find_java", none)
    assert "java           missing  Spark needs Java; install one" in run("doctor").out
