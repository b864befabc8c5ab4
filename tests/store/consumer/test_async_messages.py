"""`async for message in consumer`: the loop goes on meanwhile, and a cancelled task loses and doubles nothing."""

import asyncio
import random
import threading
import time

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.consumer import consumer as module
from flintmq.store.consumer.source import StoreSource
from flintmq.store.view import open_store
from tests.support.engine import open_small


@pytest.fixture
def store(tmp_path):
    with open_small(tmp_path / "s") as store:
        yield store


def put(store, *numbers, queues=1):
    for number in numbers:
        store.put(Message("T", b"%d" % number, queue_id=number % queues))
    assert store.wait_dispatched(60)


async def numbers(consumer):
    return [int(message.body) async for message in consumer]


def test_every_message_in_order_within_its_queue_until_none_came(store):
    put(store, *range(100), queues=3)
    with store.consumer("G", "T", idle_ms=0) as consumer:
        found = asyncio.run(numbers(consumer))
        assert sorted(found) == list(range(100))
        for queue in range(3):
            own = [number for number in found if number % 3 == queue]
            assert own == sorted(own)
        assert consumer.commit() == {0: 34, 1: 33, 2: 33}
        assert asyncio.run(numbers(consumer)) == []


def test_a_commit_within_the_loop_covers_the_current_message(store):
    put(store, *range(10))

    async def some(consumer):
        async for message in consumer:
            if message.body == b"4":
                assert consumer.in_flight() == {0: 5}
                return await asyncio.to_thread(consumer.commit)

    with store.consumer("G", "T") as consumer:
        assert asyncio.run(some(consumer)) == {0: 5}
        assert [m.body for m in consumer.poll()] == [b"%d" % n for n in range(5, 10)], "what was read ahead is given"


def test_new_messages_wake_it(store):
    async def main():
        with store.consumer("G", "T", idle_ms=5000) as consumer:
            gaps = []
            messages = aiter(consumer)
            for number in range(20):
                waiting = asyncio.ensure_future(anext(messages))
                await asyncio.sleep(0.02)
                assert not waiting.done()
                begin = time.monotonic()
                store.put(Message("T", b"%d" % number))
                assert int((await waiting).body) == number
                gaps.append(time.monotonic() - begin)
            await messages.aclose()
        assert sorted(gaps)[10] < 0.1, gaps  # it looks again each 0.5 s: not for that

    asyncio.run(main())
    assert store._parts.queues._callbacks == [], "nobody is told any more"


def test_the_loop_goes_on_while_the_disk_is_slow(store, monkeypatch):
    """Reads of half a second each: nothing else that the loop runs waits for them."""
    put(store, *range(3))
    read = StoreSource.read

    def slow(self, *arguments):
        time.sleep(0.5)
        return read(self, *arguments)

    monkeypatch.setattr(StoreSource, "read", slow)
    threads = set()
    look = module.Consumer._look
    monkeypatch.setattr(
        module.Consumer, "_look", lambda *arguments: threads.add(threading.get_ident()) or look(*arguments)
    )

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        with store.consumer("G", "T", idle_ms=0) as one, store.consumer("H", "T", idle_ms=0) as two:
            found = await asyncio.gather(numbers(one), numbers(two))
        ticking.cancel()
        return found, ticks

    found, ticks = asyncio.run(main())
    assert found == [[0, 1, 2], [0, 1, 2]]
    assert ticks > 20, "in a second and a half, of 300 at best"
    assert threading.get_ident() not in threads


def test_a_lock_that_another_consumer_has_for_long_does_not_stop_the_loop(store):
    put(store, *range(5))
    with store.consumer("G", "T", idle_ms=0) as consumer:

        async def main():
            messages = aiter(consumer)
            first = await anext(messages)
            held = consumer._group.lock
            held.acquire()
            second = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0.05)
            assert not second.done()
            held.release()
            return [first.body, (await second).body]

        assert asyncio.run(main()) == [b"0", b"1"]


def test_cancelled_anywhere_it_loses_and_doubles_nothing(store):
    """A task is cancelled at random moments and started again. Messages that its body got are those before the position
    of the consumer, each once; a commit covers exactly them."""
    count, chance = 400, random.Random(20261129)
    put(store, *range(count), queues=3)
    got = []

    async def take(consumer):
        async for message in consumer:
            got.append(int(message.body))
            if chance.random() < 0.1:
                await asyncio.sleep(chance.choice((0, 0.001)))

    async def main(consumer):
        while len(got) < count:
            task = asyncio.ensure_future(take(consumer))
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.choice((0, 0.0005, 0.002)))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            committed = consumer.commit()
            assert [committed.get(queue, 0) for queue in range(3)] == [
                sum(number % 3 == queue for number in got) for queue in range(3)
            ]

    with store.consumer("G", "T") as consumer:
        asyncio.run(asyncio.wait_for(main(consumer), 60))
    assert sorted(got) == list(range(count))


def test_it_ends_when_the_store_is_closed_and_raises_what_is_wrong(tmp_path):
    with open_small(tmp_path / "s") as store:
        consumer = store.consumer("G", "T")

        async def main():
            waiting = asyncio.ensure_future(numbers(consumer))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(store.close)
            return await asyncio.wait_for(waiting, 10)

        assert asyncio.run(main()) == []
    with open_small(tmp_path / "s") as store:
        put(store, 1)

        def wrong(*arguments):
            raise UsageError("that is wrong")

        with store.consumer("G", "T") as consumer:
            consumer._source.read = wrong
            with pytest.raises(UsageError, match="that is wrong"):
                asyncio.run(numbers(consumer))


def test_of_a_view_and_with_retries(store):
    put(store, *range(3))

    async def main():
        with store.consumer("G", "T", retries=True) as consumer:
            async for message in consumer:
                if message.body == b"1" and not message.reconsume_times:
                    consumer.retry(message, delay=1)
                elif message.reconsume_times:
                    return message

    assert asyncio.run(main()).body == b"1"
    with open_store(store.root) as view, view.consumer("H", "T", idle_ms=0) as consumer:
        assert asyncio.run(numbers(consumer)) == [0, 1, 2]
