"""The long kill loop, one store of each kind: ten lives that nobody looks at in between, then the contract."""

from pathlib import Path

import pytest

from labs.crash.loop import COUNTS, KINDS, LIVES, kind_of, one_store, series


@pytest.mark.parametrize("number", [*range(len(KINDS)), 2 * len(KINDS) + 1])  # the last follows 5.5.0
def test_ten_lives_in_a_row_keep_the_contract(tmp_path: Path, number: int):
    assert kind_of(number)[2] == ("5.3.3" if number < len(KINDS) else "5.5.0")
    found = one_store(number, tmp_path)
    assert found.wrong == {} and found.stored > 0, found
    sums = dict.fromkeys(("cycles", "opening", *COUNTS), 0) | {"cycles": LIVES + 1, "stored": found.stored}
    [row] = series({"begun": "", "sums": {"X": sums}}).rows
    assert row[:8] == [LIVES + 1, 0, "X", 0, 0, 0, found.stored, 0]
