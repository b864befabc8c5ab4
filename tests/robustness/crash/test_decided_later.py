"""kill -9 amid transactions and amid timers, the short form of `labs.crash.transacting` and `labs.crash.timing`."""

from pathlib import Path

import pytest

from labs.crash import timing, transacting
from labs.crash.killing import lives_of, one_store


@pytest.mark.parametrize("seed", [1, 2])
def test_each_transaction_ends_once_as_its_sender_said(tmp_path: Path, seed: int):
    figures, wrong = one_store(tmp_path, lives_of(seed, 5), transacting.live_and_transact, transacting.judge)
    assert wrong == []
    assert figures["begun"] > 5 and figures["delivered"] > 0, figures


@pytest.mark.parametrize("seed", [1, 2])
def test_each_message_comes_once_and_none_early(tmp_path: Path, seed: int):
    figures, wrong = one_store(tmp_path, lives_of(seed, 5), timing.live_and_wait, timing.judge)
    assert wrong == []
    assert figures["put"] > 5 and figures["delivered"] > 0, figures
