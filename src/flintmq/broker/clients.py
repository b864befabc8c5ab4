"""Keeps who is connected: heartbeats, the members of groups, and what they subscribe to."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flintmq.broker.calls import Calls
from flintmq.broker.requests import Answer, Handler, Need, Peer, Refused, Request, lets, member_text
from flintmq.format import config_json
from flintmq.remoting.names import (
    CONSUMER_NOT_ONLINE,
    GET_CONNECTIONS,
    GET_MEMBERS,
    HEARTBEAT,
    LEAVE,
    MEMBERS_CHANGED,
    SYSTEM_ERROR,
)
from flintmq.remoting.pulls import TAG

SILENT_S: Final = 120.0  # after which a member has left
GROUPS_MAX: Final = 1000  # of one connection: each is looked at in the loop, and its members are notified
NAME_MAX: Final = 1024  # letters of a client id, or of a group


@dataclass(frozen=True, slots=True)
class Subscription:
    expression: str  # tags with || between them, or *
    version: int  # of the client's own clock
    kind: str  # TAG or SQL92
    told: Mapping[str | int, Any]  # as the client sent it


@dataclass(slots=True)
class ConsumerClient:
    """A consumer of a group: one client id, on one connection."""

    peer: Peer
    language: str
    version: int
    settings: Mapping[str | int, Any]  # consumeType, messageModel, consumeFromWhere
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    heard: float = 0.0
    hears: bool = True  # requests of ours, by remoting


class Producer(NamedTuple):
    """A connection of a group of producers.

    Attributes:
        may: raises Refused for what its user may not do.
    """

    language: str
    version: int
    heard: float
    may: Callable[[Need], None]


class Clients:
    """The members of all groups. Thread: the loop's.

    Attributes:
        admit: makes a group that is not known, if that may be.
        gone: gets a group and a client that has left it.
        ended: gets a group of which a client has said that it ends.
        calls: requests of ours to them.
    """

    def __init__(self) -> None:
        self.admit: Callable[[str], Coroutine[None, None, None]] | None = None
        self.gone: Callable[[str, str], None] = lambda group, client: None
        self.ended: Callable[[str], None] = lambda group: None
        self._groups: dict[str, dict[str, ConsumerClient]] = {}
        self._newest: dict[tuple[str, str], Subscription] = {}  # of group and topic, until a member says more, or goes
        self._producers: dict[str, dict[Peer, Producer]] = {}  # group -> connection
        self._of: dict[Peer, set[tuple[str, str]]] = {}  # connection -> groups and client ids that it is in
        self._produces: dict[Peer, set[str]] = {}  # and the groups of producers
        self._turns = itertools.count()
        self._named: dict[Peer, tuple[str, str]] = {}  # connection -> the client id that came by it last, and its user
        self._peers: dict[str, dict[str, Peer]] = {}  # client id -> user -> the connection that named it last
        self.calls = Calls()

    def handlers(self) -> dict[int, Handler]:
        return {
            HEARTBEAT: self.heartbeat,
            LEAVE: self.leave,
            GET_MEMBERS: self.members_of,
            GET_CONNECTIONS: self.connections_of,
        }

    def note(self, group: str) -> None:
        """Know a group from now on: it pulls, without heartbeats."""
        if group not in self._groups:
            self._groups[group] = {}

    def names(self) -> KeysView[str]:
        """Return the names of all groups that came here, also if nobody is left in one."""
        return self._groups.keys()

    def groups(self) -> Iterator[tuple[str, Mapping[str, ConsumerClient]]]:
        yield from self._groups.copy().items()  # at one moment: figures are asked for by other threads

    def members(self, group: str) -> Mapping[str, ConsumerClient]:
        return self._groups.get(group, {})

    def consumers(self, group: str, topic: str) -> set[Peer]:
        """Return connections of members that may consume a topic.

        One without subscriptions pulls what it likes: Java's DefaultLitePullConsumer, after `assign`.
        """
        members = self.members(group).values()
        return {one.peer for one in members if topic in one.subscriptions or not one.subscriptions}

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the newest subscription of a group to a topic, for which each pull asks."""
        newest = self._newest.get((group, topic))
        if newest is None:
            found = [member.subscriptions.get(topic) for member in self._groups.get(group, {}).values()]
            newest = max((one for one in found if one is not None), key=lambda one: one.version, default=None)
            if newest is not None:
                self._newest[group, topic] = newest
        return newest

    # -- producers --------------------------------------------------------------------------------------------------

    def note_producer(self, group: str, request: Request) -> None:
        """Know who sent a request as one of a group of producers, to be asked from now on.

        Raises Refused: its name is too long, or its connection has too many.
        """
        _checked("groupName", group)
        groups = self._produces.setdefault(request.peer, set())
        if len(groups) >= GROUPS_MAX and group not in groups:
            raise Refused(SYSTEM_ERROR, f"one more than {GROUPS_MAX} producer groups, which are the most")
        groups.add(group)
        made = Producer(request.frame.language, request.frame.version, time.monotonic(), request.may)
        self._producers.setdefault(group, {})[request.peer] = made

    def producers(self) -> Iterator[Producer]:
        """Yield the connections of producers, each once for each of its groups.

        Thread: any.
        """
        for found in list(self._producers.values()):
            yield from list(found.values())

    def producer(self, group: str, need: Need) -> Peer | None:
        """Return a connection of a group of producers, another one each time, or None.

        `need`: that its user must have, as anybody may say to be of a group. Thread: any.
        """
        found = self._producers.get(group, {}).copy().items()
        peers = [peer for peer, heard in found if not peer.is_closed and lets(heard.may, need)]
        return peers[next(self._turns) % len(peers)] if peers else None

    def note_client(self, client: str, peer: Peer) -> None:
        """Know by which connection a client hears.

        Another one of the same id and user takes its place.
        """
        self._forget_client(peer)
        self._named[peer] = client, peer.user
        self._peers.setdefault(client, {})[peer.user] = peer

    def note_asker(self, client: str, peer: Peer) -> None:
        """Know by which connection a client hears that has sent no heartbeat.

        It does if the client has none of its user's. A connection that has a client already forwards the request of
        another one; one that has ended meanwhile would stay for ever.
        """
        if not peer.is_closed and peer not in self._named and peer.user not in self._peers.get(client, {}):
            self.note_client(client, peer)

    def find(self, client: str) -> Sequence[Peer]:
        """Return the connections of a client, one for each user.

        Ids are no secret, and nobody knows whose one is.
        """
        return list(self._peers.get(client, {}).values())

    def _forget_client(self, peer: Peer) -> None:
        client, user = self._named.pop(peer, ("", ""))
        peers = self._peers.get(client, {})
        if peers.get(user) is peer:
            del peers[user]
            if not peers:
                del self._peers[client]

    def _take_out_producers(self, group: str, which: Callable[[Peer, float], bool]) -> None:
        found = self._producers.get(group, {})
        for peer in [peer for peer, one in found.items() if which(peer, one.heard)]:
            del found[peer]
            groups = self._produces.get(peer, set())
            groups.discard(group)
            if not groups:
                self._produces.pop(peer, None)
        if not found:
            self._producers.pop(group, None)

    # -- requests ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: Request) -> Answer | Coroutine[None, None, Answer]:
        """Take a client's groups and subscriptions, and notify the groups that changed."""
        told = request.json()
        client = _checked("clientID", member_text(told, "clientID"))
        self.note_client(client, request.peer)
        groups, consumers = [], _objects(told.get("consumerDataSet"))
        if len(consumers) > GROUPS_MAX:
            raise Refused(SYSTEM_ERROR, f"a heartbeat of {len(consumers)} consumer groups; {GROUPS_MAX} are the most")
        for one in consumers:
            group = _checked("groupName", member_text(one, "groupName"))
            member = ConsumerClient(
                request.peer,
                request.frame.language,
                request.frame.version,
                {name: one.get(name) for name in ("consumeType", "messageModel", "consumeFromWhere")},
                dict(_subscriptions(one)),
                time.monotonic(),
            )
            there = self._of.get(request.peer, ())
            if len(there) >= GROUPS_MAX and (group, client) not in there:
                raise Refused(SYSTEM_ERROR, f"one more than {GROUPS_MAX} consumers of a connection, which are the most")
            groups.append(group)
            self.join(group, client, member)
        for one in _objects(told.get("producerDataSet")):
            produces = one.get("groupName")
            if isinstance(produces, str) and produces:
                self.note_producer(produces, request)
        return request.answer() if self.admit is None else self._admitted(request, groups, self.admit)

    def join(self, group: str, client: str, member: ConsumerClient) -> None:
        """Take a member into a group, or what it wants now, and notify the others if that is new."""
        members = self._groups.setdefault(group, {})
        before, members[client] = members.get(client), member
        if before is not None:
            self._of.get(before.peer, set()).discard((group, client))
        self._of.setdefault(member.peer, set()).add((group, client))
        self._newest.clear()
        if before is None or _wanted(before) != _wanted(member):
            self._tell(group)

    async def _admitted(
        self, request: Request, groups: list[str], admit: Callable[[str], Coroutine[None, None, None]]
    ) -> Answer:
        for group in groups:
            with suppress(Refused):  # its pulls are refused
                await admit(group)
        return request.answer()

    def leave(self, request: Request) -> Answer:
        """Take a client out of the groups that it names."""
        self._take_out_producers(request.text("producerGroup", ""), lambda one, heard: one is request.peer)
        group = request.text("consumerGroup", "")
        self.take_out(group, request.text("clientID"))
        self.ended(group)
        return request.answer()

    def take_out(self, group: str, client: str) -> None:
        """Take a member out of a group, if it is in it."""
        if client in self._groups.get(group, {}):
            self._drop(group, client)
            self._tell(group)

    def _drop(self, group: str, client: str) -> None:
        member = self._groups[group].pop(client)
        self._of.get(member.peer, set()).discard((group, client))
        self._newest.clear()
        self.gone(group, client)

    def members_of(self, request: Request) -> Answer:
        group = request.text("consumerGroup")
        members = self._groups.get(group)
        if not members:
            raise Refused(SYSTEM_ERROR, f"no consumer for this group, {group}")
        return request.answer(body=_body({"consumerIdList": list(members)}))

    def connections_of(self, request: Request) -> Answer:
        """Answer `mqadmin consumerConnection`."""
        group = request.text("consumerGroup")
        members = self._groups.get(group)
        if not members:
            raise Refused(CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        connections = [
            {"clientAddr": one.peer.address, "clientId": client, "language": one.language, "version": one.version}
            for client, one in members.items()
        ]
        first = next(iter(members.values()))
        table = {topic: dict(one.told) for member in members.values() for topic, one in member.subscriptions.items()}
        return request.answer(body=_body({**first.settings, "connectionSet": connections, "subscriptionTable": table}))

    # -- members that go --------------------------------------------------------------------------------------------

    def left(self, peer: Peer) -> None:
        """Take out the members of a connection that has ended."""
        groups = {group for group, _ in self._of.pop(peer, ())}
        self._take_out(groups, lambda member: member.peer is peer)
        for group in self._produces.pop(peer, ()):
            self._take_out_producers(group, lambda one, heard: one is peer)
        self._forget_client(peer)
        self.calls.left(peer)

    def sweep(self) -> None:
        """Take out the members that were silent for too long."""
        since = time.monotonic() - SILENT_S
        self._take_out(self._groups, lambda member: member.heard < since)
        for group in list(self._producers):
            self._take_out_producers(group, lambda one, heard: heard < since)

    def _take_out(self, groups: Iterable[str], which: Callable[[ConsumerClient], bool]) -> None:
        for group in groups:
            members = self._groups[group]
            gone = [client for client, member in members.items() if which(member)]
            for client in gone:
                self._drop(group, client)
            if gone:
                self._tell(group)

    def _tell(self, group: str) -> None:
        """Tell each connection of a group that it changed; one that misses it looks each 20 s."""
        for peer in {member.peer: None for member in self._groups[group].values()}:
            if peer.is_writable:
                self.calls.tell(peer, MEMBERS_CHANGED, {"consumerGroup": group})


def _checked(what: str, name: str) -> str:
    if len(name) > NAME_MAX:
        raise Refused(SYSTEM_ERROR, f"a {what} of {len(name)} letters; {NAME_MAX} are the most")
    return name


def _objects(value: object) -> Sequence[dict[str | int, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _subscriptions(told: Mapping[str | int, Any]) -> Iterator[tuple[str, Subscription]]:
    for one in _objects(told.get("subscriptionDataSet")):
        topic, text = one.get("topic"), one.get("subString")
        if isinstance(topic, str):
            version = config_json.integer(one.get("subVersion")) or 0
            kind = one.get("expressionType")
            expression = text if isinstance(text, str) else "*"
            yield topic, Subscription(expression, version, kind if isinstance(kind, str) else TAG, one)


def _wanted(member: ConsumerClient) -> dict[str, tuple[str, str]]:
    """Return what a member subscribes to: with each heartbeat the same one has another version."""
    return {topic: (one.expression, one.kind) for topic, one in member.subscriptions.items()}


def _body(value: config_json.JsonObject) -> bytes:
    return config_json.write(value, "5.4.0", compact=True)
