"""Sends of producers, and messages that consumers send back: each is a put.

A put is one compiled call in the loop, unless it waits for the disk or for replicas. Upstream: SendMessageProcessor,
AbstractSendMessageProcessor.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.locks import Locks
from flintmq.broker.needs import SUB, of_topic
from flintmq.broker.requests import INT32, Answer, Handler, Peer, PlainTaker, Refused, Request
from flintmq.broker.served import TopicFacts
from flintmq.broker.served_store import INHERITS, ONE_QUEUE, UNMADE, ServedStore, check_topic
from flintmq.errors import MessageNotFoundError, UsageError
from flintmq.format import properties
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OUTCOME_TOPIC,
    RETRY,
    dead_letter_topic,
    retry_topic,
)
from flintmq.format.text import java_encode, java_int
from flintmq.format.timer import TIMER_TOPIC
from flintmq.kernels import compiled
from flintmq.kernels.write import send_frame
from flintmq.message import Message, PutMessageStatus, PutResult
from flintmq.remoting.frames import ANSWER, ONE_WAY, VERSION, RemotingFrame, encode_frame
from flintmq.remoting.names import (
    FLUSH_DISK_TIMEOUT,
    FLUSH_SLAVE_TIMEOUT,
    GROUP_NOT_EXIST,
    MESSAGE_ILLEGAL,
    NO_PERMISSION,
    REPLY,
    REPLY_SHORT,
    SEND,
    SEND_BACK,
    SEND_BATCH,
    SEND_SHORT,
    SERVICE_NOT_AVAILABLE,
    SLAVE_NOT_AVAILABLE,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from flintmq.remoting.sends import REGION, answer_pieces, send_answer
from flintmq.storage.files.filesystem import REAL
from flintmq.store.append.half_message import prepared
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.consumer.retry import sent_back
from flintmq.store.layout.config_reader import BATCH_TYPE
from flintmq.store.services.topics import TopicSettings

LONG: Final = (
    "producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag",
    "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch",
)  # fmt: skip
"""Names of the fields of a send (10) and of a reply (324)."""
_TOPIC, _TEMPLATE, _QUEUES, _QUEUE_ID, _SYS_FLAG, _BORN, _FLAG, _PROPERTIES, _RETRIED, UNIT_MODE, _MOST, _BATCH = range(
    1, 13
)
_SHORT: Final = tuple("abcdefghijklm")
NAMES: Final = {SEND: LONG, REPLY: LONG, SEND_SHORT: _SHORT, SEND_BATCH: _SHORT, REPLY_SHORT: _SHORT}
NOT_TO_BE_SENT_TO: Final = frozenset({
    SCHEDULE_TOPIC, HALF_TOPIC, OUTCOME_TOPIC, GIVEN_UP_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    TIMER_TOPIC,  # upstream lets a client put there, by properties alone, what comes to any topic
})  # fmt: skip
PROPERTIES_MAX: Final = 0x7FFF
_ENTRY = struct.Struct(">iiiii")  # of a batch: size, magic, checksum, flag, bytes of the body
CLUSTER: Final = "CLUSTER"  # property with the broker's cluster, by which a client knows where to answer
_NO_WAIT = properties.WAIT + properties.NAME_END + "false" + properties.VALUE_END
_KEY = properties.UNIQ_KEY + properties.NAME_END
REPLY_TO: Final = "REPLY_TO_CLIENT"  # property of a request, and of its reply: the client id of who asked
_DELAY = properties.DELAY + properties.NAME_END
_PREPARED = properties.TRAN_MSG + properties.NAME_END

_REFUSALS: Final = (MESSAGE_ILLEGAL, SERVICE_NOT_AVAILABLE)
Status = PutMessageStatus
_CODES: Final = {
    Status.PUT_OK: SUCCESS,
    Status.FLUSH_DISK_TIMEOUT: FLUSH_DISK_TIMEOUT,
    Status.FLUSH_SLAVE_TIMEOUT: FLUSH_SLAVE_TIMEOUT,
    Status.SLAVE_NOT_AVAILABLE: SLAVE_NOT_AVAILABLE,
    Status.MESSAGE_ILLEGAL: MESSAGE_ILLEGAL,
    Status.PROPERTIES_SIZE_EXCEEDED: MESSAGE_ILLEGAL,
    Status.WHEEL_TIMER_MSG_ILLEGAL: MESSAGE_ILLEGAL,
    Status.SERVICE_NOT_AVAILABLE: SERVICE_NOT_AVAILABLE,
}
"""Status of a put -> code of the answer; all else is SYSTEM_ERROR. What is stored counts as sent."""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """The fields of a send."""

    topic: str
    template: str  # the topic by which a new one is made
    queues: int  # that a new topic gets
    queue_id: int  # negative: any
    sys_flag: int
    born_ms: int
    flag: int
    properties: str
    retried: int  # times
    most_retries: int | None

    @classmethod
    def of(cls, request: Request) -> SendRequest:
        names = NAMES[request.frame.code]
        return cls(
            request.text(names[_TOPIC]),
            request.text(names[_TEMPLATE], ""),
            request.number(names[_QUEUES], 4, INT32),
            request.number(names[_QUEUE_ID], bounds=INT32),
            request.number(names[_SYS_FLAG], 0, INT32),
            request.number(names[_BORN]),
            request.number(names[_FLAG], 0, INT32),
            request.text(names[_PROPERTIES], ""),
            request.number(names[_RETRIED], 0, INT32),
            request.number(names[_MOST], bounds=INT32) if names[_MOST] in request.frame.fields else None,
        )


class _NewTopic:
    """A topic that is being made, and the sends that wait for it in their order."""

    def __init__(self) -> None:
        self.lock, self.waiting = asyncio.Lock(), 0


class Sends:
    """Puts what clients send. Thread: the loop's."""

    def __init__(self, served: ServedStore, locks: Locks, clients: Clients, name: str, cluster: str) -> None:
        self._served, self._store, self._locks, self._name = served, served.store, locks, name
        self._clients = clients
        config, self._keys = served.config, UniqueKeys(REAL)
        self._waits = config.flush_disk_type == "SYNC_FLUSH" or config.broker_role == "SYNC_MASTER"
        marks = {CLUSTER: cluster, "MSG_REGION": REGION, "TRACE_ON": "true"}
        self._marks = [f"{name}{properties.NAME_END}{value}{properties.VALUE_END}" for name, value in marks.items()]
        self._raw_marks, self._pieces = java_encode("".join(self._marks)), answer_pieces(VERSION)
        self._queues_now: dict[str, int] = {}  # of topics that a plain send of this turn of the loop was for
        self._checked: set[str] = set()  # topics of the store with names that may be sent to
        self._new: dict[str, _NewTopic] = {}

    def handlers(self) -> dict[int, Handler]:
        return {SEND: self.send, SEND_SHORT: self.send, SEND_BATCH: self.send, SEND_BACK: self.send_back}

    # -- plain sends --------------------------------------------------------------------------------------------------

    def plain(self) -> list[PlainTaker]:
        """Return what puts plain sends without a frame made of them, if anything does."""
        return [self._put_plain] if compiled() and not self._waits else []

    def _put_plain(self, data: memoryview, at: int, peer: Peer) -> int | None:
        """Put and answer the plain send that begins at data[at]; return where its frame ends.

        None: it is not plain, or is to be refused, which `send` does.
        """
        found = send_frame.read(data, at, peer.address)
        if found is None:
            return None
        end, opaque, flag, _, _, _, message = found
        try:
            if not self._completed(message):
                return None
            result = self._store.put(message)
        except UsageError:  # somebody closed the store: `send` says so
            return None
        if flag & ONE_WAY:
            return end
        queue_id = message.queue_id
        quick = send_frame.answer(self._pieces, opaque, queue_id, result) if result else None
        peer.send_encoded(quick or encode_frame(self._answered(opaque, [result], queue_id)))
        return end

    def _completed(self, message: Message) -> bool:
        """Add the broker's properties to a plain message; return whether it may be put."""
        raw = message.properties_bytes
        if raw is None or not 0 <= message.queue_id < self._queues(message.topic):
            return False
        message.properties_bytes = raw = raw + self._raw_marks
        return len(raw) <= PROPERTIES_MAX

    def _queues(self, topic: str) -> int:
        """Return the number of queues that take plain sends; it is asked once a turn of the loop."""
        found = self._queues_now.get(topic)
        if found is None:
            if not self._queues_now:
                asyncio.get_running_loop().call_soon(self._queues_now.clear)
            facts = self._served.topic(topic) if topic in self._checked and topic not in self._new else None
            found = facts.write_queues if facts is not None and facts.is_writable else 0
            self._queues_now[topic] = found
        return found

    # -- sends --------------------------------------------------------------------------------------------------------

    def asked(self, request: Request) -> SendRequest:
        """Return what a send asks for.

        Raises Refused: its topic is none that clients send to.
        """
        asked = SendRequest.of(request)
        check_topic(asked.topic)
        if asked.topic in NOT_TO_BE_SENT_TO:
            raise Refused(NO_PERMISSION, f"Sending message to topic[{asked.topic}] is forbidden.")
        return asked

    def send(self, request: Request) -> Answer | Coroutine[None, None, Answer]:
        asked = self.asked(request)
        facts = self._served.topic(asked.topic)
        if facts is None or facts is UNMADE or asked.topic in self._new:
            return self._send_first(request, asked)
        return self._send(request, asked, facts)

    async def _send_first(self, request: Request, asked: SendRequest) -> Answer:
        """Send to a topic that is made meanwhile. Messages that wait for it keep their order."""
        new = self._new.setdefault(asked.topic, _NewTopic())
        new.waiting += 1
        try:
            async with new.lock:
                answer = self._send(request, asked, await self._made(asked))
        finally:
            new.waiting -= 1
            if not new.waiting:
                del self._new[asked.topic]
        return await answer if isinstance(answer, Coroutine) else answer

    async def _made(self, asked: SendRequest) -> TopicFacts:
        """Make the topic as a broker with autoCreateTopicEnable does; return its facts.

        Raises Refused: topics are not made so.
        """
        facts, template = self._served.topic(asked.topic), self._served.topic(asked.template)
        if facts is not None and facts is not UNMADE:
            return facts
        if facts is UNMADE or asked.topic.startswith(RETRY):
            settings = ONE_QUEUE
        elif template is None or not template.perm & INHERITS:
            raise Refused(TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please!")
        else:
            queues = max(min(asked.queues, template.write_queues), 1)
            settings = TopicSettings(queues, queues, template.perm & ~INHERITS)
        await self._served.make_topic(asked.topic, settings)
        facts = self._served.topic(asked.topic)
        if facts is None:  # somebody has deleted it meanwhile; a client makes it anew
            raise Refused(TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please!")
        return facts

    def _send(self, request: Request, asked: SendRequest, facts: TopicFacts) -> Answer | Coroutine[None, None, Answer]:
        self._checked.add(asked.topic)
        if not facts.is_writable:
            raise Refused(NO_PERMISSION, f"the topic[{asked.topic}] sending message is forbidden")
        if asked.queue_id >= max(facts.write_queues, facts.read_queues):
            raise Refused(
                SYSTEM_ERROR,
                f"request queueId[{asked.queue_id}] is illegal, topic[{asked.topic}] has {facts.write_queues} queues",
            )
        queue_id = asked.queue_id if asked.queue_id >= 0 else random.randrange(max(facts.write_queues, 1))
        if request.frame.code == SEND_BATCH or request.flag(NAMES[request.frame.code][_BATCH], False):
            return self._send_batch(request, asked, queue_id)
        if asked.topic.startswith(RETRY):
            return self._send_retry(request, asked, queue_id)
        message = self._message(asked, request.frame.body, request.peer.address, asked.topic, queue_id)
        is_there = not request.peer.is_closed  # what waited for its topic may be of a client that has gone
        if is_there and REPLY_TO in asked.properties and request.frame.code not in (REPLY, REPLY_SHORT):
            client = properties.parse(asked.properties).get(REPLY_TO)
            if client:  # it may get its reply before its first heartbeat
                self._clients.note_asker(client, request.peer)
        if _says(asked.properties, _PREPARED) and _is_prepared(asked, message.delay_level):
            message = self._half(message)
            group = properties.parse(asked.properties).get(properties.PGROUP)
            if group and is_there:
                self._clients.note_producer(group, request)  # which may be asked from now on
        return self._put(request, message, queue_id)

    def put(self, asked: SendRequest, body: bytes, host: str) -> PutResult | Awaitable[PutResult]:
        """Put a message of a client that speaks no remoting, into a queue that its topic has.

        Args:
            host: the client's address, HOST:PORT.

        Raises:
            Refused: as a send.
        """
        message = self._message(asked, body, host, asked.topic, asked.queue_id)
        return self._stored(self._half(message) if _says(asked.properties, _PREPARED) else message)

    def _half(self, message: Message) -> Message:
        """Return the half message of a transaction."""
        try:
            return prepared(message, self._served.config)
        except UsageError as error:
            raise Refused(MESSAGE_ILLEGAL, str(error)) from None

    def _message(self, asked: SendRequest, body: bytes, host: str, topic: str, queue_id: int) -> Message:
        text, level = asked.properties, 0
        if len(text) > PROPERTIES_MAX:  # before it is parsed, which takes a tenth of a second for a megabyte
            raise Refused(MESSAGE_ILLEGAL, self._illegal())
        if _DELAY in text and (told := properties.parse(text).get(properties.DELAY)) is not None:
            read = java_int(told)
            if read is None:
                raise Refused(MESSAGE_ILLEGAL, f"the property DELAY is no number: {told!a:.100}")
            level = read
        return Message(
            topic,
            body,
            queue_id=queue_id,
            flag=asked.flag,
            born_timestamp=asked.born_ms,
            sys_flag=asked.sys_flag,
            reconsume_times=asked.retried,
            properties_bytes=self._properties(text),
            delay_level=max(level, 0),
            born_host=host,
            wait=not _says(text, _NO_WAIT),
        )

    def _properties(self, text: str) -> bytes:
        """Return properties as they came, with the broker's, and a key if they have none."""
        if text and not text.endswith(properties.VALUE_END):
            text += properties.VALUE_END
        if not _says(text, _KEY):
            text += f"{_KEY}{self._keys.take(1)[0]}{properties.VALUE_END}"
        text += "".join(mark for mark in self._marks if not _says(text, mark))
        raw = java_encode(text)
        if len(raw) > PROPERTIES_MAX:
            raise Refused(MESSAGE_ILLEGAL, self._illegal())
        return raw

    async def _send_retry(self, request: Request, asked: SendRequest, queue_id: int) -> Answer:
        """Put the message of an orderly consumer that gives it up for now, or for good."""
        group = asked.topic.removeprefix(RETRY)
        settings = self._store.group(group)
        if settings is None:
            raise Refused(GROUP_NOT_EXIST, f"subscription group not exist, {group}")
        most = settings.retry_max_times if asked.most_retries is None else asked.most_retries
        topic = asked.topic
        if asked.retried > most or self._locks.is_ordered(group):
            topic, queue_id = dead_letter_topic(group), 0
            await self._served.make_topic(topic, ONE_QUEUE)
        message = self._message(asked, request.frame.body, request.peer.address, topic, queue_id)
        if topic != asked.topic:
            message.delay_level = 0
        return await self._put_later(request, message)

    # -- batches ------------------------------------------------------------------------------------------------------

    async def _send_batch(self, request: Request, asked: SendRequest, queue_id: int) -> Answer:
        """Put a batch, all of it or nothing."""
        if asked.topic.startswith(RETRY):
            raise Refused(MESSAGE_ILLEGAL, f"batch request does not support retry group {asked.topic}")
        if len(request.frame.body) > self._served.config.max_message_size:
            raise Refused(MESSAGE_ILLEGAL, self._illegal())
        # A frame has room for hundreds of thousands of messages: they would hold the loop for a second.
        return await self._served.run(self._put_batch, request, asked, queue_id)

    def _put_batch(self, request: Request, asked: SendRequest, queue_id: int) -> Answer:
        """Put a batch and return its answer. Thread: any."""
        messages = [
            Message(
                asked.topic,
                body,
                queue_id=queue_id,
                flag=flag,
                born_timestamp=asked.born_ms,
                sys_flag=asked.sys_flag,
                reconsume_times=asked.retried,
                properties_bytes=raw,
                born_host=request.peer.address,
            )
            for body, flag, raw in _entries(request.frame.body)
        ]
        if not messages:
            raise Refused(MESSAGE_ILLEGAL, "the batch is empty")
        results = self._store.put_batch(messages, self._shared(asked))
        return self._answered(
            request.frame.opaque, results, queue_id, properties.parse(asked.properties).get(properties.UNIQ_KEY)
        )

    def _shared(self, asked: SendRequest) -> dict[str, str] | None:
        """Return a batch's own properties where it becomes one record; else they are not stored.

        So it is from 5.4.0 on. 5.3.3 adds them to those of each message, which all get the batch's key by that.
        """
        settings = self._store.topic(asked.topic)
        is_one = settings is not None and settings.attributes.get("queue.type") == BATCH_TYPE
        return properties.parse(asked.properties) if is_one else None

    # -- what consumers send back -------------------------------------------------------------------------------------

    async def send_back(self, request: Request) -> Answer:
        """Put a message that a consumer could not process: for later, or into the dead letters."""
        group, offset = request.text("group"), request.number("offset")
        settings = self._store.group(group)
        if settings is None:
            raise Refused(GROUP_NOT_EXIST, f"subscription group not exist, {group}")
        if settings.retry_queues <= 0:  # the group wants no retries
            return request.answer()
        try:
            message = await self._served.at(offset)
        except MessageNotFoundError as error:
            raise Refused(SYSTEM_ERROR, f"look message by offset failed, {offset}: {error}") from None
        request.may(of_topic(message.topic, SUB))
        back = sent_back(
            message,
            group,
            level=request.number("delayLevel", 0, INT32),
            most=request.number("maxReconsumeTimes", settings.retry_max_times, INT32),
            queues=settings.retry_queues,
            origin_id=request.text("originMsgId", "") or None,
        )
        queues = settings.retry_queues if back.topic == retry_topic(group) else 1
        await self._served.make_topic(back.topic, TopicSettings(queues, queues))
        facts = self._served.topic(back.topic)
        if facts is not None and not facts.is_writable:
            raise Refused(NO_PERMISSION, f"the topic[{back.topic}] sending message is forbidden")
        answer = await self._put_later(request, back)
        code = answer.code if answer is not None else SUCCESS
        return request.answer() if code == SUCCESS else answer

    # -- puts ---------------------------------------------------------------------------------------------------------

    def _put(self, request: Request, message: Message, queue_id: int) -> Answer | Coroutine[None, None, Answer]:
        """Put a message; the answer names this queue, as that of a half message is another one."""
        stored = self._stored(message)
        if isinstance(stored, PutResult):
            return self._answered(request.frame.opaque, [stored], queue_id)

        async def answer() -> Answer:
            return self._answered(request.frame.opaque, [await stored], queue_id)

        return answer()

    def _stored(self, message: Message) -> PutResult | Awaitable[PutResult]:
        """Put a message now, in the order in which they came; the result may wait for the disk."""
        return self._store.put_async(message) if self._waits else self._store.put(message)

    async def _put_later(self, request: Request, message: Message) -> Answer:
        return self._answered(request.frame.opaque, [await self._store.put_async(message)], message.queue_id)

    def _answered(self, opaque: int, results: list[PutResult], queue_id: int, key: str | None = None) -> RemotingFrame:
        """Return the answer of a put, or of the puts of a batch."""
        first, code = results[0], code_of(results[0])
        if first.physical_offset < 0:
            remark = remark_of(first)
            remark = f"{self._illegal()} {remark}" if code == MESSAGE_ILLEGAL else remark
            return RemotingFrame(code, opaque, ANSWER, remark, {}, b"", "JAVA", VERSION)
        ids = ",".join(one.offset_msg_id for one in results)
        answer = send_answer(
            opaque,
            VERSION,
            ids,
            queue_id,
            first.queue_offset,
            key or first.msg_id,
            recall_handle=first.recall_handle(self._name),
        )
        return answer if code == SUCCESS else replace(answer, code=code)

    def _illegal(self) -> str:
        return (
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
            f"{self._served.config.max_message_size}B, msg properties length limit 32KB."
        )


def code_of(result: PutResult) -> int:
    """Return the code of the answer for a put."""
    code = _CODES.get(result.status, SYSTEM_ERROR)
    return code if result.physical_offset >= 0 or code in _REFUSALS else SYSTEM_ERROR


def remark_of(result: PutResult) -> str:
    """Return the remark of the answer for a put that stored nothing."""
    return f"{result.status.name}: {result.reason}"


def _says(text: str, pair: str) -> bool:
    """Return whether a property string has a pair that begins so; another name may end like it."""
    return text.startswith(pair) or properties.VALUE_END + pair in text


def _is_prepared(asked: SendRequest, level: int) -> bool:
    """Return whether a message is of a transaction.

    Old clients give back what they got with all its properties.
    """
    text = properties.parse(asked.properties).get(properties.TRAN_MSG, "")
    return text.lower() == "true" and not (asked.retried > 0 and level > 0)


def _entries(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield body, flag and properties of each message of a batch.

    Raises Refused: the bytes are none.
    """
    at = 0
    while at < len(data):
        if len(data) - at < _ENTRY.size:
            raise _broken(at)
        size, _, _, flag, length = _ENTRY.unpack_from(data, at)
        body = at + _ENTRY.size
        text = body + length + 2
        if length < 0 or text > len(data) or size < 0:
            raise _broken(at)
        end = text + int.from_bytes(data[text - 2 : text], "big")
        if end > len(data) or end - at != size:
            raise _broken(at)
        raw = data[text:end]
        yield data[body : body + length], flag, raw if not raw or raw.endswith(b"\x02") else raw + b"\x02"
        at = end


def _broken(at: int) -> Refused:
    return Refused(MESSAGE_ILLEGAL, f"the batch is damaged at byte {at}")
