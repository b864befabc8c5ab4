"""A follower on a simulated disk and line (short form): some cases of each model; wrong followers are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.ha import connection, follower_line, follower_store, overlap
from flintmq.ha.follower_steps import FollowerSteps
from flintmq.ha.follower_store import FollowerStore
from flintmq.ha.resync import PartingSearch, Tail
from flintmq.store.append import raw_log
from flintmq.store.append.raw_log import RawLog
from flintmq.store.recovery import truncate
from labs.sim.long_run import silenced
from tests.sim.disk import MODELS, SimDisk
from tests.sim.pair_explorer import PairExplorer
from tests.sim.pair_run import PairCase, PairRun

MOST = 300  # states in which a planted fault must be found


def explore(seed: int, model: str, most: int | None = None, per_cut: int = 3) -> PairExplorer:
    with silenced():
        return PairExplorer(PairCase.of(seed, model), per_cut, most=most).go()


@pytest.mark.parametrize("model", MODELS)
def test_a_follower_keeps_its_promises_at_every_call(model: str):
    found = explore(MODELS.index(model) + 1, model, 250)
    assert [(f.replay, f.what) for f in found.failures] == []
    assert found.counts[0] > 0 and found.counts[1] > 0 and found.counts[2] > 0
    assert found.followed > 20 and found.mastered > 5


def test_a_tail_that_is_zeroed_amid_a_kill():
    """What is left of it is a beginning; zeroed from its front it was bytes after zeros, at some of these calls."""
    for call in range(108, 130):  # a change of the calls before it moves the place by a few
        with silenced():
            found = PairExplorer(PairCase.of(5, "ext4"), 3, call).go()
        assert [(f.replay, f.what) for f in found.failures] == [] and found.counts[0] > 0, call


def test_refused_copies_are_resynced_and_stopped_amid_it():
    found = explore(6, "ext4", 300)
    assert [(f.replay, f.what) for f in found.failures] == []
    assert found.others > 0 and found.stopped > 0 and found.resynced > found.stopped


def drops_without_a_copy(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(truncate, "_quarantine", lambda *asked: None)


def does_not_note_the_cut(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(follower_store, "note_cut", lambda *asked: None)


def keeps_the_record_that_differs(patched: pytest.MonkeyPatch) -> None:
    real = PartingSearch._tail

    def one_later(self: PartingSearch, parting: int) -> Tail | None:
        return real(self, next((at for at, _ in self._raw.records(parting, self._raw.end) if at > parting), parting))

    patched.setattr(PartingSearch, "_tail", one_later)


WRONG_RESYNCS = [  # each with a call of a case at whose states a resync has something to drop
    (drops_without_a_copy, (3, "journal", 378)),
    (does_not_note_the_cut, (3, "ext4", 378)),
    (keeps_the_record_that_differs, (3, "ext4", 378)),
]


@pytest.mark.parametrize(("fault", "place"), WRONG_RESYNCS)
def test_a_wrong_resync_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], place: tuple[int, str, int], monkeypatch: pytest.MonkeyPatch
):
    seed, model, call = place
    with silenced():
        sound = PairExplorer(PairCase.of(seed, model), cut=call).go()
        fault(monkeypatch)
        found = PairExplorer(PairCase.of(seed, model), cut=call).go()
    assert sound.failures == [] and sound.resynced > 5, "calls are counted in another way now: give another one"
    assert any("WrongResyncError" in failure.what for failure in found.failures)


def test_lives_alone_keep_what_is_checked_while_they_run():
    """Reports, and the log in memory, of many cases; each kind of refusal is met, and each was right."""
    refused: set[str] = set()
    for seed in range(40):
        run = PairRun(PairCase.of(seed, "ext4"), SimDisk(seed, "ext4", watched=True))
        with silenced():
            run.go()
        assert run.complaints == [], seed
        refused |= set(run.refused)
    assert refused >= {"diverged", "behind", "damaged", "protocol"}


def test_a_seed_gives_the_same_states():
    assert explore(5, "ext4", 40).trace == explore(5, "ext4", 40).trace != explore(6, "ext4", 40).trace


def test_one_state_is_made_again_by_its_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(truncate, "_zero", lambda *asked: None)
    failure = next(f for seed in range(20) for f in explore(seed, "ext4", 200).failures if f.depth == 1)
    with silenced():
        again = PairExplorer(PairCase.of(failure.seed, failure.model), 3, failure.cut, failure.state).go()
    assert failure in again.failures
    assert f"--pairs --seed {failure.seed} --model ext4 --cut {failure.cut} " in failure.replay


def test_under_sync_the_first_report_of_a_line_names_only_what_is_on_disk():
    """Found by the explorer: it named the last whole record, of which a power cut could take the ones before."""
    puts = [("put", 300, 0, 0)] * 3
    ops = [*puts, ("receive", 20), ("line", 0), ("receive", 1), ("receive", 1)]
    run = PairRun(PairCase(1, "ext4", "SYNC", True, "first", False, False, ops), SimDisk(1, "ext4"))
    with silenced():
        run.go()
    assert run.follower is not None and run.follower.steps.store is not None
    raw = run.follower.steps.store.raw
    assert raw.last_record is not None and run._wires[-1].first == raw.last_record <= raw.durable
    assert run.complaints == []


def acknowledges_what_came(patched: pytest.MonkeyPatch) -> None:
    def to_report(self: FollowerSteps, line: Any) -> int:
        return max(line.line.reported, self.opened().raw.received) if self._ack and self.resumed else line.line.reported

    patched.setattr(FollowerSteps, "_to_report", to_report)


def acknowledges_before_the_sync(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(FollowerSteps, "_flush_below", lambda self, report: None)


def first_report_before_the_sync(patched: pytest.MonkeyPatch) -> None:
    """Found by the explorer: the first report of a line is an acknowledgement, too."""
    ask = FollowerSteps._ask

    def wrong(self: FollowerSteps, report: int, due: int | None) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(FollowerSteps, "_flush_below", lambda self, report: None)
            return ask(self, report, due)

    patched.setattr(FollowerSteps, "_ask", wrong)


def taps_too_much(patched: pytest.MonkeyPatch) -> None:
    def to_report(self: FollowerSteps, line: Any) -> int:
        return max(line.line.reported, self.opened().raw.end) if self.resumed else line.line.reported

    patched.setattr(FollowerSteps, "_to_report", to_report)


def appends_at_another_place(patched: pytest.MonkeyPatch) -> None:
    append = RawLog.append_raw
    patched.setattr(RawLog, "append_raw", lambda self, at, data: append(self, at, bytes(data[1:]) + bytes(data[:1])))


def keeps_the_tail_of_a_lost_line(patched: pytest.MonkeyPatch) -> None:
    def keep(self: RawLog) -> bool:
        self._received = self.end
        return True

    patched.setattr(RawLog, "_zero_rest", keep)


def keeps_a_torn_tail(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(truncate, "_zero", lambda *asked: None)


def accepts_another_past(patched: pytest.MonkeyPatch) -> None:
    def agree(self: overlap.Overlap, offset: int, data: memoryview) -> int:
        size = min(len(data), self.end - offset)
        self.at += size
        return size

    patched.setattr(overlap.Overlap, "compare", agree)


def follows_a_shorter_log(patched: pytest.MonkeyPatch) -> None:
    patched.setattr("flintmq.ha.follower_steps.judge_silence", lambda last, end: None)


def goes_on_after_damage(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(raw_log.kernel, "CHECK_CRC", 0)


def believes_every_header(patched: pytest.MonkeyPatch) -> None:
    check = follower_line.FollowerLine._check

    def believe(self: follower_line.FollowerLine, offset: int, body: int, taken: int) -> Any:
        refusal = check(self, offset, body, taken)
        return None if refusal is not None and refusal.reason == "protocol" else refusal

    patched.setattr(follower_line.FollowerLine, "_check", believe)


def does_not_note_that_it_is_a_copy(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(FollowerStore, "note_begin", lambda self, begin: None)


def publishes_what_is_not_whole(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(RawLog, "end", property(lambda self: self._received))


def loses_a_piece(patched: pytest.MonkeyPatch) -> None:
    """A line that was lost within a record goes on where it was, and not at the record's begin."""
    patched.setattr(RawLog, "discard", lambda self: None)


def reports_backwards(patched: pytest.MonkeyPatch) -> None:
    def report(self: connection.MasterConnection, offset: int) -> None:
        self._wire.sendall(follower_line.REPORT.pack(follower_line.OffsetReport(max(offset - self.line.frames, 1))))
        self.line.reported = offset

    patched.setattr(connection.MasterConnection, "report", report)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (acknowledges_what_came, "what is whole ends at"),
    (acknowledges_before_the_sync, "what is on disk ends at"),
    (first_report_before_the_sync, "what is on disk ends at"),
    (taps_too_much, "a tap reports"),
    (appends_at_another_place, "refused an honest master"),
    (keeps_the_tail_of_a_lost_line, "without a line"),
    (keeps_a_torn_tail, "after the log's end"),
    (accepts_another_past, "refused an honest master"),
    (follows_a_shorter_log, "another past"),
    (goes_on_after_damage, "another past"),
    (believes_every_header, "Error"),
    (does_not_note_that_it_is_a_copy, "adopt"),
    (publishes_what_is_not_whole, ""),
    (loses_a_piece, "is the next"),
    (reports_backwards, ""),
]


def complaints(seed: int) -> list[str]:
    """What the lives of a case alone show."""
    run = PairRun(PairCase.of(seed, "ext4"), SimDisk(seed, "ext4"))
    try:
        with silenced():
            run.go()
    except Exception as error:
        return [*run.complaints, repr(error)]
    return run.complaints


@pytest.mark.parametrize(("fault", "words"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_wrong_follower_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
):
    """By its lives alone, or else in a few hundred states."""
    fault(monkeypatch)
    seen: list[str] = []
    for seed in range(12):
        seen += complaints(seed)
        if any(words in what for what in seen):
            return
    for seed in range(3):
        seen += [failure.what for failure in explore(seed, "ext4", MOST).failures]
    assert any(words in what for what in seen), seen[:3]
