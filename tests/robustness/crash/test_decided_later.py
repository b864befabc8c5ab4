"""kill -9 amid transactions and amid timers, the short form of `labs.crash.transacting` and `labs.crash.timing`."""

from collections import Counter
from pathlib import Path

import pytest

from labs.crash import timing, transacting
from labs.crash.killing import Judge, Work, lives_of, one_store

STORES = 4  # at most, until enough has happened in their lives: on a busy machine a life of 0.1 s does little


def lived(folder: Path, seed: int, work: Work, judge: Judge, begun: str) -> Counter[str]:
    """Live on stores until more than five messages have been begun and one delivered; nothing may be wrong."""
    total = Counter[str]()
    for number in range(STORES):
        (folder / str(number)).mkdir()
        figures, wrong = one_store(folder / str(number), lives_of(seed + 10 * number, 5), work, judge)
        assert wrong == []
        total += figures
        if total[begun] > 5 and total["delivered"] > 0:
            return total
    raise AssertionError(f"nearly nothing happened: {total}")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_transaction_ends_once_as_its_sender_said(tmp_path: Path, seed: int):
    assert lived(tmp_path, seed, transacting.live_and_transact, transacting.judge, "begun")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_message_comes_once_and_none_early(tmp_path: Path, seed: int):
    assert lived(tmp_path, seed, timing.live_and_wait, timing.judge, "put")
