"""Changes that operators ask for: topics, consumer groups, and offsets that are set back."""

from __future__ import annotations

from typing import Final

from flintmq.broker.clients import Clients
from flintmq.broker.held import Held
from flintmq.broker.requests import INT32, Answer, Handler, Refused, Request, member_text
from flintmq.broker.routes import Routes
from flintmq.broker.served_store import SYSTEM_TOPICS, ServedStore, check_letters, check_topic
from flintmq.broker.store_offsets import StoreOffsets
from flintmq.errors import UsageError
from flintmq.remoting.names import (
    DELETE_GROUP,
    DELETE_TOPIC,
    FORGET_TOPIC,
    GROUP_NOT_EXIST,
    INVALID_PARAMETER,
    MAKE_GROUP,
    MAKE_TOPIC,
    NO_PERMISSION,
    RESET_CLIENT,
    RESET_OFFSET,
    SET_CONFIG,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from flintmq.store.services.groups import GroupSettings
from flintmq.store.services.topics import TopicSettings

LATEST: Final = -1  # as a time: the end


class Settings:
    """Answers operators. Thread: the loop's."""

    def __init__(
        self, served: ServedStore, routes: Routes, clients: Clients, offsets: StoreOffsets, held: Held
    ) -> None:
        self._served, self._store, self._routes = served, served.store, routes
        self._clients, self._offsets, self._held = clients, offsets, held

    def handlers(self) -> dict[int, Handler]:
        return {
            MAKE_TOPIC: self.make_topic,
            DELETE_TOPIC: self.delete_topic,
            FORGET_TOPIC: self.forget_topic,
            MAKE_GROUP: self.make_group,
            DELETE_GROUP: self.delete_group,
            RESET_OFFSET: self.reset,
            SET_CONFIG: self.set_config,
        }

    # -- topics and groups --------------------------------------------------------------------------------------------

    async def make_topic(self, request: Request) -> Answer:
        """Make a topic, or change its settings; of its attributes only those that are named."""
        name = request.text("topic")
        check_topic(name)
        if name in SYSTEM_TOPICS:
            raise Refused(INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
        before = self._store.topic(name)
        settings = TopicSettings(
            request.number("readQueueNums", bounds=INT32),
            request.number("writeQueueNums", bounds=INT32),
            request.number("perm", 6, INT32),
            request.flag("order", False),
            _attributes(request.text("attributes", ""), dict(before.attributes) if before is not None else {}),
        )
        try:
            await self._served.run(self._store.create_topic, name, settings)
        except UsageError as error:
            raise Refused(SYSTEM_ERROR, str(error)) from None
        return request.answer()

    async def delete_topic(self, request: Request) -> Answer:
        name = request.text("topic")
        if not name.strip():
            raise Refused(SYSTEM_ERROR, "The specified topic is blank.")
        await self._served.run(self._store.delete_topic, name)
        self._held.look()
        return request.answer()

    def forget_topic(self, request: Request) -> Answer:
        """Answer as the name server: its topics are the broker's, so nothing remains to be done."""
        return request.answer()

    async def make_group(self, request: Request) -> Answer:
        told = request.json()
        name = member_text(told, "groupName")
        check_letters("group", name)
        await self._served.run(self._store.create_group, name, GroupSettings.of(told))
        return request.answer()

    async def delete_group(self, request: Request) -> Answer:
        name = request.text("groupName")
        clean = request.flag("cleanOffset", False)
        await self._served.run(lambda: self._store.delete_group(name, clean_offsets=clean))
        return request.answer()

    def set_config(self, request: Request) -> Answer:
        raise Refused(
            NO_PERMISSION,
            f"{self._routes.name} takes its configuration when it starts; start it with other --set words",
        )

    # -- offsets ------------------------------------------------------------------------------------------------------

    async def reset(self, request: Request) -> Answer:
        """Set a group to a point in time, or to an offset, in all queues of a topic or in one.

        With isForce false it only goes back. Members are notified; those that do not listen learn it by their next
        pull.
        """
        topic, group = request.text("topic"), request.text("group")
        facts = self._served.topic(topic)
        if facts is None:
            raise Refused(TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if not self._served.knows_group(group):
            raise Refused(GROUP_NOT_EXIST, f"Group {group} does not exist")
        one = request.number("queueId", -1, INT32)
        if one >= facts.read_queues:
            raise Refused(INVALID_PARAMETER, f"topic {topic} has no queue {one}")
        wanted = {
            queue_id: await self._target(request, topic, queue_id)
            for queue_id in ([one] if one >= 0 else range(facts.read_queues))
        }
        members, force = self._clients.members(group), request.flag("isForce", True)
        moved = {}
        for queue_id, offset in wanted.items():
            before = self._offsets.get(group, topic, queue_id)
            if before is None or force or offset < before:
                moved[queue_id] = offset
        self._offsets.reset(group, topic, moved)
        table = self._routes.by_queue((topic, queue_id, offset) for queue_id, offset in moved.items())
        body, fields = b'{"offsetTable":' + table + b"}", {name: request.text(name, "") for name in ("group", "topic")}
        fields |= {"timestamp": request.text("timestamp", "-1"), "isForce": "true" if force else "false"}
        for member in members.values() if moved else ():
            self._clients.calls.tell(member.peer, RESET_CLIENT, fields, body)
        self._held.recall(group, topic)
        return request.answer(body=body)

    async def _target(self, request: Request, topic: str, queue_id: int) -> int:
        low, high = self._served.bounds(topic, queue_id)
        offset = request.number("offset", -1)
        if offset >= 0:
            if not low <= offset <= high:
                raise Refused(SYSTEM_ERROR, f"{topic}/{queue_id}: offset {offset} is outside {low} to {high}")
            return offset
        time = request.number("timestamp")
        if time == LATEST or low == high:
            return high
        return await self._served.offset_at_time(topic, queue_id, time, "lower")


def _attributes(text: str, before: dict[str, str]) -> dict[str, str]:
    """Return attributes after changes such as `+message.type=FIFO,-cleanup.policy`.

    Raises Refused: a change of another form.
    """
    for change in filter(None, (part.strip() for part in text.split(","))):
        sign, (name, equals, value) = change[:1], change[1:].partition("=")
        if sign == "+" and equals:
            before[name.strip()] = value.strip()
        elif sign == "-" and not equals:
            before.pop(name.strip(), None)
        else:
            raise Refused(INVALID_PARAMETER, f"attribute {change!a:.100}: neither +name=value nor -name")
    return before
