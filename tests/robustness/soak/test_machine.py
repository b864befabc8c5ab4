"""A state machine against a model in a dict (T16): put, batches, flush, dispatch, clean, crash, reopen, and all reads.

Short in the suite, with other runs each day (tests/harness/turns.py: FLINTMQ_TURN names a day's); FLINTMQ_MACHINE=20000
gives so many runs, by chance. The store starts no thread, so that a crash, which is a copy of its directory, is what
`kill -9` leaves at that moment.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flintmq import open_store
from flintmq.message import GetMessageStatus, Message, Outcome, PutResult
from flintmq.store.message_store import MessageStore
from flintmq.testing.strategies import NAMES
from tests.harness import turns
from tests.sim.invariants import check_invariants
from tests.support.crashed import Clock, small_and_quick
from tests.support.engine import KEYS, index_items, tree

RUNS = int(os.environ.get("FLINTMQ_MACHINE", "20"))
HOURS = ";".join(map(str, range(24)))
TOPICS = st.sampled_from(["T", "U", "库存"])
QUEUES = st.integers(0, 1)
SIZES = st.sampled_from([0, 1, 20, 300, 900, 2500])
WORDS = st.sampled_from(["k1", "k2", "k3"])
MESSAGES = st.tuples(SIZES, st.one_of(st.none(), WORDS), st.dictionaries(NAMES, NAMES, max_size=2))


@dataclass
class Stored:
    """What the model knows of a message."""

    body: bytes
    key: str | None
    time: int
    place: int


class Aging(Clock):
    """A clock that goes on, and files that are as old as the test says."""

    old = False

    def modified_ms(self, path: str) -> int | None:
        return 0 if self.old else self.now_ms()


class Machine(RuleBasedStateMachine):
    """The store and its model: (topic, queue) -> messages by queue offset."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="flintmq-machine-"))
        self.lives, self.puts, self.begin = 0, 0, 0
        self.model: dict[tuple[str, int], list[Stored]] = {}

    @initialize(disk=st.sampled_from(["ASYNC_FLUSH", "SYNC_FLUSH"]))
    def start(self, disk: str) -> None:
        self.keys: dict[str, Any] = KEYS | {"flushDiskType": disk, "deleteWhen": HOURS}
        self.clock = Aging()
        self._open(self.folder / "0")

    def _open(self, root: Path) -> None:
        self.root = root
        self.store = MessageStore(root, config=self.keys, effects=self.clock, services=False, unique_keys=False)
        self.store.wait_dispatched(60)

    def _message(
        self, topic: str, queue: int, parts: tuple[int, str | None, dict[str, str]], born: int | None
    ) -> Message:
        size, key, properties = parts
        body = (b"%06d" % self.puts * (size // 6 + 1))[:size]
        self.puts += 1
        own = {f"x{name}": value for name, value in properties.items()} or None
        return Message(topic, body, keys=key, properties=own, queue_id=queue, born_timestamp=born)

    def _stored(self, message: Message, result: PutResult) -> None:
        if result.outcome is not Outcome.OK:
            assert result.outcome is Outcome.FAILED, result
            return
        own = self.model.setdefault((message.topic, message.queue_id), [])
        assert result.queue_offset == len(own), "the next offset, no hole, none twice"
        own.append(Stored(message.body, message.keys, result.store_timestamp, result.physical_offset))

    # -- writing -----------------------------------------------------------------------------------------------------

    @rule(topic=TOPICS, queue=QUEUES, parts=MESSAGES)
    def put(self, topic: str, queue: int, parts: Any) -> None:
        message = self._message(topic, queue, parts, None)
        self._stored(message, self.store.put(message))

    @rule(topic=TOPICS, queue=QUEUES, parts=st.lists(MESSAGES, min_size=1, max_size=5))
    def put_many(self, topic: str, queue: int, parts: Any) -> None:
        messages = [self._message(topic, (queue + n) % 2, one, None) for n, one in enumerate(parts)]
        for message, result in zip(messages, self.store.put_many(messages), strict=True):
            self._stored(message, result)

    @rule(topic=TOPICS, queue=QUEUES, parts=st.lists(MESSAGES, min_size=1, max_size=4))
    def put_batch(self, topic: str, queue: int, parts: Any) -> None:
        messages = [self._message(topic, queue, one, 1_700_000_000_000) for one in parts]
        results = self.store.put_batch(messages)
        assert len({result.outcome for result in results}) == 1, "all or none"
        for message, result in zip(messages, results, strict=True):
            self._stored(message, result)

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def dispatch(self) -> None:
        assert self.store.wait_dispatched(60)

    @rule(files=st.integers(1, 3))
    def clean(self, files: int) -> None:
        """Retention takes what is flushed and dispatched, the oldest first, never the last file."""
        self.clock.old = True
        try:
            for _ in range(files):
                self.store._parts.housekeeping.retention.clean_once()
        finally:
            self.clock.old = False
        begin = self.store._parts.files.min_offset
        assert begin >= self.begin and begin % 4096 == 0
        self.begin = begin

    # -- ends and begins ---------------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.store.close()
        assert not (self.root / "abort").exists()
        before = tree(self.root)
        self._open(self.root)
        after = tree(self.root)
        assert {name: after.get(name) for name in before} == before, "a clean start changes nothing"

    @rule()
    def crash(self) -> None:
        """What kill -9 leaves, twice recovered with one result; the other life ends."""
        self.lives += 1
        left = self.folder / str(self.lives)
        shutil.copytree(self.root, left)
        self.store.close()
        shutil.rmtree(self.root)
        again = self.folder / "again"
        shutil.copytree(left, again)
        MessageStore(again, config=self.keys, effects=Clock(), services=False, unique_keys=False).close()
        self._open(left)
        once = tree(left, "commitlog", "consumequeue")
        twice = tree(again, "commitlog", "consumequeue")
        assert all(not any(once[name]) or once[name] == twice.get(name) for name in once)
        shutil.rmtree(again)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _live(self, place: tuple[str, int]) -> list[tuple[int, Stored]]:
        return [(n, one) for n, one in enumerate(self.model.get(place, ())) if one.place >= self.begin]

    @rule(topic=TOPICS, queue=QUEUES, most=st.integers(1, 12), data=st.data())
    def read_by_offset(self, topic: str, queue: int, most: int, data: Any) -> None:
        self.store.wait_dispatched(60)
        own = self._live((topic, queue))
        if not own:
            assert not self.store.get(topic, queue, 0).messages
            return
        first = data.draw(st.sampled_from([n for n, _ in own]))
        got = self.store.get(topic, queue, first, most)
        assert got.status is GetMessageStatus.FOUND
        assert got.max_offset == len(self.model[topic, queue])
        wanted = [(n, one.body, one.place) for n, one in own if n >= first][: len(got.messages)]
        assert [(m.queue_offset, m.body, m.physical_offset) for m in got.messages] == wanted

    @rule(topic=TOPICS, key=WORDS)
    def read_by_key(self, topic: str, key: str) -> None:
        self.store.wait_dispatched(60)
        wanted = [
            one.place for place in self.model if place[0] == topic for _, one in self._live(place) if one.key == key
        ]
        assert [m.physical_offset for m in self.store.query(topic, key)] == sorted(wanted)[-64:]

    @precondition(lambda self: any(self.model.values()))
    @rule(data=st.data(), step=st.integers(-1, 1), boundary=st.sampled_from(["lower", "upper"]))
    def read_by_time(self, data: Any, step: int, boundary: str) -> None:
        self.store.wait_dispatched(60)
        place = data.draw(st.sampled_from(sorted(self.model)))
        own = self._live(place)
        if not own:
            return
        time = data.draw(st.sampled_from([one.time for _, one in own])) + step
        later = [n for n, one in own if one.time >= time]
        earlier = [n for n, one in own if one.time <= time]
        wanted = (later or [own[-1][0] + 1])[0] if boundary == "lower" else (earlier or [own[0][0]])[-1]
        assert self.store.offset_at_time(place[0], place[1], time, boundary) == wanted

    @rule()
    def read_all(self) -> None:
        """By a view beside it, in the order of the log."""
        wanted = sorted((one.place, one.body) for place in self.model for _, one in self._live(place))
        with open_store(self.root, set=self.keys) as view:
            assert [(m.physical_offset, m.body) for m in view.messages()] == wanted

    @invariant()
    def nothing_is_poisoned(self) -> None:
        assert not hasattr(self, "store") or not self.store._parts.failure

    @invariant()
    def everything_holds_in_the_store(self) -> None:
        if hasattr(self, "store"):
            check_invariants(self.store)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            index_items(self.root)  # chains and headers are whole
        shutil.rmtree(self.folder)


def test_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    small_and_quick(monkeypatch.setattr)
    Machine.TestCase.settings = settings(
        max_examples=RUNS, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(seed(turns.day())(Machine) if RUNS <= 100 else Machine)
