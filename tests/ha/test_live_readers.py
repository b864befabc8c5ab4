"""Readers of a copy while it is followed, as other processes have them: whole records, each once.

The master's frames end anywhere. The readers open the copy by its path, and are told nothing by the follower.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.config.keys import StoreConfig
from flintmq.forensics.topic_tail import TopicTail
from flintmq.store.commitlog.log_end import find_end
from flintmq.store.commitlog.snapshot import Snapshot
from tests.compat.replication import GoldenMaster
from tests.ha.simulated import SimulatedMaster, SimulatedTime, driven

FIRST, LAST = 4, 5
"""Numbers of the records that come byte by byte."""


class ByteByByte(threading.Event):
    """A `stop` whose waits let another byte come, and end after the last one."""

    def __init__(self, more: Callable[[], bool]) -> None:
        super().__init__()
        self.more = more

    def wait(self, timeout: float | None = None) -> bool:
        return not self.more()


def shown(message: Any) -> tuple[Any, ...]:
    return message.physical_offset, message.topic, message.properties, message.body


def test_a_line_that_ends_at_every_byte_while_others_read(tmp_path: Path, master: GoldenMaster):
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    with flintmq.open_store(master.path) as view:
        whole = [shown(message) for message in view.messages()][: LAST + 1]
    config = StoreConfig.from_keys(master.config)
    ends = [at + size for at, size in master.records[: LAST + 1]]
    sim.end = ends[FIRST - 1]
    got = []
    with driven(tmp_path / "s", sim, master.config) as one:

        def more() -> bool:
            """One byte more, and what fresh readers say of it."""
            one.until(lambda: one.follower.end == sim.end)
            count = sum(end <= sim.end for end in ends)
            snapshot = Snapshot.open(tmp_path / "s", config)
            assert snapshot.facts.live
            assert (
                snapshot.end == find_end(snapshot.log, snapshot.facts).offset == ends[count - 1] == one.follower.whole
            )
            with flintmq.open_store(tmp_path / "s", config=config) as view:
                assert [shown(message) for message in view.messages()] == whole[:count]
                last = whole[count - 1]
                key = last[2].get("UNIQ_KEY")
                assert key is None or [shown(message) for message in view.query(last[1], key)] == [last]
            assert len(got) == count
            sim.end += 1
            one.until(lambda: one.follower.end == sim.end)
            return sim.end <= ends[-1]

        one.catch_up(sim.end)
        with flintmq.open_store(tmp_path / "s", config=config) as view:
            for message in view.follow(0, 0, ByteByByte(more)):
                got.append(shown(message))
    assert got == whole


@pytest.mark.parametrize("come", [0, 0.5, 0.99])
def test_a_tail_that_begins_amid_a_record_takes_it_up_when_it_is_whole(
    tmp_path: Path, master: GoldenMaster, come: float
):
    sim = SimulatedMaster(master.log, master.file_size, SimulatedTime())
    config = StoreConfig.from_keys(master.config)
    at, size = master.records[LAST]
    sim.end = at
    with driven(tmp_path / "s", sim, master.config) as one:

        def more() -> bool:
            sim.end += 1
            one.until(lambda: one.follower.end == sim.end)
            return sim.end < at + size + 2

        one.catch_up(at)
        sim.end = at + int(come * size)
        one.until(lambda: one.follower.end == sim.end)
        with flintmq.open_store(tmp_path / "s", config=config) as view:
            tail = TopicTail(view, master.rows[LAST]["topic"], expected=True)
            assert all(message.physical_offset < at for message in tail.last(100))
            coming = list(tail.coming(ByteByByte(more)))
    assert [(message.physical_offset, message.properties) for message in coming] == [
        (at, master.rows[LAST]["properties"])
    ]
