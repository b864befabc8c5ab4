"""Pops of consumers, and what they say of popped messages.

Upstream: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor, PeekMessageProcessor,
NotificationProcessor.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from flintmq.broker.filters import Filters
from flintmq.broker.lookup import COUNT
from flintmq.broker.pop import MESSAGES_MAX, Given, Popped, Pops, PopWanted
from flintmq.broker.pull import SUSPEND_MAX_MS
from flintmq.broker.receipts import OWN, Receipt
from flintmq.broker.requests import INT32, Answer, Handler, Refused, Request
from flintmq.broker.served_store import ServedStore
from flintmq.errors import FormatError
from flintmq.format import properties, record
from flintmq.format.config_json import integer
from flintmq.format.text import java_encode
from flintmq.remoting.names import (
    ACK,
    ACK_BATCH,
    CHANGE_INVISIBLE,
    INVALID_PARAMETER,
    MESSAGE_ILLEGAL,
    NO_MESSAGE,
    NOTIFICATION,
    PEEK,
    POLLING_FULL,
    POLLING_TIMEOUT,
    POP,
    PULL_NOT_FOUND,
    SUCCESS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from flintmq.remoting.pulls import TAG

FROM_END: Final = 1  # initMode; 0: from the begin
INVISIBLE_MAX_MS: Final = 12 * 3600 * 1000  # as upstream's proxy
INVISIBLE: Final = (0, INVISIBLE_MAX_MS)
ACKS_MAX: Final = 10_000  # messages of one batch of acknowledgements
BITS_MAX: Final = 8192  # of one entry of it
_LONG_NAMES: Final = {
    "c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId", "rq": "reviveQueueId",
    "pt": "popTime", "it": "invisibleTime", "b": "bitSet",
}  # fmt: skip
"""Fields of an entry of acks: clients write the short names; the long ones are possible."""


class PopRequests:
    """Answers consumers that pop. Thread: the loop's."""

    def __init__(self, served: ServedStore, pops: Pops, filters: Filters) -> None:
        self._served, self._pops, self._filters = served, pops, filters

    def handlers(self) -> dict[int, Handler]:
        return {
            POP: self.pop,
            ACK: self.ack,
            ACK_BATCH: self.ack_batch,
            CHANGE_INVISIBLE: self.change,
            PEEK: self.peek,
            NOTIFICATION: self.notify,
        }

    async def pop(self, request: Request) -> Answer:
        expression = request.text("exp", "")
        wanted = _wanted(
            request,
            invisible_ms=request.number("invisibleTime", bounds=INVISIBLE),
            only=self._filters.of(expression, TAG if not expression else request.text("expType", TAG) or TAG),
            from_end=request.number("initMode", 0, INT32) == FROM_END,
        )
        popped = await self._pops.pop(wanted, request.peer, _seconds(request))
        revive = popped.given[0].receipt.revive_queue if popped.given else 0
        times = _times(popped.popped_ms, wanted.invisible_ms, revive)
        fields = {**times, "restNum": str(popped.rest), **_places(popped.given)}
        if not popped.given:
            return request.answer(_nothing(popped), fields, remark="NO_MESSAGE_IN_QUEUE")
        if wanted.is_ordered:
            fields["orderCountInfo"] = ";".join(_counts(popped.given))
        return request.answer(SUCCESS, fields, b"".join(_shown(one, wanted.topic) for one in popped.given), "FOUND")

    async def peek(self, request: Request) -> Answer:
        messages, rest = await self._pops.peek(_wanted(request))
        code, remark = (SUCCESS, "FOUND") if messages else (PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
        fields = {**_times(), "restNum": str(rest)}
        return request.answer(code, fields, b"".join(message.raw for message in messages), remark)

    async def notify(self, request: Request) -> Answer:
        has_any, is_full = await self._pops.notify(_wanted(request, most=1), request.peer, _seconds(request))
        return request.answer(fields={"hasMsg": str(has_any).lower(), "pollingFull": str(is_full).lower()})

    def ack(self, request: Request) -> Answer:
        """Take a message out of flight; in vain if its time was over, as at RocketMQ's."""
        group, topic, receipt = self._receipt(request)
        self._pops.ack(group, topic, receipt)
        return request.answer()

    def ack_batch(self, request: Request) -> Answer:
        acks = request.json().get("acks")
        if not isinstance(acks, list) or not acks:
            raise Refused(NO_MESSAGE, "the body has no acks")
        receipts = list(islice(_acknowledged(acks), ACKS_MAX + 1))
        if len(receipts) > ACKS_MAX:
            raise Refused(INVALID_PARAMETER, f"the body acknowledges more than {ACKS_MAX} messages")
        for group, topic, receipt in receipts:
            self._pops.ack(group, topic, receipt)
        return request.answer()

    def change(self, request: Request) -> Answer:
        group, topic, receipt = self._receipt(request)
        made = self._pops.change(group, topic, receipt, request.number("invisibleTime", bounds=INVISIBLE))
        if made is None:  # clients want the fields here, too
            why = "the message is not in flight: it was acknowledged, or its time was over"
            return request.answer(NO_MESSAGE, _times(), remark=why)
        return request.answer(fields=_times(made.popped_ms, made.invisible_ms, made.revive_queue))

    def _receipt(self, request: Request) -> tuple[str, str, Receipt]:
        """Return group, topic and receipt of a message.

        Raises Refused: they are none, or of a place that is not there.
        """
        group, topic = request.text("consumerGroup"), request.text("topic")
        queue_id, offset = request.number("queueId", bounds=INT32), request.number("offset", bounds=COUNT)
        try:
            receipt = Receipt.parse(request.text("extraInfo"))
        except FormatError as error:
            raise Refused(SYSTEM_ERROR, str(error)) from None
        facts = self._served.topic(topic)
        if facts is None:
            raise Refused(TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        if not 0 <= queue_id < facts.read_queues:
            raise Refused(
                MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{facts.read_queues}]",
            )
        low, high = self._served.bounds(topic, queue_id)
        if not low <= offset <= high:
            raise Refused(NO_MESSAGE, f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}")
        return group, topic, receipt._replace(queue_id=queue_id, offset=offset)


def _wanted(request: Request, *, most: int | None = None, **more: Any) -> PopWanted:
    if most is None:
        most = request.number("maxMsgNums", bounds=INT32)
    if most > MESSAGES_MAX:
        raise Refused(INVALID_PARAMETER, f"pop message's num is greater than {MESSAGES_MAX}")
    return PopWanted(
        request.text("consumerGroup"),
        request.text("topic"),
        max(request.number("queueId", -1, INT32), -1),
        max(most, 1),
        is_ordered=request.flag("order", False),
        attempt=request.text("attemptId", ""),
        may=request.may,
        **more,
    )


def _seconds(request: Request) -> float:
    return min(max(request.number("pollTime", 0), 0), SUSPEND_MAX_MS) / 1000


def _nothing(popped: Popped) -> int:
    return POLLING_FULL if popped.is_full else POLLING_TIMEOUT


# -- what an answer says of its messages ------------------------------------------------------------------------------


def _times(popped_ms: int = 0, invisible_ms: int = 0, revive_queue: int = 0) -> dict[str, str]:
    return {"popTime": str(popped_ms), "invisibleTime": str(invisible_ms), "reviveQid": str(revive_queue)}


def _places(given: list[Given]) -> Mapping[str, str]:
    """Return the fields by which clients make receipts: of each queue the first offset, and all."""
    starts, offsets = dict[str, int](), dict[str, list[str]]()
    for one in given:
        queue = f"{one.receipt.kind} {one.receipt.queue_id}"
        starts.setdefault(queue, one.receipt.start)
        offsets.setdefault(queue, []).append(str(one.receipt.offset))
    return {
        "startOffsetInfo": ";".join(f"{queue} {start}" for queue, start in starts.items()),
        "msgOffsetInfo": ";".join(f"{queue} {','.join(of)}" for queue, of in offsets.items()),
    }


def _counts(given: list[Given]) -> Iterator[str]:
    """Yield how often each message was given before, of those that were."""
    for one in given:
        if one.times > 0:
            yield f"{one.receipt.kind} qo{one.receipt.queue_id}%{one.receipt.offset} {one.times}"


def _shown(one: Given, topic: str) -> bytes:
    """Return a message as a client gets it: a retry is one of the topic, with its receipt."""
    if one.receipt.kind == OWN:
        return one.message.raw
    pairs = {**one.message.properties, properties.POP_CK: str(one.receipt)}
    pairs.pop(properties.CRC32, None)  # of the other record
    told = properties.encode(pairs)
    if len(told) > record.MAX_PROPERTIES:  # the client makes the receipt by the topic of the retries then
        return one.message.raw
    return record.encode(
        one.message.fields._replace(topic=java_encode(topic), magic=record.magic_for(topic), properties=told)
    )


# -- a batch of acknowledgements --------------------------------------------------------------------------------------


def _acknowledged(acks: list[Any]) -> Iterator[tuple[str, str, Receipt]]:
    """Yield group, topic and receipt of each message of a batch.

    Raises Refused: an entry is none.
    """
    for told in acks:
        if not isinstance(told, dict):
            raise Refused(SYSTEM_ERROR, "an entry of the body's acks is no object")
        group, topic, start = _text(told, "c"), _text(told, "t"), _number(told, "so")
        first = Receipt(
            start, _number(told, "pt"), _number(told, "it"), _number(told, "rq"), _text(told, "r", OWN), "",
            _number(told, "q"), start,
        )  # fmt: skip
        for bit in _bits(_text(told, "b")):
            yield group, topic, first._replace(offset=start + bit)


def _bits(text: str) -> Iterator[int]:
    """Yield the numbers of a Java BitSet, whose bytes are base64."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused(SYSTEM_ERROR, "the field b of an entry of acks is no base64") from None
    if len(raw) > BITS_MAX // 8:
        raise Refused(INVALID_PARAMETER, f"an entry of acks has more than {BITS_MAX} bits")
    bits = int.from_bytes(raw, "little")
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        yield lowest.bit_length() - 1


def _text(told: Mapping[Any, Any], name: str, default: str | None = None) -> str:
    found = told.get(name, told.get(_LONG_NAMES[name], default))
    if not isinstance(found, str):
        raise Refused(SYSTEM_ERROR, f"the field {name} of an entry of acks is missing")
    return found


def _number(told: Mapping[Any, Any], name: str) -> int:
    found = integer(told.get(name, told.get(_LONG_NAMES[name])))
    if found is None:
        raise Refused(SYSTEM_ERROR, f"the field {name} of an entry of acks is no number")
    return found
