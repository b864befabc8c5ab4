"""Lists what each request needs under an ACL: resources, and what is done with them.

A code that has no entry here is refused, so a new one cannot be forgotten.

Upstream: DefaultAuthorizationContextBuilder, and RocketMQAction on the classes of headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Final, TypeAlias

from flintmq.broker.requests import Need, Refused, Request, member_text
from flintmq.broker.served import TEMPLATE
from flintmq.format.group_topics import RETRY, is_system_topic
from flintmq.remoting import names

TOPIC, GROUP, CLUSTER, ANY = "Topic", "Group", "Cluster", "*"  # kinds of resources
PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
NEEDS_MAX: Final = 10_000  # of one request: a heartbeat names topics by the thousand
OPEN: Final = frozenset({TEMPLATE, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"})
"""Topics of RocketMQ's own in which no messages of other topics wait."""
OF_TRACE: Final = "rmq_sys_TRACE_DATA_"  # so do those that begin so. Upstream: TraceConstants.TRACE_TOPIC_PREFIX


Needs: TypeAlias = Callable[[Request], Iterable[Need]]


def of_topic(topic: str, *actions: str) -> Need:
    """Return the need of a use of a topic.

    Retries are the group's: its consumers also send them. RocketMQ's own topics are the cluster's, which names them:
    messages of all topics wait there.
    """
    if topic.startswith(RETRY):
        return Need(GROUP, topic.removeprefix(RETRY), tuple(SUB if action == PUB else action for action in actions))
    if is_system_topic(topic) and topic not in OPEN and not topic.startswith(OF_TRACE):
        return Need(CLUSTER, topic, (SUB,) if actions == (SUB, GET) else actions)  # its Get is for figures alone
    return Need(TOPIC, topic, actions)


def of_group(group: str, *actions: str) -> Need:
    return Need(GROUP, group, actions)


def _topic(field: str, *actions: str) -> Needs:
    return lambda request: [of_topic(request.text(field), *actions)]


def _group(field: str, *actions: str) -> Needs:
    return lambda request: [of_group(request.text(field), *actions)]


def _both(*actions: str) -> Needs:
    """Return the needs of a request for a topic and a group, by their fields."""
    return lambda request: [
        of_topic(request.text("topic"), *actions), of_group(request.text("consumerGroup"), *actions),
    ]  # fmt: skip


def _told(topic: str, group: str, *actions: str) -> Needs:
    """Return the needs of a request that names topic and group in its body, or only the group."""

    def needs(request: Request) -> Iterator[Need]:
        told = request.json()
        if topic:
            yield of_topic(member_text(told, topic), *actions)
        yield of_group(member_text(told, group), *actions)

    return needs


def _cluster(*actions: str) -> Needs:
    return lambda request: [Need(CLUSTER, "", actions)]


def _route(request: Request) -> Iterator[Need]:
    """Yield the needs of a route; for that of new topics all producers ask."""
    topic = request.text("topic")
    if topic != TEMPLATE:
        yield of_topic(topic, PUB, SUB, GET)


def _leave(request: Request) -> Iterator[Need]:
    group = request.text("consumerGroup", "")
    if group:
        yield of_group(group, SUB)


def _heartbeat(request: Request) -> Iterator[Need]:
    for consumer in _objects(request.json().get("consumerDataSet")):
        yield of_group(member_text(consumer, "groupName"), SUB)
        for one in _objects(consumer.get("subscriptionDataSet")):
            yield of_topic(member_text(one, "topic"), SUB)


def _batch_of_acks(request: Request) -> Iterator[Need]:
    for one in _objects(request.json().get("acks")):
        yield of_group(member_text(one, "c" if "c" in one else "consumerGroup"), SUB)


def _objects(value: object) -> Iterable[dict[str | int, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


_CODES: Final[Mapping[Needs, tuple[int, ...]]] = {
    _topic("topic", PUB): (names.SEND, names.REPLY, names.RECALL),
    _topic("b", PUB): (names.SEND_SHORT, names.SEND_BATCH, names.REPLY_SHORT),
    _topic("topic", SUB, GET): (
        names.QUERY, names.GET_OFFSET_AT, names.GET_QUEUE_BEGIN, names.GET_QUEUE_END, names.GET_EARLIEST_TIME,
    ),
    _topic("topic", GET): (names.GET_TOPIC, names.GET_TOPIC_STATS, names.GET_GROUPS_OF),
    _topic("topic", CREATE): (names.MAKE_TOPIC,),
    _topic("topic", DELETE): (names.DELETE_TOPIC, names.FORGET_TOPIC),
    _route: (names.GET_ROUTE,),
    _both(SUB): (names.PULL, names.PULL_LITE, names.POP, names.PEEK, names.NOTIFICATION),
    _both(SUB, GET): (names.GET_OFFSET,),
    _both(SUB, UPDATE): (names.COMMIT_OFFSET,),
    _group("group", SUB): (names.SEND_BACK,),  # its handler asks for the message's topic, as that of CONSUME_DIRECTLY
    _group("consumerGroup", SUB): (names.ACK, names.CHANGE_INVISIBLE, names.CONSUME_DIRECTLY),
    _group("consumerGroup", SUB, GET): (names.GET_MEMBERS,),
    _group("consumerGroup", GET): (names.GET_CONNECTIONS, names.GET_CONSUME_STATS, names.GET_RUNNING),
    _group("groupName", DELETE): (names.DELETE_GROUP,),
    _group("group", UPDATE): (names.RESET_OFFSET,),
    _batch_of_acks: (names.ACK_BATCH,),
    _heartbeat: (names.HEARTBEAT,),
    _leave: (names.LEAVE,),
    _told("", "consumerGroup", SUB): (names.LOCK_QUEUES, names.UNLOCK_QUEUES),
    _told("", "groupName", CREATE): (names.MAKE_GROUP,),
    _told("topic", "consumerGroup", SUB): (names.GET_ASSIGNMENT,),
    _told("topic", "consumerGroup", UPDATE): (names.SET_MODE,),
    _cluster(UPDATE): (names.SET_CONFIG,),
    _cluster(GET, LIST): (
        names.GET_ALL_TOPICS, names.GET_TOPICS, names.GET_GROUPS, names.GET_OFFSETS, names.GET_DELAYS, names.GET_MODES,
        names.GET_TIMER_CHECK, names.GET_CONFIG, names.GET_RUNTIME, names.GET_STATS, names.GET_HA_ADDRESS,
    ),
}  # fmt: skip
NEEDS: Final[Mapping[int, Needs]] = {code: needs for needs, codes in _CODES.items() for code in codes}
"""Code of a request -> what it needs."""
FREE: Final[Set[int]] = frozenset({
    names.GET_CLUSTERS,  # mqadmin begins with it
    names.CHECK_CLIENT,  # it says whether a condition can be read, and upstream asks no right for it
    names.VIEW, names.END_TRANSACTION,  # their handlers ask for the topic of what they find
})  # fmt: skip
"""Codes that any user may send, and nobody without a signature."""


def of_request(request: Request) -> Iterator[Need]:
    """Yield what a request needs. No rule allows one that has no entry here."""
    needs = NEEDS.get(request.frame.code)
    if needs is not None:
        yield from needs(request)
    elif request.frame.code not in FREE:
        yield Need("request", str(request.frame.code), ())


def bounded(needs: Iterable[Need]) -> Iterator[Need]:
    """Yield what a request needs.

    Raises Refused: it names too many.
    """
    for number, need in enumerate(needs):
        if number == NEEDS_MAX:
            raise Refused(names.INVALID_PARAMETER, f"a request that names more than {NEEDS_MAX} topics and groups")
        yield need
