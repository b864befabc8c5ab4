"""Puts that wait for replicas: who counts, who is answered, and when."""

import asyncio
import random
import threading
import time
from collections.abc import Callable

import pytest

from flintmq.ha import acks as acks_module
from flintmq.ha.acks import AckTable
from flintmq.message import PutMessageStatus, PutResult
from flintmq.store.append.replicas import ReplicaRequest
from tests.support.threads import within


class Uncompiled:
    """Stands for ReplicaPuts where kernels are not compiled."""

    def __init__(self, *_: object) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True, params=["kernel", "python"])
def puts_of_loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of puts of an event loop."""
    if request.param == "python":
        monkeypatch.setattr(acks_module, "ReplicaPuts", Uncompiled)


def stored(end: int) -> PutResult:
    """A put whose record ends there."""
    return PutResult(PutMessageStatus.PUT_OK, physical_offset=0, size=end)


def put(acks: AckTable, end: int) -> asyncio.Future[PutResult]:
    """A put of the loop that runs."""
    return acks.future(stored(end), asyncio.get_running_loop(), lambda: None)


def is_done(result: PutResult) -> bool:
    """Whether replicas have it."""
    assert result.status.name in ("PUT_OK", "FLUSH_SLAVE_TIMEOUT")
    return result.status.name == "PUT_OK"


def table(needed: int = 1, seconds: float = 30, **options: bool) -> AckTable:
    return AckTable(needed, seconds, **options)


class Waiting:
    """Threads that wait, each for the log below one offset."""

    def __init__(self, acks: AckTable, ends: list[int]) -> None:
        self.acks, self.answers = acks, dict[int, bool]()
        self.threads = [threading.Thread(target=self._wait, args=(acks.request(end),)) for end in ends]
        for thread in self.threads:
            thread.start()

    def _wait(self, request: ReplicaRequest) -> None:
        self.answers[request.end] = self.acks.wait(request)

    def join(self) -> dict[int, bool]:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()
        return self.answers

    def after(self, count: int) -> dict[int, bool]:
        """The answers once there are so many."""
        assert within(lambda: len(self.answers) >= count)
        return dict(self.answers)


def test_an_acknowledgement_answers_exactly_what_it_covers():
    acks = table()
    waiting = Waiting(acks, [100, 200, 201, 300])
    acks.acknowledged("a", "host", 200)
    assert waiting.after(2) == {100: True, 200: True}
    assert len(acks) == 2
    acks.acknowledged("a", "host", 300)
    assert waiting.join() == {100: True, 200: True, 201: True, 300: True} and len(acks) == 0


def test_what_is_covered_already_waits_for_nothing():
    acks = table(seconds=0)
    acks.acknowledged("a", "host", 200)
    assert acks.wait(acks.request(200)) and not acks.wait(acks.request(201))


@pytest.mark.parametrize(
    ("needed", "by_host", "lines", "reached"),
    [
        (1, True, {"a": ("h", 10)}, 10),
        (2, True, {"a": ("h", 10)}, -1),
        (2, True, {"a": ("h", 10), "b": ("h", 20)}, -1),
        (1, True, {"a": ("h", 10), "b": ("h", 20)}, 20),
        (2, False, {"a": ("h", 10), "b": ("h", 20)}, 10),
        (2, True, {"a": ("h", 10), "b": ("h", 20), "c": ("i", 15)}, 15),
        (2, False, {"a": ("h", 10), "b": ("h", 20), "c": ("i", 15)}, 15),
        (3, False, {"a": ("h", 10), "b": ("h", 20), "c": ("i", 15)}, 10),
        (3, True, {"a": ("h", 10), "b": ("i", 20), "c": ("j", 15), "d": ("k", 1)}, 10),
    ],
)
def test_who_counts(needed: int, by_host: bool, lines: dict[str, tuple[str, int]], reached: int):
    acks = table(needed, by_host=by_host)
    for line, (host, offset) in lines.items():
        acks.acknowledged(line, host, offset)
    assert acks.reached == reached


def test_what_a_line_acknowledged_is_forgotten_with_it():
    acks = table(2, seconds=0)
    acks.acknowledged("a", "h", 100)
    acks.acknowledged("b", "i", 100)
    assert acks.wait(acks.request(100))
    acks.gone("b")
    acks.gone("never came")
    assert acks.reached == -1 and not acks.wait(acks.request(100))


def test_time_is_up_for_each_by_itself():
    acks = table(seconds=0.25)
    before = time.monotonic()
    waiting = Waiting(acks, list(range(20)))
    assert set(waiting.join().values()) == {False}
    assert time.monotonic() - before < 4 and len(acks) == 0, "together, not one after the other"


def test_a_late_wait_takes_no_longer_than_the_whole_time():
    """The time of a put begins with its request: it may wait for the disk in between."""
    clock = [0.0]
    acks = AckTable(1, 3, monotonic=lambda: clock[0])
    request = acks.request(1)
    clock[0] = 3.1
    before = time.monotonic()
    assert not acks.wait(request)
    assert time.monotonic() - before < 2.5


def test_requests_of_one_end_are_told_apart():
    acks = table(seconds=0)
    late, others = acks.request(5), [acks.request(5) for _ in range(3)]
    assert not acks.wait(late) and len(acks) == 3
    acks.acknowledged("a", "h", 5)
    assert [acks.wait(one) for one in others] == [True] * 3


def test_an_exception_of_a_signal_handler_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch):
    acks = table()

    class Interrupts:
        def set_and_wait(self, latch: object, seconds: float) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr(acks, "_opener", Interrupts())
    with pytest.raises(KeyboardInterrupt):
        acks.wait(acks.request(1))
    assert len(acks) == 0


def test_a_closed_table_answers_at_once():
    acks = table()
    waiting = Waiting(acks, [1, 2])
    acks.close()
    assert waiting.join() == {1: False, 2: False}
    assert not acks.wait(acks.request(0)) and len(acks) == 0


def test_each_put_rings():
    rings: list[int] = []
    acks = AckTable(1, 0, wake=lambda: rings.append(1))
    acks.wait(acks.request(1))
    assert rings == [1]


def test_the_puts_of_a_turn_ring_once_after_the_last():
    rings: list[int] = []
    acks = AckTable(1, 5, wake=lambda: rings.append(len(made)))
    made: list[asyncio.Future[PutResult]] = []

    async def main() -> None:
        for turn in (3, 6):
            made.extend(put(acks, end) for end in range(1, 4))
            assert len(made) == turn
            await asyncio.sleep(0)
        acks.acknowledged("a", "h", 10)
        assert [is_done(one) for one in await asyncio.gather(*made)] == [True] * 6

    asyncio.run(main())
    assert rings == [3, 6]


def run(acks: AckTable, ends: list[int], meanwhile: Callable[[], None]) -> list[tuple[int, bool]]:
    """The answers to puts of a loop, in the order in which they come; `meanwhile` runs in another thread."""

    async def main() -> list[tuple[int, bool]]:
        loop, found = asyncio.get_running_loop(), list[tuple[int, bool]]()
        futures = [(end, put(acks, end)) for end in ends]
        for end, future in futures:
            future.add_done_callback(lambda one, end=end: found.append((end, is_done(one.result()))))
        await asyncio.gather(loop.run_in_executor(None, meanwhile), *(future for _, future in futures))
        return found

    return asyncio.run(asyncio.wait_for(main(), 10))


def test_a_loop_is_answered_as_acknowledgements_come():
    acks = table()

    def meanwhile() -> None:
        for offset in (10, 25, 30):
            acks.acknowledged("a", "h", offset)
            time.sleep(0.01)

    assert run(acks, [10, 20, 30], meanwhile) == [(10, True), (20, True), (30, True)]


def test_a_loop_whose_time_is_up():
    acks = table(seconds=0.05)
    assert run(acks, [10, 20], lambda: None) == [(10, False), (20, False)]
    acks.acknowledged("a", "h", 10)
    assert run(acks, [10, 20], lambda: None) == [(10, True), (20, False)]


def test_a_loop_and_a_table_that_is_closed():
    acks = table()
    assert run(acks, [10, 20], acks.close) == [(10, False), (20, False)]
    assert run(acks, [30], lambda: None) == [(30, False)]


def test_an_acknowledgement_within_a_turn_answers_a_part_of_it():
    acks, found = table(seconds=0.3), list[tuple[int, bool]]()

    async def main() -> None:
        futures = [put(acks, end) for end in (10, 20, 30, 40)]
        for end, future in zip((10, 20, 30, 40), futures, strict=True):
            future.add_done_callback(lambda one, end=end: found.append((end, is_done(one.result()))))
        await asyncio.sleep(0)
        acks.acknowledged("a", "h", 20)
        await asyncio.sleep(0.01)
        assert found == [(10, True), (20, True)]
        futures += [put(acks, end) for end in (50, 60)]
        acks.acknowledged("a", "h", 35)
        await asyncio.sleep(0.01)
        assert found[2:] == [(30, True)]
        assert [is_done(one) for one in await asyncio.gather(*futures[3:])] == [False] * 3
        assert found[3:] == [(40, False)]

    asyncio.run(asyncio.wait_for(main(), 10))


def test_what_replicas_had_before_the_turn_ended_is_answered_at_its_end():
    acks = table()

    async def main() -> None:
        first, second = put(acks, 10), put(acks, 20)
        acks.acknowledged("a", "h", 10)  # the listener was awake, and sent it
        assert is_done(await first)
        assert not second.done()
        acks.acknowledged("a", "h", 20)
        assert is_done(await second)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_table_that_is_closed_within_a_turn_refuses_all_of_it():
    acks = table()

    async def main() -> None:
        before, now = put(acks, 10), put(acks, 20)
        await asyncio.sleep(0)
        late = put(acks, 30)
        acks.close()
        after = put(acks, 40)
        assert [is_done(one) for one in await asyncio.gather(before, now, late, after)] == [False] * 4

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_task_that_puts_again_when_it_is_answered():
    """Each step puts the next message within the callback that answers the one before."""
    acks, ends = table(), iter(range(1, 10_000))

    async def work() -> int:
        return sum([is_done(await put(acks, next(ends))) for _ in range(50)])

    async def main() -> list[int]:
        loop, over = asyncio.get_running_loop(), threading.Event()

        def acknowledge() -> None:
            while not over.wait(0.0005):
                acks.acknowledged("a", "h", 10_000)
                acks.gone("a")

        helper = loop.run_in_executor(None, acknowledge)
        try:
            return await asyncio.gather(*(work() for _ in range(20)))
        finally:
            over.set()
            await helper

    assert asyncio.run(asyncio.wait_for(main(), 20)) == [50] * 20


def test_time_is_up_too_where_a_signal_handler_raised_amid_the_sending():
    raised: list[BaseException] = []

    def wake() -> None:
        if not raised:
            raised.append(TimeoutError("of a handler"))
            raise raised[0]

    acks = AckTable(1, 0.1, wake=wake)

    async def main() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        first = put(acks, 10)
        await asyncio.sleep(0.01)
        second = put(acks, 20)
        assert [is_done(one) for one in await asyncio.gather(first, second)] == [False] * 2
        assert seen == raised

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_cancelled_put_holds_up_none():
    acks = table()

    async def main() -> bool:
        first, second = put(acks, 10), put(acks, 20)
        first.cancel()
        acks.acknowledged("a", "h", 20)
        return is_done(await asyncio.wait_for(second, 10))

    assert asyncio.run(main())


def test_all_puts_of_a_loop_are_kept_together():
    """Else those of the fast way would wait where no acknowledgement is looked for."""
    acks = table()

    async def main() -> None:
        for end in (10, 20, 30):
            future = put(acks, end)
            acks.acknowledged("a", "h", end)
            assert is_done(await future)
            kept.append(next(iter(acks._loops.values())))

    kept: list[object] = []
    asyncio.run(main())
    assert kept[0] is kept[1] is kept[2]


def test_a_loop_that_has_ended_is_left_out():
    acks = table()

    async def leave() -> None:
        put(acks, 10)

    for _ in range(3):
        asyncio.run(leave())
    acks.acknowledged("a", "h", 10)
    assert run(acks, [20], lambda: acks.acknowledged("a", "h", 20)) == [(20, True)]


def test_many_threads_and_loops_with_acknowledgements_in_any_order():
    """Three replicas of which two are needed report in steps of their own; every put is answered, none too early."""
    acks, chance = table(2), random.Random(7)
    ends = list(range(1, 401))
    early: list[int] = []
    known = {"a": 0, "b": 0, "c": 0}

    def have(end: int) -> int:
        return sum(offset >= end for offset in known.values())

    def wait(mine: list[int]) -> None:
        for end in mine:
            if not acks.wait(acks.request(end)) or have(end) < 2:
                early.append(end)

    async def loop_waits(mine: list[int]) -> None:
        async def one(end: int) -> None:
            if not is_done(await put(acks, end)) or have(end) < 2:
                early.append(end)

        await asyncio.gather(*(one(end) for end in mine))

    threads = [threading.Thread(target=wait, args=(ends[n::4],)) for n in range(2)]
    threads += [threading.Thread(target=asyncio.run, args=(loop_waits(ends[n::4]),)) for n in (2, 3)]
    for thread in threads:
        thread.start()
    while min(known.values()) < 400:
        name = chance.choice(sorted(known))
        known[name] = min(400, known[name] + chance.randrange(1, 40))
        acks.acknowledged(name, name, known[name])
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert early == [] and len(acks) == 0
