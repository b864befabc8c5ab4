"""Assigns queues to consumers that let the broker do it, and keeps which groups pop.

A push consumer with `clientRebalance=false` asks for its queues, and learns with them whether to pull or to pop. If it
is refused it shares them out itself, as others do, and pulls. Upstream: QueryAssignmentProcessor,
MessageRequestModeManager.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from flintmq.broker.clients import Clients
from flintmq.broker.requests import Answer, Handler, Refused, Request, member_text
from flintmq.broker.routes import Routes
from flintmq.broker.served_store import ServedStore
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.group_topics import RETRY
from flintmq.remoting.names import (
    GET_ASSIGNMENT,
    GROUP_NOT_EXIST,
    INVALID_PARAMETER,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SET_MODE,
    TOPIC_NOT_EXIST,
)
from flintmq.storage.files.filesystem import REAL
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile

TABLE: Final = "messageRequestModeMap"  # topic -> group -> mode
PULLS, POPS = "PULL", "POP"
AVERAGELY, IN_CIRCLES = "AVG", "AVG_BY_CIRCLE"  # names of strategies
ANY_QUEUE: Final = -1


class Modes:
    """Answers who asks for queues, and `mqadmin setConsumeMode`. Thread: the loop's.

    Args:
        is_alone: no other broker has queues of the topics; else queues are not assigned here.
    """

    def __init__(self, served: ServedStore, routes: Routes, clients: Clients, *, is_alone: bool) -> None:
        self._served, self._routes, self._clients, self._is_alone = served, routes, clients, is_alone
        self._file = ConfigFile(served.root, config_reader.REQUEST_MODES, (), REAL, "5.4.0")
        self._changing = asyncio.Lock()

    def handlers(self) -> dict[int, Handler]:
        return {GET_ASSIGNMENT: self.assign, SET_MODE: self.set}

    def assign(self, request: Request) -> Answer:
        """Answer with the queues that a client gets; with none named, it keeps those that it has."""
        if not self._is_alone:
            raise Refused(NOT_SUPPORTED, "one broker of several does not assign queues here: consumers share them out")
        told = request.json()
        topic, group = member_text(told, "topic"), member_text(told, "consumerGroup")
        mode, share = self._mode(topic, group)
        queues = self._queues(told, topic, group, None if mode == PULLS else share)
        found = [
            {"messageQueue": {"brokerName": self._routes.name, "queueId": queue_id, "topic": topic}, "mode": mode}
            for queue_id in queues or ()
        ]
        body = {} if queues is None else {"messageQueueAssignments": found}
        return request.answer(body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())

    def _queues(self, told: JsonObject, topic: str, group: str, share: int | None) -> list[int] | None:
        """Return the queues for a client; None: it cannot be said. `share`: of one that pops."""
        client, strategy = member_text(told, "clientId"), told.get("strategyName")
        facts, members = self._served.topic(topic), sorted(self._clients.members(group))
        if facts is None or not facts.is_readable:
            return None
        queues = list(range(facts.read_queues))
        if told.get("messageModel") == "BROADCASTING":
            return queues
        if not members or strategy not in (AVERAGELY, IN_CIRCLES):
            return None
        in_circles = strategy == IN_CIRCLES
        if share is None:
            return _part(queues, members, client, in_circles=in_circles)
        return _to_pop(queues, members, client, share, in_circles=in_circles)

    async def set(self, request: Request) -> Answer:
        """Have a group pop a topic, or pull it."""
        told = request.json()
        topic, group, mode = member_text(told, "topic"), member_text(told, "consumerGroup"), told.get("mode", PULLS)
        share = config_json.integer(told.get("popShareQueueNum", 0))
        if topic.startswith(RETRY):
            raise Refused(NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._served.topic(topic) is None:
            raise Refused(TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if not self._served.knows_group(group):
            raise Refused(GROUP_NOT_EXIST, f"subscription group {group} does not exist")
        if mode not in (PULLS, POPS) or share is None:
            raise Refused(INVALID_PARAMETER, f"mode is PULL or POP, popShareQueueNum a number; not {mode!a:.20}")
        entry = {"consumerGroup": group, "mode": mode, "popShareQueueNum": share, "topic": topic}
        async with self._changing:
            with self._file.lock:
                modes = self._file.table(TABLE)
                changed = {**modes, topic: {**_object(modes.get(topic)), group: entry}}
            await self._served.run(self._file.replace, {TABLE: changed})
        return request.answer()

    def _mode(self, topic: str, group: str) -> tuple[str, int]:
        """Return how a group gets messages of a topic; and popShareQueueNum, for groups that pop."""
        with self._file.lock:
            found = _object(_object(self._file.table(TABLE).get(topic)).get(group))
        return (POPS if found.get("mode") == POPS else PULLS), config_json.integer(found.get("popShareQueueNum")) or 0


def _part(queues: list[int], members: list[str], client: str, *, in_circles: bool) -> list[int]:
    """Return a client's part of queues.

    Whoever asks, the lists are the same, in the same order; so each queue is given once. Upstream:
    AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle.
    """
    if client not in members:
        return []
    index = members.index(client)
    if in_circles:
        return queues[index :: len(members)]
    size, more = divmod(len(queues), len(members))
    begin = index * size + min(index, more)
    return queues[begin : begin + size + (index < more)]


def _to_pop(queues: list[int], members: list[str], client: str, share: int, *, in_circles: bool) -> list[int]:
    """Return the queues that a client pops: any, or its part and those of `share` others."""
    if share <= 0 or share >= len(members) - 1:
        return [ANY_QUEUE]
    if client not in members:
        return []
    index = members.index(client)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    sharing = [members[(index + number) % len(members)] for number in range(share + 1)]
    return [queue for one in sharing for queue in _part(queues, members, one, in_circles=in_circles)]


def _object(value: object) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
