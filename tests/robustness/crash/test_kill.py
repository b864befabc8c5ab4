"""kill -9 at random moments and at chosen calls: the whole contract after each few lives (T3, short form)."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.store.message_store import MessageStore
from flintmq.testing.contract import PutLedger, check_contract, read_ledger
from tests.robustness.crash.lives import KEYS, Life, live


def run(root: Path, lives: list[Life]) -> None:
    """Live them all on one store, and check the contract at the end."""
    ledger = root / "ledger"
    for life in lives:
        assert live(root / "store", ledger, life) == "killed", life
    told = lives[-1]
    while not read_ledger(ledger)[1] and (told.after_s or 0) < 6:  # all may end before their first put
        told = replace(told, number=told.number + 1, seed=told.seed + 1, after_s=(told.after_s or 0) + 0.5)
        assert live(root / "store", ledger, told) == "killed", told
    found = check_contract(root / "store", ledger)
    assert found.wrong == {}, (found, lives)
    assert found.acknowledged > 0 and found.stored >= found.acknowledged


def live_until_told(root: Path, *, pool: bool = False) -> None:
    """One life that answered puts; on a busy machine some may be over before the first."""
    for number in range(10):
        assert live(root / "store", root / "ledger", Life(number, number, after_s=0.4 + number, pool=pool)) == "killed"
        if read_ledger(root / "ledger")[1]:
            return


@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_kill_at_random_moments(tmp_path: Path, disk: str):
    """Ten kills: some of them while the store is being recovered, most while it rolls over."""
    chance = random.Random(31)
    run(tmp_path, [Life(n, n, disk, after_s=chance.choice((0.01, 0.03, 0.06, 0.15))) for n in range(9)]
        + [Life(9, 9, disk, after_s=0.3)])  # fmt: skip


@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_kill_at_calls_in_turn(tmp_path: Path, disk: str):
    """The first calls are those of recovery and of the first files; later ones roll over, flush and dispatch."""
    calls = [*range(0, 40, 3), 60, 90, 130, 200]
    run(tmp_path, [Life(n, n, disk, at_call=call) for n, call in enumerate(calls)] + [Life(99, 99, disk, after_s=0.2)])


def test_kill_with_the_pool_under_sync_flush(tmp_path: Path):
    """What waits for the disk is committed first: the whole contract holds."""
    lives = [Life(n, n, "SYNC_FLUSH", at_call=7 * n, pool=True) for n in range(8)]
    run(tmp_path, [*lives, Life(9, 9, "SYNC_FLUSH", after_s=0.3, pool=True)])


def test_kill_with_the_pool_costs_the_end_that_was_not_committed(tmp_path: Path):
    """The price of the pool: what only the process had is lost, always the newest, and nothing else is wrong."""
    live_until_told(tmp_path, pool=True)
    found = check_contract(tmp_path / "store", tmp_path / "ledger")
    assert found.wrong == {} and found.stored > 0, found
    _, told = read_ledger(tmp_path / "ledger")
    with MessageStore(tmp_path / "store", config=KEYS, unique_keys=False) as store:
        end = max(m.physical_offset + m.size for m in store)
    lost = [answer for answer in told.values() if answer["place"] >= end]
    assert len(lost) == found.uncommitted, "behind the end and nowhere else"
    youngest = max(answer["time"] for answer in told.values())
    assert all(youngest - answer["time"] < 2000 for answer in lost), "200 ms, on a machine that is not busy"


def test_interrupts_inside_puts_take_nothing_apart(tmp_path: Path):
    """SIGINT, which Python turns into an exception anywhere in the main thread; the user goes on putting."""
    lives = [Life(n, n, after_s=0.3, interrupts=15) for n in range(4)]
    run(tmp_path, lives)


def test_a_ledger_knows_what_was_sent_and_told(tmp_path: Path):
    live_until_told(tmp_path)
    sent, told = read_ledger(tmp_path / "ledger")
    assert sent and set(told) <= set(sent)
    assert len(sent) - len(told) <= 3, "one put under way in each thread at most"
    assert {answer["status"] for answer in told.values()} == {"PUT_OK"}


def test_a_line_of_the_ledger_that_a_kill_cut_says_nothing(tmp_path: Path):
    path = tmp_path / "ledger"
    path.write_bytes(b'{"sent": "0-0-1"}\n{"told": "0-0-1", "status": "PUT_OK"}\n{"sent": "0-0-2", "dig')
    PutLedger(path).line(sent="1-0-0")
    sent, told = read_ledger(path)
    assert list(sent) == ["0-0-1", "1-0-0"] and list(told) == ["0-0-1"]
