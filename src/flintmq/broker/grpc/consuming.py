"""Receives of gRPC: messages are popped, acknowledged, and made invisible for longer.

Upstream: ReceiveMessageActivity, AckMessageActivity, ChangeInvisibleDurationActivity, ForwardMessageToDLQActivity.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from flintmq.broker.filters import Filters
from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.broker.grpc.asked import Asked, checked_group, checked_topic
from flintmq.broker.grpc.messages import Denied, given_message, ms_of, status, status_of_all
from flintmq.broker.grpc.renewals import RENEWED_MS, Renewals
from flintmq.broker.grpc.routes import ANY_QUEUE
from flintmq.broker.grpc.sessions import BATCH, POLL_S, REQUEST_S, GrpcSessions
from flintmq.broker.held import Held
from flintmq.broker.pop import Given, Pops, PopWanted
from flintmq.broker.receipts import Receipt
from flintmq.broker.requests import Refused
from flintmq.broker.served import Filter
from flintmq.broker.served_store import ServedStore
from flintmq.broker.sql import SQL92
from flintmq.errors import FormatError
from flintmq.format.record import COMPRESSED
from flintmq.remoting.pulls import TAG

LEAST_POLL_S: Final = 5.0
EARLY_S: Final = 0.2  # before a client gives up, so that an answer still reaches it
MOST_INVISIBLE_MS: Final = 12 * 3_600_000
ENTRIES_MAX: Final = 1024  # acknowledgements of one call


class _Receiver:
    """The client of one receive, while it waits for messages, and for its turn to be answered."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self.turns = asked, asked.connection.turns

    @property
    def is_closed(self) -> bool:
        return self._asked.call.is_closed or self._asked.connection.is_closed

    @property
    def is_writable(self) -> bool:
        return self._asked.connection.is_writable

    async def writable(self) -> None:
        await self._asked.connection.writable()


class GrpcConsuming:
    """Answers consumers. Thread: the loop's."""

    def __init__(
        self,
        served: ServedStore,
        pops: Pops,
        held: Held,
        filters: Filters,
        sessions: GrpcSessions,
        renewals: Renewals,
    ) -> None:
        self._served, self._pops, self._held, self._filters = served, pops, held, filters
        self._sessions, self._renewals = sessions, renewals

    # -- receives -----------------------------------------------------------------------------------------------------

    async def receive(self, asked: Asked, request: wire.ReceiveMessageRequest) -> None:
        """Answer with a status, messages, and when they were given."""
        waiting, wait_s = _Receiver(asked), self._wait_s(asked, request)
        wanted, renews = self._wanted(asked, request), request.auto_renew
        del request  # it is not kept while this waits
        asked.call.on_closed = lambda: self._held.left(waiting)
        async with waiting.turns:
            await waiting.writable()
            popped = await self._pops.pop(wanted, waiting, wait_s)
            # A call that is closed before its end was sent: the client drops what it got of it.
            asked.call.on_closed = lambda: self._return(asked, wanted, popped.given)
            if popped.is_full:
                _send(asked, wire.ReceiveMessageResponse(status=status(wire.TOO_MANY_REQUESTS, "polling full")))
            elif not popped.given:
                _send(asked, wire.ReceiveMessageResponse(status=status(wire.MESSAGE_NOT_FOUND, "no new message")))
            else:
                _send(asked, wire.ReceiveMessageResponse(status=status(wire.OK)))
                await self._give(asked, waiting, wanted, popped.given, renews)
        answer = wire.ReceiveMessageResponse()
        answer.delivery_timestamp.FromMilliseconds(time.time_ns() // 1_000_000)
        _send(asked, answer)
        asked.call.end()

    async def _give(
        self, asked: Asked, waiting: _Receiver, wanted: PopWanted, given: Sequence[Given], renews: bool
    ) -> None:
        """Send messages as the client takes them."""
        for one in given:
            await waiting.writable()
            if waiting.is_closed:  # all of them come again
                return
            if renews:
                self._renewals.add(asked.client, wanted.group, wanted.topic, one.receipt)
            told = one.message, wanted.topic, str(one.receipt), one.times
            if one.message.sys_flag & COMPRESSED:  # a body may grow to 64 MiB
                made = await self._served.run(given_message, *told)
            else:
                made = given_message(*told)
            _send(asked, wire.ReceiveMessageResponse(message=made))

    def _return(self, asked: Asked, wanted: PopWanted, given: Sequence[Given]) -> None:
        """Have messages come again that did not reach the client."""
        taken = [self._renewals.take(asked.client, wanted.group, wanted.topic, one.receipt) for one in given]
        self._pops.give_back(wanted, taken)

    def _wanted(self, asked: Asked, request: wire.ReceiveMessageRequest) -> PopWanted:
        """Return what a receive asks for.

        Raises Denied: it may not.
        """
        topic, group = checked_topic(request.message_queue.topic), checked_group(request.group)
        invisible_ms = ms_of(request.invisible_duration)
        if request.auto_renew:
            invisible_ms = RENEWED_MS
        else:
            _check_invisible(invisible_ms, self._served.keys.min_invisible_ms)
        return PopWanted(
            group,
            topic,
            ANY_QUEUE,
            min(max(request.batch_size, 1), BATCH),
            invisible_ms,
            self._filter(request.filter_expression),
            from_end=True,
            is_ordered=self._pops.is_ordered(group),
            attempt=request.attempt_id,
            may=asked.may,
        )

    def _filter(self, wanted: wire.FilterExpression) -> Filter:
        """Return what a receive wants.

        Raises Denied: it is no such expression.
        """
        text, is_sql = wanted.expression, wanted.type == wire.SQL
        if not is_sql and text.strip() and not any(part.strip() for part in text.split("||")):
            raise Denied(wire.ILLEGAL_FILTER_EXPRESSION, f"the filter {text!a:.100} has no tag")
        try:
            return self._filters.of(text if is_sql else text.strip(), SQL92 if is_sql else TAG)
        except Refused as refused:
            raise Denied(wire.ILLEGAL_FILTER_EXPRESSION, str(refused)) from None

    def _wait_s(self, asked: Asked, request: wire.ReceiveMessageRequest) -> float:
        """Return for how long a receive waits for messages.

        A client that gave no settings yet is served with the usual ones.

        Raises Denied: it gives up too soon.
        """
        left_s, session = asked.left_s, self._sessions.get(asked.client)
        if request.HasField("long_polling_timeout"):
            wait_s = ms_of(request.long_polling_timeout) / 1000
        elif left_s is None:
            wait_s = POLL_S
        else:
            has_own = session is not None and session.settings.HasField("request_timeout")
            own_s = ms_of(session.settings.request_timeout) / 1000 if session is not None and has_own else REQUEST_S
            wait_s = left_s - own_s / 2
        wait_s = min(max(wait_s, LEAST_POLL_S), POLL_S)
        if left_s is None or wait_s <= left_s - EARLY_S:
            return wait_s
        if left_s < LEAST_POLL_S:
            text = "The deadline time remaining is not enough for polling, please check network condition"
            raise Denied(wire.ILLEGAL_POLLING_TIME, text)
        return left_s - EARLY_S

    # -- what was given -----------------------------------------------------------------------------------------------

    def ack(self, asked: Asked, request: wire.AckMessageRequest) -> wire.AckMessageResponse:
        """Take messages out of flight; one that is so already is acknowledged all the same."""
        topic, group = checked_topic(request.topic), checked_group(request.group)
        if not 0 < len(request.entries) <= ENTRIES_MAX:
            text = f"{len(request.entries)} messages to acknowledge; give 1 to {ENTRIES_MAX}"
            raise Denied(wire.BAD_REQUEST, text)
        entries = []
        for entry in request.entries:
            try:
                receipt = _receipt(entry.receipt_handle)
                self._pops.ack(group, topic, self._renewals.take(asked.client, group, topic, receipt))
                done = status(wire.OK)
            except Denied as denied:
                done = status(denied.code, str(denied))
            entries.append(
                wire.AckMessageResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=done
                )
            )
        return wire.AckMessageResponse(status=status_of_all(one.status.code for one in entries), entries=entries)

    def change(
        self, asked: Asked, request: wire.ChangeInvisibleDurationRequest
    ) -> wire.ChangeInvisibleDurationResponse:
        topic, group = checked_topic(request.topic), checked_group(request.group)
        invisible_ms = ms_of(request.invisible_duration)
        _check_invisible(invisible_ms, 0)
        receipt = self._renewals.take(asked.client, group, topic, _receipt(request.receipt_handle))
        changed = self._pops.change(group, topic, receipt, invisible_ms)
        if changed is None:
            raise Denied(wire.INVALID_RECEIPT_HANDLE, "the message is not in flight by this receipt any more")
        return wire.ChangeInvisibleDurationResponse(status=status(wire.OK), receipt_handle=str(changed))

    async def bury(
        self, asked: Asked, request: wire.ForwardMessageToDeadLetterQueueRequest
    ) -> wire.ForwardMessageToDeadLetterQueueResponse:
        topic, group = checked_topic(request.topic), checked_group(request.group)
        receipt = self._renewals.take(asked.client, group, topic, _receipt(request.receipt_handle))
        if not await self._pops.bury(group, topic, receipt):
            raise Denied(wire.INVALID_RECEIPT_HANDLE, "the message is not in flight by this receipt any more")
        return wire.ForwardMessageToDeadLetterQueueResponse(status=status(wire.OK))


def _send(asked: Asked, answer: wire.ReceiveMessageResponse) -> None:
    asked.call.send(answer.SerializeToString())


def _receipt(text: str) -> Receipt:
    try:
        return Receipt.parse(text)
    except FormatError as error:
        raise Denied(wire.INVALID_RECEIPT_HANDLE, error.reason) from None


def _check_invisible(ms: int, least: int) -> None:
    if ms < least:
        raise Denied(wire.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least}")
    if ms > MOST_INVISIBLE_MS:
        raise Denied(wire.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {MOST_INVISIBLE_MS}")
