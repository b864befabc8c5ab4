"""Parts of a verification: what one finds, and where the next one begins."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.forensics.verify import verify_pass as module
from flintmq.forensics.verify.run import verify
from tests.compat.stores import Golden
from tests.support.makers import config_of, flip


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is looked at in blocks of 4 KiB, so that small stores have many places to stop at."""
    monkeypatch.setattr(module, "PIECE_BYTES", 4096)


def test_a_part_judges_its_own_records(golden: Callable[[str], Golden], tmp_path: Path):
    """Of two damaged records and two damaged units, a part tells those that lie in it, and nothing else."""
    store, root = golden("basic"), golden("basic").copy(tmp_path)
    rows = [row for row in store.rows if row["body_length"] > 20]
    early, late = rows[200], rows[-200]
    for row in (early, late):
        file = root / "commitlog" / f"{row['physical_offset'] // 131_072 * 131_072:020}"
        flip(file, row["physical_offset"] % 131_072 + 92)
        other = rows[rows.index(row) + 5]
        queue = root / "consumequeue" / other["topic"] / str(other["queue_id"])
        size = min(file.stat().st_size for file in queue.iterdir())
        name, position = divmod(other["queue_offset"] * 20, size)
        flip(queue / f"{name * size:020}", position + 11)
    config, middle = config_of(store), rows[len(rows) // 2]["physical_offset"]
    whole = verify(root, config)
    first = verify(root, config, end=middle)
    last = verify(root, config, begin=first.part_end)
    assert whole.defect_counts == {"record-damaged": 2, "unit-wrong": 2}
    assert first.defect_counts == last.defect_counts == {"record-damaged": 1, "unit-wrong": 1}
    assert Counter(first.defects) + Counter(last.defects) == Counter(whole.defects)
    assert (first.records + last.records, last.part_begin) == (whole.records, first.part_end)
    assert {note.code for note in [*first.notes, *last.notes]} <= {"units-lost", "index-lost"}


def test_no_part_of_a_sound_store_has_a_defect(golden_store: Golden):
    config, chance = config_of(golden_store), random.Random(golden_store.name)
    whole = verify(golden_store.path, config)
    if whole.defect_count:  # `poison`: RocketMQ's own defects
        return
    for _ in range(3):
        begin = chance.randrange(whole.log_begin, max(whole.log_end - 2000, whole.log_begin + 1))
        end = chance.choice([None, begin + 5000])
        assert verify(golden_store.path, config, begin=begin, end=end).defects == [], (begin, end)


@pytest.mark.parametrize("name", ["basic", "rolled", "cqext", "batch", "lmq", "delay", "crash"])
def test_a_run_that_is_stopped_has_looked_at_what_the_next_one_leaves_out(golden: Callable[[str], Golden], name: str):
    """Each record is counted once, and together they tell of the log what one run tells."""
    store, chance = golden(name), random.Random(name)
    config = config_of(store)
    answers: list[bool] = []

    def stop() -> bool:
        answers.append(len(answers) + 1 == blocks)
        return answers[-1]

    blocks = 0
    whole = verify(store.path, config, stop=stop)
    blocks = chance.randrange(1, len(answers))
    answers.clear()
    first = verify(store.path, config, stop=stop)
    assert (first.stopped, first.ending, len(answers)) == ("asked", "unseen", blocks)
    rest = verify(store.path, config, begin=first.part_end)
    assert (first.records + rest.records, rest.log_end, rest.stopped) == (whole.records, whole.log_end, None)
    assert first.part_end <= rest.part_begin
    of_log = {"record-damaged", "log-unordered", "blank-size", "start-cut", "start-refused"}
    told = [defect for defect in [*first.defects, *rest.defects] if defect.code in of_log]
    assert Counter(told) == Counter(defect for defect in whole.defects if defect.code in of_log)


@pytest.mark.parametrize("wrong", [{"begin": -1}, {"end": 0}, {"begin": 5, "end": 5}])
def test_numbers_that_cannot_be(golden: Callable[[str], Golden], wrong: dict[str, Any]):
    with pytest.raises(UsageError, match="the end must be after the beginning"):
        verify(golden("basic").path, **wrong)


def test_a_run_that_is_stopped_after_the_last_record_has_seen_the_end(golden: Callable[[str], Golden]):
    """It named a place to go on from where no record is, and that was refused."""
    store = golden("basic")
    config = config_of(store)
    whole = verify(store.path, config)
    last = max(row["physical_offset"] for row in store.rows)
    for found in (
        verify(store.path, config, end=whole.log_end),
        verify(store.path, config, begin=last, stop=lambda: True),
    ):
        assert (found.stopped, found.ending, found.part_end) == (None, whole.ending, whole.log_end)


def test_a_begin_behind_the_log(golden: Callable[[str], Golden]):
    with pytest.raises(UsageError, match="there is no intact record there or later"):
        verify(golden("basic").path, begin=10_000_000)
