"""Finds out whether Spark would run here: its version and Java, our jar, its workers.

Nothing is downloaded, and no session is started.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from flintmq.cli.installation import BROKEN, OK, OPTIONAL, Check, installed
from flintmq.errors import JavaNotFoundError, UsageError

_WORKER = """
import importlib, json, pkgutil, sys
found = {"executable": sys.executable, "version": sys.version.split()[0], "sources": {}}
try:
    import flintmq
    found["flintmq"] = flintmq.__version__
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
for module in pkgutil.iter_modules():
    if module.name.startswith("pyspark_"):
        try:
            importlib.import_module(module.name)
            found["sources"][module.name] = ""
        except Exception as error:
            found["sources"][module.name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
_WORKER_TIMEOUT_S = 60


def found_java() -> str:
    from flintmq.spark.java import find_java

    java = find_java()
    return f"Java {java.version}, {java.home} (found by {java.origin})"


def spark_checks(find_java: Callable[[], str] = found_java) -> list[Check]:
    """Check Spark's version, our jar, Java and Spark's Python; nothing without PySpark."""
    version = installed("pyspark")
    return [] if version is None else [_version(version), _jar(), _java(find_java), *_workers()]


def _version(version: str) -> Check:
    from flintmq.spark.versions import TRIED, check_spark

    try:
        check_spark(version)  # by its name: a PySpark that cannot be imported shall not end the doctor
    except UsageError as error:
        return Check("spark version", OPTIONAL, error.without_advice, error.advice)
    return Check("spark version", OK, f"PySpark {version}; supported are {TRIED[0]} to {TRIED[-1]}")


def _jar() -> Check:
    from flintmq.spark.door import JAR

    if JAR.is_file():
        return Check("spark jar", OK, str(JAR))
    advice = "reinstall flintmq where there is Java 17 or later; docs/spark/jvm.md says what the jar brings"
    return Check("spark jar", OPTIONAL, "not built: the source in Python is used", advice)


def _java(find_java: Callable[[], str]) -> Check:
    try:
        return Check("java", OK, find_java())
    except JavaNotFoundError as error:
        return Check("java", OPTIONAL, str(error))


def _workers() -> list[Check]:
    """Check the Python that Spark's workers would run, and the data sources it finds."""
    named = os.environ.get("PYSPARK_PYTHON")
    path = shutil.which(named or "python3")
    set_it = f"for Spark programs of your own: export PYSPARK_PYTHON={sys.executable}"
    if path is None:
        return [Check("spark workers", BROKEN if named else OPTIONAL, f"no {named or 'python3'} on the path", set_it)]
    try:
        done = subprocess.run([path, "-c", _WORKER], capture_output=True, timeout=_WORKER_TIMEOUT_S, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return [Check("spark workers", BROKEN, f"{path} does not run: {type(error).__name__}", set_it)]
    if found["executable"] != sys.executable:
        lacks = "" if "flintmq" in found else "; flintmq is not installed there"
        text = (
            f"this Python by flintmq.spark.session; else Spark starts {found['executable']} ({found['version']}){lacks}"
        )
        return [Check("spark workers", OK, text, set_it)]
    how = "PYSPARK_PYTHON" if named else "python3 on the path"
    return [Check("spark workers", OK, f"this Python, by {how}"), *_sources(found["sources"])]


def _sources(sources: dict[str, str]) -> list[Check]:
    """Check `pyspark_*` modules: one that fails to import makes Spark miss all Python sources."""
    checks = []
    for name, error in sorted(sources.items()):
        if error:
            advice = f"repair or uninstall {name}; until then call flintmq.spark.register(spark)"
            checks.append(Check("spark sources", BROKEN, f"{name} fails to import: {error[:120]}", advice))
    if "pyspark_flintmq" not in sources:
        advice = "reinstall flintmq; until then call flintmq.spark.register(spark)"
        checks.append(Check("spark sources", BROKEN, "pyspark_flintmq is not installed", advice))
    return checks or [Check("spark sources", OK, "spark.read.format('flintmq') is found by name")]
