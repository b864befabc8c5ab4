"""Consumers on the simulated disk: what must hold of a group's offsets, and that breaking it is found."""

from pathlib import Path

import pytest

from flintmq.message import Message
from flintmq.store.consumer.source import QueueRead, StoreSource
from flintmq.store.message_store import MessageStore
from flintmq.store.services.consumer_offsets import ConsumerOffsets
from flintmq.store.services.housekeeping import Housekeeping
from flintmq.testing.consumer_ledger import GROUP, Consumed, Placed, wrong_offsets
from tests.sim.explorer import Explorer
from tests.sim.faults import sweep
from tests.sim.run import CONSUMING, Case, Op

LIFE: list[Op] = [
    *[("put", "plain", 60, 0, 0)] * 3, ("dispatch",), ("poll", 0, 2), ("consumed", 0, True),
    ("put", "plain", 60, 0, 0), ("dispatch",), ("poll", 0, 5), ("consumed", 0, False), ("save",), ("consumed", 0, True),
]  # fmt: skip


def case(flush: str = "ASYNC_FLUSH", ops: list[Op] | None = None) -> Case:
    keys = Case.of(0, "ext4").keys | {"flushDiskType": flush}
    return Case(CONSUMING, "ext4", keys, LIFE if ops is None else ops)


def test_a_drawn_case_with_consumers_holds_at_every_call():
    found = Explorer(Case.of(CONSUMING + 1, "posix"), 1).go()
    assert found.failures == [] and found.counts[1] > 20
    consumed = found.run.book.consumed
    assert consumed is not None and consumed.handed and consumed.promised


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_life_of_polls_and_commits_holds_at_every_call(flush: str):
    found = Explorer(case(flush), 4).go()
    assert found.failures == []
    assert found.run.book.consumed is not None and found.run.book.consumed.promised == {("T0", 0): 4}


def test_commits_hold_where_a_call_fails():
    found = sweep(case(ops=[LIFE[0], *LIFE[3:6]]), (5,))
    assert found.runs > 30 and found.failures == []


def found_wrong(monkeypatch: pytest.MonkeyPatch, ops: list[Op] | None = None) -> set[str]:
    """What the explorer says of the life above with an engine that was broken."""
    failures = Explorer(case(ops=ops), 4).go().failures
    return {what for what in ("though it committed", "never committed more", "never came", "the queue ends", "is next",
                              "and not [") for f in failures if what in f.what}  # fmt: skip


def test_a_commit_that_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(StoreSource, "save", lambda self: None)
    assert "though it committed" in found_wrong(monkeypatch)


def test_offsets_that_are_written_before_the_log_is_flushed_are_found(monkeypatch: pytest.MonkeyPatch):
    init = Housekeeping.__init__

    def unflushed(self: Housekeeping, *words: object, **named: object) -> None:
        init(self, *words, **named)  # type: ignore[arg-type]
        self.flush = lambda: True

    monkeypatch.setattr(Housekeeping, "__init__", unflushed)
    assert found_wrong(monkeypatch) & {"the queue ends", "never came"}


def test_a_poll_that_skips_is_found(monkeypatch: pytest.MonkeyPatch):
    read = StoreSource.read

    def skips(self: StoreSource, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
        taken = read(self, queue_id, offset, most, tags)
        return taken._replace(messages=taken.messages[1:]) if offset == 2 else taken

    monkeypatch.setattr(StoreSource, "read", skips)
    assert "is next" in found_wrong(monkeypatch)


def test_an_offset_that_runs_ahead_is_found(monkeypatch: pytest.MonkeyPatch):
    commit = ConsumerOffsets.commit
    monkeypatch.setattr(ConsumerOffsets, "commit", lambda self, g, t, q, at: commit(self, g, t, q, at + 1))
    assert "never committed more" in found_wrong(monkeypatch)


def test_each_rule_by_itself(tmp_path: Path):
    with MessageStore(tmp_path / "store", dev=True, unique_keys=False) as store:
        placed = []
        for n in range(3):
            r = store.put(Message("T", b"x", keys=f"m{n}", queue_id=0))
            placed.append(Placed("T", 0, n, f"m{n}", r.physical_offset + r.size))
        assert store.wait_dispatched(30)
        consumed = Consumed()
        assert wrong_offsets(store, placed, consumed, 0) == []
        with store.consumer(GROUP, "T") as consumer:
            assert consumed.poll(consumer, 2) == []
            consumed.commit(consumer, wait=True)
        assert consumed.promised == consumed.asked == {("T", 0): 2} and len(consumed.handed) == 2
        assert wrong_offsets(store, placed, consumed, 0) == []
        ahead = Consumed(consumed.handed, {("T", 0): 3}, consumed.asked)
        assert "though it committed 3" in wrong_offsets(store, placed, ahead, 0)[0]
        less = Consumed(consumed.handed, {}, {("T", 0): 1})
        assert "never committed more than 1" in wrong_offsets(store, placed, less, 0)[0]
        unseen = Consumed(set(), consumed.promised, consumed.asked)
        never = wrong_offsets(store, placed, unseen, 0)
        assert [text[-18:] for text in never] == ["m0 at 0 never came", "m1 at 1 never came"]
        assert wrong_offsets(store, placed, unseen, placed[1].end) == [], "retention took them"
        assert "the queue ends at 1" in wrong_offsets(store, placed[:1], consumed, 0)[0]
        assert "a consumer at 2 got" in wrong_offsets(store, placed[:2], consumed, 0)[0]
