"""Recalls messages that wait for their time.

The answer says that the mark is stored, not that the message is there. Upstream: RecallMessageProcessor.
"""

from __future__ import annotations

from typing import Final

from flintmq.broker.requests import Answer, Handler, Refused, Request
from flintmq.broker.served_store import ServedStore
from flintmq.errors import FormatError
from flintmq.format import recall_handle
from flintmq.message import PutMessageStatus
from flintmq.remoting.names import ILLEGAL_OPERATION, NO_PERMISSION, RECALL, SYSTEM_ERROR, TOPIC_NOT_EXIST
from flintmq.remoting.sends import REGION

_TOLD: Final = {PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: (ILLEGAL_OPERATION, "recall failed, timestamp invalid")}


class Recalls:
    """Puts marks that recall messages. Thread: the loop's."""

    def __init__(self, served: ServedStore, name: str, *, enabled: bool) -> None:
        self._served, self._store, self._name, self._enabled = served, served.store, name, enabled

    def handlers(self) -> dict[int, Handler]:
        return {RECALL: self.recall}

    async def recall(self, request: Request) -> Answer:
        topic, handle = request.text("topic"), request.text("recallHandle")
        key = await self.put(topic, handle, request.text("producerGroup", ""))
        return request.answer(fields={"msgId": key, "MSG_REGION": REGION})

    async def put(self, topic: str, handle: str, group: str) -> str:
        """Put the mark that recalls a message; return the message's id.

        Raises Refused: it may not be recalled, or not any more.
        """
        if not self._enabled:
            raise Refused(NO_PERMISSION, "recall failed, operation is forbidden")
        if self._served.topic(topic) is None:
            raise Refused(TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist")
        try:
            named = recall_handle.decode(handle)
        except FormatError:
            raise Refused(ILLEGAL_OPERATION, "recall handle is invalid") from None
        if named.topic != topic:
            raise Refused(ILLEGAL_OPERATION, "recall failed, topic not match")
        if named.broker_name != self._name:
            raise Refused(ILLEGAL_OPERATION, "recall failed, broker service not available")
        result = await self._served.run(self._store.recall, handle, group)
        if result.physical_offset < 0:
            code, remark = _TOLD.get(result.status, (SYSTEM_ERROR, "recall failed, execute error"))
            raise Refused(code, f"{remark}: {result.reason}")
        return named.unique_key
