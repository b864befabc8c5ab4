"""What holds between the parts of a store, and that a broken one is noticed, also by a case that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.store.index.durable_point import DispatchPoint
from flintmq.store.message_store import MessageStore
from tests.sim.disk import SimDisk
from tests.sim.invariants import check_invariants
from tests.sim.run import SHORT, Case, SimRun
from tests.support.engine import KEYS, open_small, put_all

BROKEN: list[tuple[str, Callable[[MessageStore], object]]] = [
    ("the log", lambda store: setattr(store._parts.log.appender, "end", 10)),
    ("a queue", lambda store: setattr(store._parts.queues.find(b"T", 0), "min_offset", 99)),
    ("the index", lambda store: store._parts.index.writer.names.update({"9" * 17: 0})),
    ("items of what is not in the log", lambda store: setattr(store._parts.index.writer, "end_offset", 1 << 40)),
    ("dispatched more than there is", lambda store: setattr(store._parts.dispatch, "position", 1 << 40)),
    ("told more than dispatched", lambda store: setattr(store._parts.dispatch, "reached", DispatchPoint(1 << 40))),
    (
        "an offset that is given twice",
        lambda store: setattr(store._parts.log.appender.topics["T"].places[0], "next", 3),
    ),
]


def in_one_thread(root: Path, **keys: object) -> MessageStore:
    return MessageStore(root, config=KEYS | keys, services=False, unique_keys=False)


@pytest.mark.parametrize(("what", "spoil"), BROKEN, ids=[what for what, _ in BROKEN])
def test_a_broken_store_is_noticed(tmp_path: Path, what: str, spoil: Callable[[MessageStore], object]):
    store = in_one_thread(tmp_path)
    put_all(store, 20)
    check_invariants(store)
    store._parts.dispatch.dispatch_once()
    check_invariants(store)
    spoil(store)
    with pytest.raises(AssertionError):
        check_invariants(store)


def test_the_pool_is_between_the_log_and_the_disk(tmp_path: Path):
    store = in_one_thread(tmp_path, transientStorePoolEnable=True, flushDiskType="ASYNC_FLUSH")
    put_all(store, 20)
    store._parts.commits.commit_once()
    check_invariants(store)
    store._parts.commits.done = 0, store._parts.log.end + 1
    with pytest.raises(AssertionError, match="committed"):
        check_invariants(store)


def test_a_running_store_is_looked_at_beside_its_threads(tmp_path: Path):
    with open_small(tmp_path) as store:
        for number in range(50):
            put_all(store, 3, first=3 * number)
            check_invariants(store)
        store.wait_dispatched(5)
        check_invariants(store)


def test_a_case_complains_of_what_does_not_hold(monkeypatch: pytest.MonkeyPatch):
    def broken(store: MessageStore) -> None:
        raise AssertionError("this never holds")

    monkeypatch.setattr("tests.sim.run.check_invariants", broken)
    run = SimRun(Case.of(SHORT + 1, "ext4"), SimDisk(1))
    run.go()
    assert run.complaints[0] == "after operation 0: this never holds"
