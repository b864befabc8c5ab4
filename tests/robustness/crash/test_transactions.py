"""kill -9 amid transactions, the short form of `python -m labs.crash.transacting`."""

from pathlib import Path

import pytest

from labs.crash.transacting import lives_of, one_store


@pytest.mark.parametrize("seed", [1, 2])
def test_each_ends_once_as_its_sender_said(tmp_path: Path, seed: int):
    figures, wrong = one_store(tmp_path, lives_of(seed, 5))
    assert wrong == []
    assert figures["begun"] > 5 and figures["delivered"] > 0, figures
