"""Leases queues: an orderly consumer takes messages of a queue only while it has its lease."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from flintmq.broker.requests import Answer, Handler, Request, member_text
from flintmq.broker.served import Place
from flintmq.format import config_json
from flintmq.remoting.names import LOCK_QUEUES, UNLOCK_QUEUES

LEASE_S: Final = 60.0  # clients renew each 20 s


class Locks:
    """The leases of all groups. Thread: the loop's."""

    def __init__(self) -> None:
        self._leases: dict[str, dict[Place, tuple[str, float]]] = {}  # group -> queue -> client, end

    def handlers(self) -> dict[int, Handler]:
        return {LOCK_QUEUES: self.lock, UNLOCK_QUEUES: self.unlock}

    def lock(self, request: Request) -> Answer:
        """Lease the queues that nobody else has; answer with those that the client has now."""
        told = request.json()
        group, client, now = member_text(told, "consumerGroup"), member_text(told, "clientId"), time.monotonic()
        leases, given = self._leases.setdefault(group, {}), []
        for place, shown in _queues(told):
            owner, end = leases.get(place, (client, 0.0))
            if owner == client or end < now:
                leases[place] = client, now + LEASE_S
                given.append(shown)
        return request.answer(body=json.dumps({"lockOKMQSet": given}, separators=(",", ":")).encode())

    def unlock(self, request: Request) -> Answer:
        told = request.json()
        client, leases = member_text(told, "clientId"), self._leases.get(member_text(told, "consumerGroup"), {})
        for place, _ in _queues(told):
            if leases.get(place, ("", 0.0))[0] == client:
                del leases[place]
        return request.answer()

    def is_ordered(self, group: str) -> bool:
        """Return whether somebody of a group has a lease."""
        now = time.monotonic()
        return any(end >= now for _, end in self._leases.get(group, {}).values())

    def left(self, group: str, client: str) -> None:
        """End the leases of a client that has left its group: another may go on at once."""
        leases = self._leases.get(group, {})
        for place in [place for place, (owner, _) in leases.items() if owner == client]:
            del leases[place]

    def sweep(self) -> None:
        """Forget leases that have ended."""
        now = time.monotonic()
        for group, leases in list(self._leases.items()):
            for place in [place for place, (_, end) in leases.items() if end < now]:
                del leases[place]
            if not leases:
                del self._leases[group]


def _queues(told: config_json.JsonObject) -> Iterator[tuple[Place, Any]]:
    asked = told.get("mqSet")
    for one in asked if isinstance(asked, list) else ():
        topic, queue_id = (one.get("topic"), one.get("queueId")) if isinstance(one, dict) else (None, None)
        if isinstance(topic, str) and isinstance(queue_id, int):
            yield (topic, queue_id), one
