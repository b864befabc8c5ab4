"""Clients of a steady load, each one connection: those that send, those that consume, idle ones, comers and goers."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from contextlib import suppress
from typing import Self

from flintmq.format.message_id import parse_offset_msg_id
from flintmq.remoting.client import split_address
from flintmq.remoting.frames import ONE_WAY, RemotingFrame, decode_frame, encode_frame
from flintmq.remoting.names import (
    COMMIT_OFFSET,
    GET_MEMBERS,
    GET_QUEUE_END,
    GET_ROUTE,
    HEARTBEAT,
    LEAVE,
    PULL,
    PULL_NOT_FOUND,
    SEND_BATCH,
    SEND_SHORT,
    SUCCESS,
)
from labs.broker.ledger import QUEUES, TOPIC, SendLedger, Told, text_of
from tests.broker.talk import batch, heartbeat, pull, records, send

ANSWER_S = 60.0  # the first heartbeats make a group each, whose files are synced
SEND_EVERY_S, HEARTBEAT_S, HELD_MS, REST_S, COMMIT_EVERY = 0.5, 20.0, 5_000, 0.1, 50
BATCH_EVERY, BATCH = 20, 10  # each 20th send is a batch of ten


class Talk:
    """One connection: requests are answered in any order; what nobody asked for is counted in `told`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[RemotingFrame]] = {}
        self._numbers, self.told = itertools.count(1), 0
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, address: str) -> Self:
        """Connect."""
        return cls(*await asyncio.open_connection(*split_address(address)))

    async def ask(
        self, code: int, fields: dict[str, object] | None = None, body: bytes = b"", allowed: tuple[int, ...] = ()
    ) -> RemotingFrame:
        """Ask, and wait for an answer of success, or with a code that is allowed.

        Raises AssertionError: it has another code. TimeoutError, ConnectionError: there is none.
        """
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write(code, fields, body, number)
        try:
            answer = await asyncio.wait_for(waiting, ANSWER_S)
        finally:
            del self._waiting[number]
        assert answer.code in (SUCCESS, *allowed), f"request {code} was answered {answer.code}: {answer.remark}"
        return answer

    def tell(self, code: int, fields: dict[str, object]) -> None:
        """Ask without an answer."""
        self._write(code, fields, b"", next(self._numbers), ONE_WAY)

    def _write(self, code: int, fields: dict[str, object] | None, body: bytes, number: int, flag: int = 0) -> None:
        told = {name: str(value) for name, value in (fields or {}).items()}
        self._writer.write(encode_frame(RemotingFrame(code, number, flag, None, told, body, "JAVA", 513)))

    async def _read(self) -> None:
        error: Exception = ConnectionError("the broker hung up")
        try:
            while True:
                head = await self._reader.readexactly(4)
                frame = decode_frame(head + await self._reader.readexactly(int.from_bytes(head, "big")))
                waiting = self._waiting.get(frame.opaque) if frame.is_answer else None
                if waiting is None or waiting.done():
                    self.told += 1
                else:
                    waiting.set_result(frame)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(error)

    async def close(self, reset: bool = False) -> None:
        """End the connection, by a reset if it is to be."""
        self._task.cancel()
        if reset:
            self._writer.transport.abort()
        self._writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await self._writer.wait_closed()


class Load:
    """All clients of a load.

    Args:
        address: of the broker, which has TOPIC.
        connections: how many there are at a time.
        seed: of what is random.

    Attributes:
        ledger: of all that was sent.
        counted: what was done.
        stopping: set when all are to end.
    """

    def __init__(self, address: str, connections: int, seed: int) -> None:
        self.address, self.seed = address, seed
        self.ledger, self.counted, self.stopping = SendLedger(), Counter[str](), asyncio.Event()
        kinds = {self.sends: 40, self.consumes: 30, self.idles: 20, self.comes: 10}  # of 100
        self._roles = [kind for kind, share in kinds.items() for _ in range(max(1, connections * share // 100))]
        self._numbers = itertools.count()
        self._sending = 0  # clients that may still send

    async def run(self) -> None:
        """Live until `stopping`; the first error ends all.

        Raises ExceptionGroup: of what went wrong.
        """
        async with asyncio.TaskGroup() as group:
            for number, role in enumerate(self._roles):
                group.create_task(role(number, random.Random(f"{self.seed} {number}")))

    async def sends(self, number: int, chance: random.Random) -> None:
        """One that sends steadily, on one connection."""
        self._sending += 1
        talk = await Talk.to(self.address)
        for count in itertools.count(1):
            await self._rest(chance.uniform(0.5, 1.5) * SEND_EVERY_S)
            if self.stopping.is_set():
                break
            await self._send(talk, chance, BATCH if count % BATCH_EVERY == 0 else 1)
        self._sending -= 1
        await talk.close()

    async def consumes(self, number: int, chance: random.Random) -> None:
        """A group of one, which has every message: each queue by a held pull, offsets committed now and then."""
        talk, group = await Talk.to(self.address), f"Group{number}"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat(talk, f"c{number}", group))
            for queue_id in range(QUEUES):
                tasks.create_task(self._consume(talk, group, queue_id))
        await talk.close()

    async def idles(self, number: int, chance: random.Random) -> None:
        """One that says that it is there, and no more."""
        talk = await Talk.to(self.address)
        await self._beat(talk, f"i{number}", f"Idle{number % 5}")
        await talk.close()

    async def comes(self, number: int, chance: random.Random) -> None:
        """One that comes, does a little of everything and goes, sometimes without a word."""
        self._sending += 1
        while not self.stopping.is_set():
            talk, group = await Talk.to(self.address), f"Comers{number % 3}"
            client = f"v{number}-{next(self._numbers)}"
            await talk.ask(GET_ROUTE, {"topic": TOPIC})
            await talk.ask(HEARTBEAT, body=heartbeat(client, group, topics={TOPIC: "*"}))
            await talk.ask(GET_MEMBERS, {"consumerGroup": group})
            for _ in range(3):
                await self._send(talk, chance, 1)
            await talk.ask(PULL, pull(TOPIC, 0, 0, group), allowed=(PULL_NOT_FOUND,))
            if chance.random() < 0.5:
                await talk.ask(LEAVE, {"clientID": client, "consumerGroup": group})
            await talk.close(reset=chance.random() < 0.3)
            self.counted["came and went"] += 1
            await self._rest(chance.uniform(0.1, 2))
        self._sending -= 1

    async def _send(self, talk: Talk, chance: random.Random, count: int) -> None:
        names = [f"{self.seed}/{next(self._numbers)}" for _ in range(count)]
        self.ledger.sent.update(names)
        keys, queue_id = [f"UNIQ_KEY\x01{name}\x02" for name in names], chance.randrange(QUEUES)
        if count == 1:
            answer = await talk.ask(SEND_SHORT, send(TOPIC, queue_id, keys[0]), text_of(names[0]).encode())
        else:
            body = batch(*((text_of(name).encode(), key) for name, key in zip(names, keys, strict=True)))
            answer = await talk.ask(SEND_BATCH, send(TOPIC, queue_id, batch="true"), body)
        first = int(answer.fields["queueOffset"])
        for number, (name, text) in enumerate(zip(names, answer.fields["msgId"].split(","), strict=True)):
            place = parse_offset_msg_id(text)[2]
            self.ledger.acknowledged[name] = Told(int(answer.fields["queueId"]), first + number, place, 0.0)

    async def _beat(self, talk: Talk, client: str, group: str) -> None:
        while not self.stopping.is_set():
            await talk.ask(HEARTBEAT, body=heartbeat(client, group, topics={TOPIC: "*"}))
            await self._rest(HEARTBEAT_S)

    async def _consume(self, talk: Talk, group: str, queue_id: int) -> None:
        """Take a queue's messages; when all are to end, up to what the last sender has sent."""
        offset = 0
        for count in itertools.count(1):
            fields = pull(TOPIC, queue_id, offset, group, sysFlag=6, suspendTimeoutMillis=HELD_MS)
            answer = await talk.ask(PULL, fields, allowed=(PULL_NOT_FOUND,))
            got = sum(1 for _ in records(answer.body))
            following = int(answer.fields["nextBeginOffset"])
            assert following == offset + got, f"{got} messages from {offset} on lead to {following}"
            offset = following
            self.counted["consumed"] += got
            if count % COMMIT_EVERY == 0:
                place = {"consumerGroup": group, "topic": TOPIC, "queueId": queue_id}
                talk.tell(COMMIT_OFFSET, {**place, "commitOffset": offset})
            if self.stopping.is_set() and not self._sending and not got:
                end = await talk.ask(GET_QUEUE_END, {"topic": TOPIC, "queueId": queue_id})
                if int(end.fields["offset"]) == offset:
                    return
            if not self.stopping.is_set():
                await self._rest(REST_S)

    async def _rest(self, seconds: float) -> None:
        """Wait, no longer than to the end of all."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)
