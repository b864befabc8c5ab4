"""Files of tests whose folder needs what is not there."""

import pytest

from tests.harness import needs
from tests.harness.skips import allowed


@pytest.mark.parametrize(
    ("test", "absent", "lacks"),
    [
        ("tests/spark/test_source.py", {"pyspark"}, "pyspark"),
        ("tests/lake/read/test_scan.py", {"pyspark"}, ""),
        ("tests/lake/read/test_scan.py", {"polars", "deltalake"}, "deltalake"),
        ("tests/store/test_store.py", {"polars"}, ""),
    ],
)
def test_the_first_package_that_is_missing_is_named(monkeypatch, test, absent, lacks):
    monkeypatch.setattr(needs, "installed", lambda package: package not in absent)
    assert needs.lacking(test) == lacks
    assert not lacks or allowed(f"{lacks} is not installed")


def test_what_is_installed():
    assert needs.installed("pytest") and not needs.installed("nowhere") and not needs.installed("nowhere.below")


def test_a_file_that_is_skipped_is_not_imported(monkeypatch, request):
    class Module(pytest.Module):
        """One whose import would fail."""

    module = Module.from_parent(request.session, path=request.path.parents[1] / "lake" / "test_nothing.py")
    assert needs.report(request.session) is None and needs.report(module) is None
    monkeypatch.setattr(needs, "installed", lambda package: False)
    found = needs.report(module)
    assert (found.outcome, found.result) == ("skipped", []) and found.longrepr[2] == "Skipped: pyarrow is not installed"
