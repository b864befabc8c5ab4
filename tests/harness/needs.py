"""What a folder of tests needs: where one of these packages is not installed, its files are skipped."""

from functools import cache
from importlib.util import find_spec

import pytest

TABLES = ("pyarrow", "numpy", "deltalake", "pyiceberg", "duckdb", "polars", "fastavro", "google.protobuf")
NEEDS = {
    "tests/cli/lake/": ("pyspark", "pyarrow"),
    "tests/frames/": ("pyarrow", "duckdb", "polars"),
    "tests/lake/": TABLES,
    "tests/spark/": ("pyspark", "pandas", *TABLES),
}
"""Begin of a path -> packages, by the names that one imports them by."""


@cache
def installed(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even what it is a part of
        return False


def lacking(test: str) -> str:
    """The first package that a file of tests needs and that is not there, or nothing."""
    needed = next((packages for begin, packages in NEEDS.items() if test.startswith(begin)), ())
    return next((package for package in needed if not installed(package)), "")


def report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """For pytest_make_collect_report: a file that cannot run is skipped before it is imported."""
    package = lacking(collector.nodeid) if isinstance(collector, pytest.Module) else ""
    if not package:
        return None
    place = (str(collector.path), 0, f"Skipped: {package} is not installed")
    return pytest.CollectReport(collector.nodeid, "skipped", place, [])
