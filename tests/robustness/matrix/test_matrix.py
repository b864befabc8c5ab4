"""A tenth of the matrix a day, without Spark; FLINTMQ_TURN=0..19 names another (`make matrix`: all of it)."""

from pathlib import Path

import pytest

from labs.matrix.run import run_share, share
from tests.harness import turns
from tests.robustness.matrix.stores import CASES

TURN = turns.day()

for package in ("pyarrow", "duckdb", "polars", "pandas"):
    pytest.importorskip(package, reason=f"{package} is not installed")


@pytest.mark.parametrize("store", [store for store, _ in share(TURN, spark=False)])
def test_a_tenth_of_the_matrix(store: str, tmp_path: Path) -> None:
    asked, wrong = run_share([one for one in share(TURN, spark=False) if one[0] == store], tmp_path)
    assert asked[store] > 0
    assert not wrong, "\n".join(wrong)


def test_twenty_turns_are_all_of_it() -> None:
    """Ten, but for the large stores, of which no turn has two."""
    turn_pairs = [{(store, cell) for store, cells in share(turn, spark=False) for cell in cells} for turn in range(20)]
    large = [{pair for pair in pairs if CASES[pair[0]].large} for pairs in turn_pairs]
    assert all(len({store for store, _ in pairs}) <= 1 for pairs in large)
    pairs = [*(found - more for found, more in zip(turn_pairs[:10], large[:10], strict=True)), *large]
    assert set().union(*pairs) == {(store, cell) for store, cells in share(None, spark=False) for cell in cells}
    assert sum(map(len, pairs)) == len(set().union(*pairs))
    assert {store for store, _ in share(None, spark=False)} == set(CASES)
