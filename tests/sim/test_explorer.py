"""Power cuts on a simulated disk (T1, T2, T10, T11, T14, short form): found seeds, some of each kind, the measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.store.append.flush import PythonFlush
from flintmq.store.consumequeue import writer
from flintmq.store.message_store import MessageStore
from flintmq.store.recovery import apply, truncate
from tests.sim.disk import MODELS, Image, SimDisk
from tests.sim.explorer import Explorer, shrunk
from tests.sim.run import PAIRS, SHORT, STORE, Case, SimRun

SEEDS = [
    line.split(maxsplit=2) for line in (Path(__file__).parents[1] / "seeds.txt").read_text().splitlines()
    if not line.startswith("#")
]  # fmt: skip


def explore(seed: int, model: str, per_cut: int = 3) -> Explorer:
    """A case that must hold at every call."""
    found = Explorer(Case.of(seed, model), per_cut).go()
    assert [(f.replay, f.what) for f in found.failures] == []
    assert found.counts.total() > 0
    return found


@pytest.mark.parametrize(("seed", "model", "found"), SEEDS)
def test_what_was_found_once_stays_mended(seed: str, model: str, found: str):
    number, _, one = seed.partition("@")
    if one:
        cut, state = map(int, one.split(":"))
        explored = Explorer(Case.of(int(number), model), 8, cut, state).go()
        assert explored.failures == [] and explored.counts.total() > 0
    else:
        explore(int(seed), model, 2)


@pytest.mark.parametrize("model", MODELS)
def test_short_cases_hold_at_every_call(model: str):
    """A sample of those of two operations; each model another one."""
    seeds = range(MODELS.index(model), PAIRS, 307)
    assert sum(explore(seed, model, 3).counts.total() for seed in seeds) > 100


@pytest.mark.parametrize("model", MODELS)
def test_drawn_cases_of_some_lives_hold_at_every_call(model: str):
    depths = explore(SHORT + 7, model, 2).counts
    assert depths[2] > 0, "recovery was stopped, too"


def test_cases_in_which_one_sync_stands_for_those_of_all_queues_hold_at_every_call(monkeypatch: pytest.MonkeyPatch):
    """The first flush of the queues after a kill, also where that sync fails or the power does."""
    monkeypatch.setattr(writer, "MANY_FILES", 1)
    reached: list[int] = []
    sync_disk = SimDisk.sync_disk

    def counted(self: SimDisk, disk: int) -> None:
        reached.append(self.calls)
        sync_disk(self, disk)

    monkeypatch.setattr(SimDisk, "sync_disk", counted)
    for seed in (*range(2, PAIRS, 409), SHORT + 7):
        explore(seed, "ext4", 2)
    assert len(reached) > 50


def test_one_state_is_made_again_by_its_numbers():
    whole = Explorer(Case.of(40000, "ext4"), 2)
    seen: list[tuple[int, int, Any]] = []
    look = whole._look

    def note(image: Any, book: Any, cut: int, number: int, depth: int) -> None:
        seen.append((cut, number, image) if depth == 1 else (0, 0, None))
        look(image, book, cut, number, depth)

    whole._look = note  # type: ignore[method-assign]
    whole.go()
    cut, number, image = next(s for s in reversed(seen) if s[1] == 2)
    again = Explorer(Case.of(40000, "ext4"), 2, cut, number)
    images = []
    again._look = lambda image, *rest: images.append(image)  # type: ignore[method-assign]
    again.go()
    assert images == [image] and again.trace == whole.trace


def test_an_answer_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch):
    """The measure itself: an engine that does not sync loses what it acknowledged."""
    monkeypatch.setattr(MappedFile, "flush", lambda self, target, sync=None: setattr(self, "flushed", target))
    assert any("lost" in f.what for f in Explorer(Case.of(0, "ext4"), 4).go().failures)


def test_a_failed_sync_that_is_tried_again_is_found(monkeypatch: pytest.MonkeyPatch):
    from tests.sim.faults import sweep

    flush = PythonFlush.flush_once

    def again(self: PythonFlush, least_pages: int = 0) -> bool:
        done = flush(self, least_pages)
        if self.failure:
            self.failure.reason, self.files.sync_error = "", 0
            done = flush(self, least_pages)
        return done

    monkeypatch.setattr(PythonFlush, "flush_once", again)
    assert sweep(Case(1, "ext4", Case.of(0, "ext4").keys, [("put", "plain", 300, 0, 0)] * 3), (5,)).failures


def test_a_tail_that_is_not_zeroed_is_found_and_the_case_is_made_smaller(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(truncate, "_zero", lambda *asked: None)
    keys = Case.of(4, "ext4").keys | {"flushDiskType": "ASYNC_FLUSH"}
    ops = [*[("put", "plain", 200, 0, 0)] * 6, ("save",), ("cut",), ("put", "plain", 200, 0, 0)]
    case = Case(3, "journal", keys, ops)
    assert Explorer(case, 4).go().failures
    assert len(shrunk(case, 4).ops) < len(ops)


def test_a_state_that_was_met_before_counts_once():
    """Equal images are compared again where more is promised by then, but are one state."""
    explorer = Explorer(Case.of(1234, "ext4"), 4)
    images: set[Any] = set()
    look = explorer._look

    def note(image: Any, book: Any, cut: int, number: int, depth: int) -> None:
        images.add((tuple(image.files.items()), image.power))
        look(image, book, cut, number, depth)

    explorer._look = note  # type: ignore[method-assign]
    explorer.go()
    assert explorer.counts.total() == len(images) and explorer.again > 0
    assert 0 < explorer.counts[0] == sum(not power for _, power in images)


def test_until_the_log_is_cut_abort_tells_of_the_boot_that_ended(monkeypatch: pytest.MonkeyPatch):
    """Found by the explorer: a kill amid the cut hid from the next start that the power had failed."""
    case = Case(1, "ext4", Case.of(0, "ext4").keys, [("put", "plain", 300, 0, 0)] * 3)
    run = SimRun(case, SimDisk(1, "ext4"))
    run.go()
    left = run.disk.shown()
    disk = SimDisk(1, "ext4", Image(left.files, left.clock, left.boot + 1))
    before = disk.read_file(f"{STORE}/abort", 100)
    assert before is not None and before.endswith(b"boot-0")

    def stop(*asked: Any, **more: Any) -> None:
        raise OSError(5, "stopped")

    with monkeypatch.context() as patched:
        patched.setattr(apply, "truncate_log", stop)
        with pytest.raises(OSError, match="stopped"):
            MessageStore(STORE, config=case.keys, effects=disk, services=False, unique_keys=False)
    assert disk.read_file(f"{STORE}/abort", 100) == before
    MessageStore(STORE, config=case.keys, effects=disk, services=False, unique_keys=False)
    assert (disk.read_file(f"{STORE}/abort", 100) or b"").endswith(b"boot-1")
