"""The doctor's rows about Spark: its version, the jar, Java, and the Python of workers that are made to be ill."""

import sys
from pathlib import Path

import pyspark
import pytest

from flintmq.cli import installation
from flintmq.cli.lake.installation import spark_checks
from flintmq.errors import JavaNotFoundError
from flintmq.spark import door


def by_name(checks: list[installation.Check]) -> dict[str, installation.Check]:
    return {check.name: check for check in checks}


def no_java() -> str:
    raise JavaNotFoundError("Spark needs Java; install one")


def test_java_is_told_or_its_absence() -> None:
    assert by_name(spark_checks(lambda: "Java 17, /opt/java"))["java"] == installation.Check(
        "java", "ok", "Java 17, /opt/java"
    )
    check = by_name(spark_checks(no_java))["java"]
    assert check.state == "missing" and check.found == "Spark needs Java; install one"


def test_the_workers_python_is_compared_with_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    checks = by_name(spark_checks(no_java))
    assert checks["spark workers"].found == "this Python, by PYSPARK_PYTHON"
    assert checks["spark sources"].state == "ok", checks["spark sources"]

    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    check = by_name(spark_checks(no_java))["spark workers"]
    assert check.state == "broken" and f"export PYSPARK_PYTHON={sys.executable}" in check.advice

    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 0\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(silent))
    check = by_name(spark_checks(no_java))["spark workers"]
    assert check.state == "broken" and f"{silent} does not run" in check.found


def test_a_broken_source_of_somebody_else_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyspark_other.py").write_text("raise RuntimeError('half installed')\n")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = spark_checks(no_java)
    check = by_name(found)["spark sources"]
    assert check.state == "broken" and "pyspark_other" in check.found and "half installed" in check.found
    assert not installation.diagnose(found).healthy


def test_the_version_of_spark_and_the_jar_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checks = by_name(spark_checks(no_java))
    assert checks["spark version"].state == "ok"
    assert checks["spark version"].found == f"PySpark {pyspark.__version__}; supported are 4.0 to 4.3"

    monkeypatch.setattr(door, "JAR", tmp_path / "flintmq-door.jar")
    check = by_name(spark_checks(no_java))["spark jar"]
    assert check.state == "missing" and check.found == "not built: the source in Python is used"
    door.JAR.write_bytes(b"PK")
    assert by_name(spark_checks(no_java))["spark jar"] == installation.Check("spark jar", "ok", str(door.JAR))

    monkeypatch.setattr("flintmq.cli.lake.installation.installed", lambda name: "3.5.6")
    check = by_name(spark_checks(no_java))["spark version"]
    assert check.state == "missing" and "was tried with Spark 4.0 to 4.3, and this is 3.5.6" in check.found
    assert not any("\n" in one.found for one in spark_checks(no_java))
