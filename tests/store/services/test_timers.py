"""Timers: each message once, never early, after any stop; files of RocketMQ that either goes on from."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.format import recall_handle, timer
from flintmq.format.recall_handle import RecallHandle
from flintmq.format.text import java_hash
from flintmq.message import Message, PutMessageStatus, PutRule, StoredMessage
from flintmq.store.message_store import MessageStore
from flintmq.store.services.timers import TimerService
from flintmq.store.view import open_store
from tests.compat.stores import Golden
from tests.support.engine import open_small, put_all, records
from tests.support.faults import Faulty
from tests.support.threads import within

TOPIC = "rmq_sys_wheel_timer"
NOW = 1_700_000_000_000  # a whole second
UNIT_SIZE, FILE_SIZE = 52, 3 * 52 + 16  # a timer log file of three units
HOURS = ";".join(f"{hour:02d}" for hour in range(24))


class Timed:
    """A store whose clock and timers a test moves; `keys` of every life."""

    def __init__(self, root: Path, clock: int = NOW, **keys: Any) -> None:
        self.root, self.keys, self.disk = root, {"mappedFileSizeTimerLog": 5200, **keys}, Faulty()
        self.disk.clock = clock
        self.stack = ExitStack()
        self.open()

    def open(self, **more: Any) -> MessageStore:
        self.store = self.stack.enter_context(open_small(self.root, self.disk, **{**self.keys, **more}))
        self.store._parts.housekeeping.stop()
        return self.store

    @property
    def timers(self) -> TimerService:
        timers = self.store._parts.housekeeping.timers
        assert timers is not None
        return timers

    def put(self, body: bytes, ms: int, **more: Any) -> str:
        """Put a message for a time after NOW; its recall handle, "" if it does not wait."""
        result = self.store.put(Message("T", body, deliver_timestamp=NOW + ms, **more))
        result.raise_for_status()
        return result.recall_handle() or ""

    def step(self) -> None:
        assert self.store.wait_dispatched(60)
        while self.timers.step():
            pass
        self.timers.check_invariants()

    def at(self, ms: int) -> list[bytes]:
        """Set the clock, deliver what is due; all bodies delivered so far."""
        self.disk.clock = NOW + ms
        self.step()
        return self.bodies()

    def messages(self) -> list[StoredMessage]:
        assert self.store.wait_dispatched(60)
        found, at = list[StoredMessage](), 0
        while (got := self.store.get("T", 0, at)).messages:
            found, at = [*found, *got.messages], got.next_begin_offset
        return found

    def bodies(self) -> list[bytes]:
        return [m.body for m in self.messages()]

    def close(self) -> None:
        self.stack.close()

    def again(self, **more: Any) -> None:
        """Close the store and open it again."""
        self.close()
        self.open(**more)

    def killed(self, into: Path, clock: int | None = None) -> Timed:
        """The store as a kill leaves it now, opened from a copy, now or at another time."""
        assert self.store.wait_dispatched(60)
        shutil.copytree(self.root, into, ignore=shutil.ignore_patterns("*.flintmq-new"))  # which may go meanwhile
        assert self.disk.clock is not None
        return self.stack.enter_context(closing(Timed(into, clock or self.disk.clock, **self.keys)))

    def check(self) -> timer.TimerCheck:
        return timer.decode_check((self.root / "config/timercheck").read_bytes())

    def units(self) -> list[timer.LogUnit]:
        """The units of the timer log, file by file."""
        found = []
        for path in sorted((self.root / "timerlog").iterdir()):
            data = path.read_bytes()
            for at in range(0, len(data), UNIT_SIZE):
                (size,) = struct.unpack_from(">i", data, at) if at + 4 <= len(data) else (0,)
                if size != UNIT_SIZE:
                    break
                found.append(timer.LOG_UNIT.unpack(data, at))
        return found


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Callable[..., Timed]]:
    """timed(**keys) -> a store of its own, closed after the test."""
    with ExitStack() as stack:

        def make(**keys: Any) -> Timed:
            return stack.enter_context(closing(Timed(tmp_path / f"s{len(list(tmp_path.iterdir()))}", **keys)))

        yield make


# -- waiting and being delivered ----------------------------------------------------------------------------------


def test_never_early_and_once(timed: Callable[..., Timed]):
    one = timed()
    for body, ms in ((b"a", 1500), (b"b", 2000), (b"c", 2001), (b"d", 1), (b"e", 3000)):
        one.put(body, ms)
    assert one.at(0) == []
    moments = {999: [], 1000: [b"d"], 1999: [b"d"], 2000: [b"d", b"a", b"b"], 2999: [b"d", b"a", b"b"]}
    for ms, wanted in moments.items():
        assert one.at(ms) == wanted, ms
    assert one.at(3000) == [b"d", b"a", b"b", b"c", b"e"]
    assert one.at(10_000_000) == one.bodies() and not one.timers.step()
    one.again()
    assert one.at(20_000_000) == [b"d", b"a", b"b", b"c", b"e"], "nothing comes again"


def test_what_waits_and_what_is_delivered(timed: Callable[..., Timed]):
    """Properties, queue and sender are kept, as by a broker; the delivered record says when it came and went."""
    one = timed()
    sent = Message(
        "T", b"x", tags="a", keys="k", queue_id=3, flag=7, properties={"p": "q"}, born_timestamp=5,
        born_host="1.2.3.4:5", deliver_timestamp=NOW + 2500,
    )  # fmt: skip
    assert sent.deliver_timestamp == NOW + 2500 and Message("T").deliver_timestamp is None
    result = one.store.put(sent)
    assert one.at(0) == [] and result.status is PutMessageStatus.PUT_OK
    [waiting] = one.store.get(TOPIC, 0, 0).messages
    wanted = {"p": "q", "KEYS": "k", "TAGS": "a", "TIMER_DELIVER_MS": str(NOW + 2500),
              "TIMER_OUT_MS": str(NOW + 2000), "REAL_TOPIC": "T", "REAL_QID": "3"}  # fmt: skip
    assert waiting.properties == wanted
    one.at(3000)
    assert one.store.wait_dispatched(60)
    [found] = one.store.get("T", 3, 0).messages
    assert found.properties == {**wanted, "TIMER_ENQUEUE_MS": str(NOW), "TIMER_DEQUEUE_MS": str(NOW + 3000)}
    assert (found.tags, found.keys, found.flag, found.born_timestamp, found.born_host) == ("a", "k", 7, 5, "1.2.3.4:5")
    assert found.store_timestamp == NOW + 3000 and found.body == b"x"


@pytest.mark.parametrize(
    ("properties", "out"),
    [
        ({"TIMER_DELAY_SEC": "2"}, 1000),
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9999", "TIMER_DELIVER_MS": "1"}, 1000),
        ({"TIMER_DELAY_MS": "2001", "TIMER_DELIVER_MS": "1"}, 2000),
        ({"TIMER_DELIVER_MS": str(NOW + 259_200_000)}, 259_199_000),
        ({"TIMER_DELAY_MS": "0"}, None),
        ({"TIMER_DELAY_SEC": "-5"}, None),
        ({"TIMER_DELIVER_MS": str(NOW)}, None),
        ({"TIMER_DELIVER_MS": str(NOW + 5000), "TIMER_OUT_MS": "1"}, None),
    ],
)
def test_which_time_is_asked_for(timed: Callable[..., Timed], properties: dict[str, str], out: int | None):
    """The first of the three names counts. What is past, or was delivered before, is stored at once."""
    one = timed()
    assert one.store.put(Message("T", b"x", properties=properties))
    topics = {r.topic for r in records(one.root)}
    assert topics == ({b"T"} if out is None else {TOPIC.encode()})
    if out is not None:
        assert one.store.wait_dispatched(60)
        assert one.store.get(TOPIC, 0, 0).messages[0].properties["TIMER_OUT_MS"] == str(NOW + out)


@pytest.mark.parametrize(
    "properties",
    [{"TIMER_DELAY_SEC": "x"}, {"TIMER_DELAY_SEC": "", "TIMER_DELAY_MS": "1 "}, {"TIMER_DELAY_SEC": "1001"},
     {"TIMER_DELIVER_MS": str(NOW + 1_000_001)}],
)  # fmt: skip
def test_a_time_that_is_none_or_too_far(timed: Callable[..., Timed], properties: dict[str, str]):
    one = timed(timerMaxDelaySec=1000)
    result = one.store.put(Message("T", b"x", properties=properties))
    assert result.reason is PutRule.TIMER_TIME and result.status is PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert one.store.max_physical_offset == 0


def test_what_could_not_be_delivered_is_refused(timed: Callable[..., Timed]):
    """A delivery has more properties than what waits."""
    one, accepted = timed(mappedFileSizeCommitLog=1 << 20), 0
    sizes = range(32_400, 32_760, 20)
    for size in sizes:
        result = one.store.put(Message("T", b"x", properties={"a": "x" * size}, deliver_timestamp=NOW + 1000))
        assert result.status in (PutMessageStatus.PUT_OK, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)
        accepted += bool(result)
    assert 0 < accepted < len(sizes)
    one.step()
    assert len(one.at(3000)) == accepted


def test_a_delay_level_is_stronger(timed: Callable[..., Timed]):
    one = timed()
    one.store.put(Message("T", b"x", deliver_timestamp=NOW + 5000, delay_level=2))
    assert {r.topic for r in records(one.root)} == {b"SCHEDULE_TOPIC_XXXX"}


def test_switched_off_it_refuses_and_delivers_nothing(timed: Callable[..., Timed]):
    one = timed()
    one.put(b"waits", 2000)
    one.step()
    one.again(timerWheelEnable=False)
    one.disk.clock = NOW + 9000
    assert one.store._parts.housekeeping.timers is None
    assert one.store.put(Message("T", b"x", deliver_timestamp=NOW + 20_000)).reason is PutRule.TIMER
    assert one.bodies() == []
    one.again()
    assert one.at(9000) == [b"waits"]


def test_an_idle_store_delivers_by_itself(tmp_path: Path):
    with open_small(tmp_path / "s", timerPrecisionMs=100) as store:
        due = store._parts.effects.now_ms() + 1500
        assert store.put(Message("T", b"a", deliver_timestamp=due))
        assert within(lambda: len(store.get("T", 0, 0).messages) == 1)
        late = store.get("T", 0, 0).messages[0].store_timestamp - due
    assert 0 <= late < 1500, late


@pytest.mark.parametrize(("pause_ms", "soon"), [(50, True), (100_000, False)])
def test_how_often_the_progress_is_saved(tmp_path: Path, pause_ms: int, soon: bool):
    keys = {"timerFlushIntervalMs": pause_ms, "flushConsumerOffsetInterval": 100_000}
    with open_small(tmp_path / "s", flushDelayOffsetInterval=100_000, **keys) as store:
        assert store.put(Message("T", b"a", properties={"TIMER_DELAY_SEC": "1000"}))
        assert within(lambda: (tmp_path / "s/config/timercheck").exists(), 5 if soon else 1.5) is soon
    assert (tmp_path / "s/config/timercheck").exists(), "and at the end"


def test_many_due_messages_come_in_steps_and_a_slot_as_a_whole(
    timed: Callable[..., Timed], monkeypatch: pytest.MonkeyPatch
):
    """Between two steps others of the same thread have their turn; a stop amid a slot delivers its rest."""
    monkeypatch.setattr("flintmq.store.services.timers.AT_ONCE", 20)

    def given() -> int:
        return one.store._parts.log.next_offsets.get((b"T", 0), 0)

    one = timed()
    for n in range(50):
        one.put(b"%d" % n, 1000)
    one.step()
    one.disk.clock = NOW + 1000
    assert one.timers.step() and given() == 20
    one.again()
    assert given() == 50 and one.check().last_read_time == NOW + 1000
    one.at(5000)
    assert given() == 50


# -- stops of every kind ------------------------------------------------------------------------------------------


def test_a_restart_after_long(timed: Callable[..., Timed]):
    """What came due meanwhile is delivered at once and in its order; the rest waits on."""
    one = timed()
    for n, ms in enumerate((5000, 1000, 259_200_000, 86_400_000)):
        one.put(b"%d" % n, ms)
    one.close()
    one.disk.clock = NOW + 200_000_000
    one.open()
    assert one.at(200_000_000) == [b"1", b"0", b"3"]
    one.again()
    assert one.at(259_199_999) == [b"1", b"0", b"3"] and one.at(259_200_000) == [b"1", b"0", b"3", b"2"]


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("done", range(5))
def test_a_kill_between_the_puts_and_the_note(timed: Callable[..., Timed], tmp_path: Path, noted: bool, done: int):
    """Messages alike in all but their unique key, some alike in all: none comes twice, none is lost."""
    one = timed()
    for n in range(4):
        one.put(b"same", 1000, properties={"UNIQ_KEY": f"{n % 2}"}, born_timestamp=1)
    one.put(b"later", 5000)
    one.step()
    if noted:
        one.timers.save_once()
    one.disk.clock = NOW + 1000
    for _ in range(done):  # one by one, as a kill may fall between any two
        one.timers._deliver(1)
    other = one.killed(tmp_path / "killed")
    assert other.at(1000) == [b"same"] * 4
    assert sorted(m.msg_id or "" for m in other.messages()) == ["0", "0", "1", "1"]
    third = other.killed(tmp_path / "again")
    assert third.at(5000) == [b"same"] * 4 + [b"later"]


def test_without_any_note_a_start_compares_all(timed: Callable[..., Timed], tmp_path: Path):
    """A store whose timer files are gone (salvage leaves them out) gives nothing again."""
    one = timed()
    for n in range(6):
        one.put(b"%d" % n, 1000 * n + 500)
    assert one.at(3000) == [b"0", b"1", b"2"]
    one.close()
    shutil.rmtree(one.root / "timerlog")
    (one.root / "config/timercheck").unlink()
    one.open()
    assert one.at(4000) == [b"0", b"1", b"2", b"3"] and one.at(9000) == [b"%d" % n for n in range(6)]


def test_a_note_without_its_timer_log(timed: Callable[..., Timed]):
    """`timercheck` says that units are gone: their records are taken again."""
    one = timed()
    for n in range(4):
        one.put(b"%d" % n, 1000 * n + 500)
    assert one.at(2000) == [b"0", b"1"]
    one.close()
    shutil.rmtree(one.root / "timerlog")
    one.open()
    assert one.at(9000) == [b"0", b"1", b"2", b"3"]


def test_a_note_that_is_ahead_of_the_log(timed: Callable[..., Timed], tmp_path: Path):
    """As RocketMQ leaves it after a power cut. What is put before the first step is taken all the same."""
    one = timed()
    for n in range(3):
        one.put(b"old %d" % n, 5000)
    one.step()
    one.timers.save_once()
    shutil.copytree(one.root, tmp_path / "cut")
    check = one.check()
    ahead = check._replace(
        last_read_time=NOW + 3_600_000, queue_offset=check.queue_offset + 5, master_queue_offset=check.queue_offset + 5
    )
    (tmp_path / "cut/config/timercheck").write_bytes(timer.encode_check(ahead))
    with closing(Timed(tmp_path / "cut", NOW)) as other:
        for n in range(8):
            other.put(b"new %d" % n, 6000)
        assert other.at(9000) == [b"old %d" % n for n in range(3)] + [b"new %d" % n for n in range(8)]


def test_units_that_are_gone_beyond_the_first_file(timed: Callable[..., Timed]):
    """Their records are taken again; those that were delivered are found."""
    one = timed(mappedFileSizeTimerLog=FILE_SIZE)
    for n in range(8):
        one.put(b"%d" % n, 1000 * n + 500)
    assert one.at(3000) == [b"0", b"1", b"2"]
    one.close()
    files = sorted((one.root / "timerlog").iterdir())
    assert len(files) == 3
    files[-1].unlink()
    one.open()
    assert one.at(20_000) == [b"%d" % n for n in range(8)]


def test_a_clock_that_was_far_ahead_is_said(timed: Callable[..., Timed], caplog: pytest.LogCaptureFixture):
    one = timed()
    one.put(b"a", 1000)
    one.at(3_600_000_000)
    one.disk.clock = NOW
    for _ in range(2):
        one.put(b"b", 5000)
    one.step()
    [line] = [record for record in caplog.records if "the clock was" in record.message]
    assert "config/timercheck" in line.message


def test_the_clock_is_set_back(timed: Callable[..., Timed]):
    """What waited waits on; what is put meanwhile waits until the old time has come, and is not lost."""
    one = timed()
    one.put(b"early", 1000)
    one.put(b"late", 7_200_000)
    assert one.at(3_600_000) == [b"early"]
    one.disk.clock = NOW
    one.put(b"new", 60_000)
    one.step()
    assert one.at(60_000) == [b"early"]
    one.again()
    assert one.at(3_600_999) == [b"early"]
    assert one.at(3_601_000) == [b"early", b"new"]
    assert one.at(7_200_000) == [b"early", b"new", b"late"]


def test_the_clock_is_set_forward(timed: Callable[..., Timed]):
    """It is believed: what is due by it comes; once it is set back, nothing comes again."""
    one = timed()
    one.put(b"a", 5000)
    one.put(b"b", 100_000_000)
    assert one.at(90_000_000) == [b"a"]
    one.disk.clock = NOW + 6000
    one.again()
    assert one.at(6000) == [b"a"] and one.at(100_000_000) == [b"a", b"b"]


@pytest.mark.parametrize("refused", ["create", "allocate"])
def test_a_full_disk_only_delays(timed: Callable[..., Timed], refused: str):
    one = timed()
    for n in range(8):
        one.put(b"%d" % n + bytes(700), 1000)
    one.step()
    one.disk.clock = NOW + 1000
    one.disk.refuse(refused, "commitlog", times=2)
    one.timers.step()
    assert one.store._parts.log.next_offsets.get((b"T", 0), 0) < 8
    one.timers.save_once()
    assert one.check().last_read_time == NOW, "the slot is not done"
    for _ in range(5):
        one.step()
    assert [body[:1] for body in one.bodies()] == [b"%d" % n for n in range(8)]


@pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename"])
def test_a_note_that_the_disk_refuses_is_written_later(timed: Callable[..., Timed], call: str):
    one = timed()
    one.put(b"a", 1000)
    assert one.at(1000) == [b"a"]
    one.put(b"b", 9000)
    one.step()
    one.disk.refuse(call, "timercheck" if call == "rename" else "timerlog", times=1)
    with pytest.raises(OSError, match=r".*"):
        one.timers.save_once()
    one.timers.save_once()
    assert (one.check().last_read_time, one.check().queue_offset) == (NOW + 1000, 2)
    assert [unit.slot_time for unit in one.units()] == [NOW, NOW + 8000]


def clean(one: Timed) -> None:
    """Let retention delete all log files but the last."""
    one.disk.modified_ms = lambda path: NOW - 1_000_000_000  # type: ignore[method-assign]
    one.store.flush()
    assert one.store.wait_dispatched(60)
    one.store._parts.checkpointer.write()
    one.store._parts.retention.clean_once()
    assert one.store.min_physical_offset > 0


def test_a_message_that_retention_deletes_is_told_of(timed: Callable[..., Timed], caplog: pytest.LogCaptureFixture):
    """It is lost, as with RocketMQ; the log says so, and what waits beside it is delivered."""
    one = timed(fileReservedTime=0, deleteWhen=HOURS)
    one.put(b"gone", 4_000_000)
    one.step()
    put_all(one.store, 40, topic="Other", size=300)
    one.put(b"kept", 4_000_000)
    one.step()
    one.timers.save_once()
    clean(one)
    assert one.at(4_000_000) == [b"kept"] and one.timers.lost == 1
    assert "was deleted with its log file before its time came" in caplog.text
    one.again()
    assert one.at(5_000_000) == [b"kept"]


def test_a_view_neither_delivers_nor_writes(timed: Callable[..., Timed]):
    one = timed()
    one.put(b"a", 1000)
    one.close()
    before = {path: path.read_bytes() for path in one.root.rglob("*") if path.is_file()}
    one.disk.clock = NOW + 9000
    with open_store(one.root, effects=one.disk) as view:
        assert [m.topic for m in view.messages()] == [TOPIC]
    assert {path: path.read_bytes() for path in one.root.rglob("*") if path.is_file()} == before


# -- messages that are stored once more ---------------------------------------------------------------------------


def test_a_wait_longer_than_the_window_is_stored_once_more(timed: Callable[..., Timed], tmp_path: Path):
    """So that it outlives its log file; a kill amid that makes no second one."""
    one = timed(timerRollWindowSlot=4)
    one.put(b"far", 10_000)
    one.put(b"near", 4000)
    one.step()
    one.timers.save_once()
    assert [(u.slot_time - NOW, u.magic) for u in one.units()] == [(4000, 3), (3000, 1)]
    assert one.at(4999) == [b"near"]
    one.disk.clock = NOW + 5000
    one.timers._deliver(1)
    killed = one.killed(tmp_path / "killed")
    for two in (one, killed):
        assert two.at(5000) == [b"near"]
        assert [m.properties.get("TIMER_ROLL_TIMES") for m in two.store.get(TOPIC, 0, 0).messages] == [None, None, "1"]
        assert two.at(7999) == [b"near"] and two.at(8000) == [b"near"], "and once more, half a window on"
        assert two.at(9999) == [b"near"] and two.at(10_000) == [b"near", b"far"]
        rolled = two.messages()[-1].properties
        assert rolled["TIMER_ROLL_TIMES"] == "2" and rolled["TIMER_DELIVER_MS"] == str(NOW + 10_000)


@pytest.mark.parametrize("noted", [0, 5000, 10_000])
@pytest.mark.parametrize("done", range(4))
def test_a_kill_amid_rounds_and_a_start_at_any_time_after_it(
    timed: Callable[..., Timed], tmp_path: Path, noted: int, done: int
):
    """What was stored once more is neither delivered beside its copy nor taken for it. Two are alike in all."""
    one = timed(timerRollWindowSlot=4)
    for n in (1, 1, 2):
        one.put(b"%d" % n, 11_000, properties={"UNIQ_KEY": str(n)}, born_timestamp=1)
    for ms in range(0, 12_000, 1000):  # they are stored once more at 5 s, and at 8 or 9 s
        one.at(ms)
        if ms == noted:
            one.timers.save_once()
        one.disk.clock = NOW + ms + 1000
        for _ in range(done):
            one.timers._deliver(1)
        for start in sorted({ms + 1000, ms + 3000, 9000, 11_000, 15_000}):
            if start > ms:
                two = one.killed(tmp_path / f"at-{ms}-{start}", NOW + start)
                assert sorted(two.at(start)) == ([b"1", b"1", b"2"] if start >= 11_000 else []), (
                    noted,
                    done,
                    ms,
                    start,
                )
                assert sorted(two.at(30_000)) == [b"1", b"1", b"2"], (noted, done, ms, start)


@pytest.mark.parametrize("window", [0, 1, 604_741])
def test_an_impossible_window_is_the_largest(timed: Callable[..., Timed], window: int):
    assert timed(timerRollWindowSlot=window).timers.window == 604_740


# -- recalls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("peer", "with_topic"), [("5.3.3", False), ("5.4.0", False), ("5.4.0", True)])
@pytest.mark.parametrize("again", [False, True])
def test_what_is_recalled_never_comes(
    timed: Callable[..., Timed], monkeypatch: pytest.MonkeyPatch, peer: str, with_topic: bool, again: bool
):
    one = timed(appendTopicForTimerDeleteKey=with_topic)
    handles = [one.put(b"%d" % n, 5000, properties={"UNIQ_KEY": f"K{n}"}) for n in range(3)]
    assert recall_handle.decode(handles[1]) == RecallHandle("T", "broker-a", NOW + 4001, "K1")
    one.step()
    monkeypatch.setattr(one.store._parts, "opening", replace(one.store._parts.opening, peer=peer))
    result = one.store.recall(handles[1], group="G")
    assert result.status is PutMessageStatus.PUT_OK
    if again:
        one.again()
    assert one.at(5000) == [b"0", b"2"]
    [mark] = [m for m in one.store.get(TOPIC, 0, 0).messages if m.tags == "_RECALL_TAG_"]
    key = "T+K1" if peer == "5.3.3" or with_topic else "K1"
    assert mark.properties["TIMER_DEL_UNIQKEY"] == key and mark.properties["PGROUP"] == "G"
    assert (mark.body, mark.properties["TIMER_OUT_MS"]) == (b"0", str(NOW + 4000))
    one.timers.save_once()
    assert [u.magic for u in one.units()] == [1, 1, 1, 5]
    one.again()
    assert one.at(9000) == [b"0", b"2"]


def test_a_recall_behind_many_others(timed: Callable[..., Timed]):
    """It is taken before what it recalls is delivered, however many are before it."""
    one = timed(mappedFileSizeTimerLog=520_000)
    handle = one.put(b"recalled", 1000, properties={"UNIQ_KEY": "K"})
    for _ in range(1100):
        one.put(b"later", 3_600_000)
    assert one.store.recall(handle)
    assert one.at(3000) == []


def test_a_recall_of_what_is_in_another_slot(timed: Callable[..., Timed]):
    """The message was to be stored once more, its mark not; both times pass while nobody runs the timer."""
    one = timed(timerRollWindowSlot=10)
    handle = one.put(b"recalled", 15_000, properties={"UNIQ_KEY": "K"})
    one.put(b"other", 15_000, properties={"UNIQ_KEY": "L"})
    one.at(6000)
    assert one.store.recall(handle)
    one.step()
    one.again()
    assert one.at(30_000) == [b"other"]


def test_a_recall_of_what_was_stored_once_more_while_nobody_ran_the_timer(timed: Callable[..., Timed]):
    """Both come due too late for their slot, and the mark counts all the same."""
    one = timed(timerRollWindowSlot=4)
    handle = one.put(b"recalled", 10_000, properties={"UNIQ_KEY": "K"})
    one.put(b"other", 10_000, properties={"UNIQ_KEY": "L"})
    assert one.store.recall(handle)
    one.step()
    one.again()
    one.at(60_000)
    assert one.at(61_000) == [b"other"]


def test_what_cannot_be_recalled(timed: Callable[..., Timed]):
    one = timed()
    handle = one.put(b"a", 5000, properties={"UNIQ_KEY": "K"})
    assert one.at(5000) == [b"a"]
    late = one.store.recall(handle)
    assert late.status is PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, "its time has come"
    for wrong in ("", "x", "djE=", recall_handle.encode(RecallHandle("T", "b", 0, "K"))[:-8] + "AAAA"):
        with pytest.raises(UsageError, match="recall handle"):
            one.store.recall(wrong)
    with pytest.raises(TypeError):
        one.store.recall(None)  # type: ignore[arg-type]
    for nobody in (
        one.store.put(Message("T", b"plain")),
        one.store.put(Message("%RETRY%g", deliver_timestamp=NOW + 9000)),
    ):
        assert nobody and nobody.recall_handle() is None


# -- bytes, by hand -----------------------------------------------------------------------------------------------


def test_the_bytes_are_rocketmqs(timed: Callable[..., Timed]):
    """Units linked slot by slot, an end where no further one fits, and what `timercheck` says of both."""
    one = timed(mappedFileSizeTimerLog=FILE_SIZE)
    for ms in (2500, 3500, 2600, 2700):
        one.put(b"x", ms)
    one.step()
    one.timers.save_once()
    where = [(r.physical_offset, r.size) for r in records(one.root)]
    topic = java_hash("T")

    def unit(number: int, previous: int, slot: int) -> bytes:
        return struct.pack(">iqiqiqiiq", 52, previous, 1, NOW, slot, *where[number], topic, 0)

    first = unit(0, -1, 2000) + unit(1, -1, 3000) + unit(2, 0, 2000) + struct.pack(">iqI", 16, 0, 0xCBD43194)
    second = unit(3, 104, 2000).ljust(FILE_SIZE, b"\0")
    assert (one.root / f"timerlog/{0:020d}").read_bytes() == first
    assert (one.root / f"timerlog/{FILE_SIZE:020d}").read_bytes() == second
    check = struct.pack(">7q", NOW, FILE_SIZE, 4, 4, 0, NOW, 1)
    assert (one.root / "config/timercheck").read_bytes() == check.ljust(4096, b"\0")
    one.again()
    assert one.at(4000) == [b"x"] * 4
    one.put(b"y", 6500)
    one.step()
    one.timers.save_once()
    assert (one.root / f"timerlog/{FILE_SIZE:020d}").read_bytes()[:52] == second[:52], "and goes on after them"
    assert len(one.units()) == 5


def test_a_wheel_is_removed_before_the_log_goes_beyond_it(timed: Callable[..., Timed]):
    """RocketMQ makes it again of the whole log."""
    one = timed()
    one.put(b"a", 1000)
    for name in ("timerwheel", "timerwheel.520"):
        (one.root / name).write_bytes(b"old")
    one.step()
    assert (one.root / "timerwheel").exists()
    one.timers.save_once()
    assert not list(one.root.glob("timerwheel*"))
    assert one.check().log_flushed_position == UNIT_SIZE


@pytest.mark.parametrize("junk", ["unit", "bytes", "record that is gone", "file"])
def test_what_follows_the_last_unit_is_cut(timed: Callable[..., Timed], junk: str):
    """Upstream defect D26: after a power cut the timer log may be further than the log."""
    one = timed(mappedFileSizeTimerLog=FILE_SIZE)
    one.put(b"a", 5000)
    one.step()
    one.timers.save_once()
    [unit] = one.units()
    one.close()
    path = one.root / f"timerlog/{0:020d}"
    data = bytearray(path.read_bytes())
    if junk == "unit":  # not the next one, but after it: pages come to the disk in any order
        data[104:156] = timer.LOG_UNIT.pack(unit)
    elif junk == "bytes":
        data[52:60] = b"\xff" * 8
    elif junk == "record that is gone":
        data[52:104] = timer.LOG_UNIT.pack(unit._replace(physical_offset=1_000_000))
    path.write_bytes(data)
    if junk == "file":
        (one.root / f"timerlog/{FILE_SIZE:020d}").write_bytes(timer.LOG_UNIT.pack(unit).ljust(FILE_SIZE, b"\0"))
    one.open()
    one.put(b"b", 6000)
    one.step()
    one.timers.save_once()
    assert [u.physical_offset for u in one.units()] == [r.physical_offset for r in records(one.root)]
    assert one.at(9000) == [b"a", b"b"]


def test_timer_log_files_go_with_their_records(timed: Callable[..., Timed]):
    one = timed(fileReservedTime=0, deleteWhen=HOURS, mappedFileSizeTimerLog=FILE_SIZE)
    for n in range(20):
        one.put(b"%d" % n + bytes(600), 1000)
    one.at(1000)
    assert one.store._parts.log.next_offsets[b"T", 0] == 20
    one.timers.save_once()
    assert len(list((one.root / "timerlog").iterdir())) == 7
    clean(one)
    one.put(b"next", 9000)
    one.step()
    one.timers.save_once()
    names = sorted(int(path.name) for path in (one.root / "timerlog").iterdir())
    assert names[0] > 0 and names[-1] == 6 * FILE_SIZE
    one.again()
    one.at(9000)
    assert [m.body for m in one.store if m.topic == "T"][-1] == b"next"


def test_another_precision(timed: Callable[..., Timed]):
    """Moments of 100 ms: delivered within 100 ms."""
    one = timed(timerPrecisionMs=100)
    one.put(b"a", 1550)
    one.put(b"b", 1600)
    assert one.at(1599) == [] and one.at(1600) == [b"a", b"b"]


def test_a_time_that_passed_before_it_was_taken(timed: Callable[..., Timed]):
    """Its slot is done when it is taken: it comes at once, and not again."""
    one = timed()
    one.put(b"a", 1000)
    assert one.at(5000) == [b"a"]
    one.disk.clock = NOW + 5500
    one.put(b"b", 6000)
    assert one.store.wait_dispatched(60)
    assert one.at(7000) == [b"a", b"b"]
    one.put(b"c", 7001)
    one.disk.clock = NOW + 20_000
    one.timers._deliver(100)  # time goes on before the record is taken
    assert one.at(20_000) == [b"a", b"b", b"c"]
    one.timers.save_once()
    assert all(unit.slot_time < one.check().last_read_time for unit in one.units())
    one.again()
    assert one.at(30_000) == [b"a", b"b", b"c"]


# -- stores that RocketMQ wrote -----------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("name", ["timer", "timer550"])
def test_what_a_broker_left_waiting_comes_once(
    golden: Callable[[str], Golden], tmp_path: Path, name: str, killed: bool
):
    """By Java's own rows: what it delivered does not come again, and all else does, each at its time."""
    store = golden(name)
    root = store.copy(tmp_path)
    rows = [row for row in store.rows if row["topic"] == TOPIC]
    before = [row["msg_id"] for row in store.rows if row["topic"] == "Timed"]
    waiting = {row["msg_id"] for row in rows} - set(before)
    due = sorted({int(row["properties"]["TIMER_OUT_MS"]) + 1000 for row in rows if row["msg_id"] in waiting})
    last = max(row["store_timestamp"] for row in store.rows)
    with closing(Timed(root, last, **store.config)) as one:
        for number, at in enumerate(due):
            for clock in (max(at - 1, last), max(at, last)):
                one.at(clock - NOW)
            if killed and number % 3 == 0:
                one = one.killed(tmp_path / f"killed{number}")
        found = [m for m in one.store if m.topic == "Timed"]
    copies = [m for m in found if m.store_timestamp >= last and m.msg_id in waiting]
    assert sorted(m.msg_id or "" for m in copies) == sorted(waiting) and len(waiting) == 87
    assert all(m.store_timestamp >= int(m.properties["TIMER_OUT_MS"]) + 1000 for m in copies)
    assert len(found) == len(before) + len(waiting), "nothing came twice"
