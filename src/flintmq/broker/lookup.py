"""Finds messages by key and by place, and queue offsets by time; and offsets of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.needs import GET, SUB, of_topic
from flintmq.broker.requests import INT32, INT64, Answer, Handler, Refused, Request
from flintmq.broker.served import Offsets, Served
from flintmq.errors import MessageNotFoundError
from flintmq.message import RawResult, StoredMessage
from flintmq.remoting.names import (
    COMMIT_OFFSET,
    GET_EARLIEST_TIME,
    GET_OFFSET,
    GET_OFFSET_AT,
    GET_QUEUE_BEGIN,
    GET_QUEUE_END,
    GROUP_NOT_EXIST,
    QUERY,
    QUERY_NOT_FOUND,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
    VIEW,
)

FOUND_MAX: Final = 64  # messages of one answer by key
BYTES_MAX: Final = 8 << 20  # of these messages: a frame has at most 16 MiB
YOUNG_FILES: Final = 2  # of the log's end: what is there counts as in memory
NEVER: Final = -1  # the store time of no message
COMMIT_ANSWER_S: Final = 0.05
COUNT: Final = (0, INT64[1])


class Lookup:
    """Answers requests for single facts of a store. Thread: the loop's."""

    def __init__(self, served: Served, clients: Clients, offsets: Offsets) -> None:
        self._served, self._clients, self._offsets = served, clients, offsets

    def handlers(self) -> dict[int, Handler]:
        return {
            QUERY: self.query,
            VIEW: self.view,
            GET_OFFSET_AT: self.offset_at,
            GET_QUEUE_END: self.end,
            GET_QUEUE_BEGIN: self.begin,
            GET_EARLIEST_TIME: self.earliest_time,
            GET_OFFSET: self.offset,
            COMMIT_OFFSET: self.commit,
        }

    # -- messages ---------------------------------------------------------------------------------------------------

    async def query(self, request: Request) -> Answer:
        """Answer with the newest messages that have a key, as many as a frame may hold.

        By an id clients ask for the last three days only; a backup is older, and nothing else has that id.
        """
        topic, key = request.text("topic"), request.text("key")
        if request.text("indexType", "") == "T":
            key = f"T#{key}"
        begin, end = request.number("beginTimestamp", 0), request.number("endTimestamp", COUNT[1])
        if request.flag("_UNIQUE_KEY_QUERY", False):
            begin, end = 0, COUNT[1]
        most = min(request.number("maxNum", FOUND_MAX, (0, INT32[1])), FOUND_MAX)
        found = await self._served.query(topic, key, begin, end, most)
        kept: list[StoredMessage] = []
        size = 0
        for message in reversed(found):
            size += message.size
            if kept and size > BYTES_MAX:
                break
            kept.append(message)
        if not kept:
            raise Refused(QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        newest = kept[0]
        fields = {
            "indexLastUpdatePhyoffset": str(newest.physical_offset),
            "indexLastUpdateTimestamp": str(newest.store_timestamp),
        }
        return request.answer(fields=fields, body=b"".join(message.raw for message in reversed(kept)))

    async def view(self, request: Request) -> Answer:
        offset = request.number("offset", bounds=COUNT)
        try:
            message = await self._served.at(offset)
        except MessageNotFoundError as error:
            raise Refused(SYSTEM_ERROR, f"can not find message by the offset, {offset}: {error}") from None
        request.may(of_topic(message.topic, SUB, GET))
        return request.answer(body=message.raw)

    # -- places in a queue ------------------------------------------------------------------------------------------

    async def offset_at(self, request: Request) -> Answer:
        boundary = "upper" if request.text("boundaryType", "LOWER").upper() == "UPPER" else "lower"
        found = await self._served.offset_at_time(*self._queue(request), request.number("timestamp"), boundary)
        return request.answer(fields={"offset": str(found)})

    def begin(self, request: Request) -> Answer:
        return request.answer(fields={"offset": str(self._bounds(request)[0])})

    def end(self, request: Request) -> Answer:
        return request.answer(fields={"offset": str(self._bounds(request)[1])})

    async def earliest_time(self, request: Request) -> Answer:
        first = await first_of(self._served, *self._queue(request))
        time = StoredMessage(first.data).store_timestamp if first.count else NEVER
        return request.answer(fields={"timestamp": str(time)})

    def _queue(self, request: Request) -> tuple[str, int]:
        return request.text("topic"), request.number("queueId", bounds=INT32)

    def _bounds(self, request: Request) -> tuple[int, int]:
        return self._served.bounds(*self._queue(request))

    # -- offsets of groups ------------------------------------------------------------------------------------------

    async def offset(self, request: Request) -> Answer:
        """Answer where a group goes on.

        For one that never committed that is 0 if the whole queue is young; otherwise it is refused.
        """
        group, (topic, queue_id) = request.text("consumerGroup"), self._queue(request)
        found = self._offsets.get(group, topic, queue_id)
        if found is None and not request.flag("setZeroIfNotFound", True):
            raise Refused(QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
        if found is None and await is_young(self._served, topic, queue_id):
            found = 0
        if found is None:
            raise Refused(QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
        return request.answer(fields={"offset": str(found)})

    def commit(self, request: Request) -> Coroutine[None, None, Answer]:
        group, (topic, queue_id) = request.text("consumerGroup"), self._queue(request)
        offset = request.number("commitOffset", bounds=COUNT)
        is_here = self._served.makes_groups and group in self._clients.names()
        if not (is_here or self._served.knows_group(group) or self._offsets.knows(group)):
            raise Refused(GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self._served.topic(topic) is None:
            raise Refused(TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        self._offsets.commit(group, topic, queue_id, offset, request.peer)
        return self._committed(request)

    async def _committed(self, request: Request) -> Answer:
        """Answer a commit a little later.

        Go's client commits, waits for no answer, and closes its connection. An answer that it has not read by then
        makes a reset of that close, upon which the commits that are under way are lost.
        """
        await asyncio.sleep(COMMIT_ANSWER_S)
        return request.answer()


async def is_young(served: Served, topic: str, queue_id: int) -> bool:
    """Return whether a queue begins at 0, and with a message near the log's end.

    RocketMQ asks whether that message is in the page cache: a new group gets everything of a topic that is as new.
    """
    first = await first_of(served, topic, queue_id)
    if not first.count:
        return first.min_offset == 0
    old = served.log_bounds[1] - YOUNG_FILES * served.log_file_size
    return first.min_offset == 0 and StoredMessage(first.data).physical_offset >= old


async def first_of(served: Served, topic: str, queue_id: int) -> RawResult:
    """Read the first message of a queue."""
    return await served.read(topic, queue_id, served.bounds(topic, queue_id)[0])
