"""The short form of labs/interop/damaged.py. The long one's figures stand in docs/internals/reliability.md."""

from pathlib import Path

import pytest

from labs.interop.damaged import _passes, make, run
from tests.interop.java import VERSIONS
from tests.interop.running_broker import java_of
from tests.support.crashed import small_and_quick
from tests.support.makers import flip

pytestmark = pytest.mark.slow


def test_t18_damaged_stores_are_recovered_alike_or_differ_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_of(VERSIONS[0])
    small_and_quick(monkeypatch.setattr)
    found, wrong = run(java, 0, 10)
    assert wrong == [] and found["same"] and found["refused"], (found, wrong)


def test_records_that_changed_places_are_among_what_rocketmq_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one size, the log's last: the sectors that hold them were swapped."""
    small_and_quick(monkeypatch.setattr)
    root = tmp_path / "store"
    whole = make(root, 670)
    first, second = (offset for offset in whole.records if offset not in whole.stands(root))
    assert _passes(root, first) and _passes(root, second)
    path = root / "commitlog" / f"{first - first % 8192:020d}"
    flip(path, first % 8192 + 100)  # in the body
    assert not _passes(root, first)
