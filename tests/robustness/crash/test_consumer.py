"""Consumers under kill -9 and power cuts: nothing acknowledged is skipped, no committed offset goes back."""

import random
import shutil
from pathlib import Path

import pytest

from flintmq.message import Outcome
from flintmq.testing.contract import check_contract
from labs.crash.consuming import lives_of, offsets_on_disk, one_store
from tests.robustness.crash.lives import Life
from tests.support.engine import message, open_small
from tests.support.faults import Faulty
from tests.support.unplugged import Unplugged, write


@pytest.mark.parametrize("number", [0, 1])
def test_kill_at_random_moments_and_at_chosen_calls(tmp_path: Path, number: int):
    acknowledged, _, committed = one_store(tmp_path, lives_of(number), check_contract)
    # Most lives end after so many milliseconds: a busy machine gets little done in them.
    assert acknowledged > 10 and committed > 10, (acknowledged, committed)


def test_kill_at_calls_in_turn(tmp_path: Path):
    """Calls of recovery, of the first commits, and of each replacement of the files of config/."""
    found = [Life(n, n, "SYNC_FLUSH", at_call=call) for n, call in enumerate(range(20, 120, 7))]
    one_store(tmp_path, [*found, Life(99, 99, "SYNC_FLUSH", after_s=0.4)], check_contract)


@pytest.mark.parametrize("worst", [True, False], ids=["nothing-unsynced", "any-sectors"])
@pytest.mark.parametrize("disk", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_power_lost_before_a_sync(tmp_path: Path, disk: str, worst: bool):
    """What commit returned for is there, and names no message that the cut took."""
    chance, cuts = random.Random(11), []
    told: dict[int, int] = {}
    done: set[tuple[int, int]] = set()
    acknowledged: set[tuple[int, int]] = set()

    def cut() -> None:
        if chance.random() < 0.3:
            cuts.append((plug.image(None if worst else chance), dict(told), set(done), set(acknowledged)))

    root = tmp_path / "store"
    root.mkdir()
    plug = Unplugged(root, cut)
    with open_small(root, plug, flushDiskType=disk, flushIntervalCommitLog=5) as store:
        with store.consumer("G", "T") as consumer:
            for n in range(60):
                result = store.put(message(n, queue_id=n % 2))
                if result.outcome is Outcome.OK and disk == "SYNC_FLUSH":
                    acknowledged.add((n % 2, result.queue_offset))
                done |= {(m.queue_id, m.queue_offset) for m in consumer.poll(2, wait_ms=5)}
                if n % 3 == 0:
                    told |= consumer.commit()
    plug.forget()
    assert len(cuts) > 10 and max(sum(known.values()) for _, known, _, _ in cuts) > 20
    for image, known, handed_out, safe in chance.sample(cuts, min(len(cuts), 25)):
        write(image, tmp_path / "cut")
        there = {queue: offset for (_, queue), offset in offsets_on_disk(tmp_path / "cut").items()}
        assert all(there.get(queue, -1) >= offset for queue, offset in known.items()), (there, known)
        with open_small(tmp_path / "cut", Faulty()) as store:
            for queue, offset in there.items():
                assert offset <= store.get("T", queue, 0).max_offset, "it names only what is on disk"
                assert {(queue, n) for n in range(offset)} <= handed_out
            with store.consumer("G", "T", idle_ms=0) as consumer:
                again = {(m.queue_id, m.queue_offset) for m in consumer}
            assert safe <= handed_out | again, "nothing acknowledged is skipped"
        shutil.rmtree(tmp_path / "cut")
