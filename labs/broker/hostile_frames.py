"""Bytes for a broker that no good client sends: requests that are strange, changed, cut, or too deep.

`valid_sends` says what of such bytes asks for a message to be stored, by the reference codec alone.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

from flintmq.broker.requests import Refused
from flintmq.broker.send import _entries
from flintmq.errors import FlintError
from flintmq.remoting import names
from flintmq.remoting.frames import ROCKETMQ, RemotingFrame, decode_frame, encode_frame, frame_size
from labs.fuzz.mutate import NUMBERS, mutate
from tests.broker.talk import batch, heartbeat, pop, pull, request, send

TOPICS = ("F0", "F1", "F2", "%RETRY%FG", "%DLQ%FG")  # made before; the last two by what is sent back
GROUPS = ("FG", "FH")
NEW_NAMES_MAX = 40  # of topics and groups that a run may bring into being: else their tables would be all that grows
TAGS = "TAGS\x01a\x02UNIQ_KEY\x01fuzz{}\x02KEYS\x01k{}\x02"
REPLIED = "CORRELATION_ID\x01c{}\x02MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01c\x02TTL\x0150\x02"
PLACE = {"topic": "F0", "queueId": 0}
MEMBER = {"clientId": "c", "consumerGroup": "FG", "mqSet": [{"brokerName": "broker-a", "queueId": 0, "topic": "F0"}]}
MADE = {"topic": "F1", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "attributes": "+message.type=NORMAL"}
BACK = {"offset": 0, "group": "FG", "delayLevel": 0, "originTopic": "F0", "maxReconsumeTimes": 3}
HANDLE = "djEgRjAgYnJva2VyLWEgMTcwMDAwMDAwMDAwMSBLMQ=="  # v1 F0 broker-a 1700000000001 K1
RECEIPT = {"consumerGroup": "FG", "offset": 0, "extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0"}
ACKED = {"c": "FG", "t": "F0", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1_700_000_000_000, "it": 60_000, "b": "Aw=="}
ASSIGNED = {
    "topic": "F0", "consumerGroup": "FG", "clientId": "c", "strategyName": "AVG", "messageModel": "CLUSTERING",
}  # fmt: skip
CONDITION = {"subString": "(a BETWEEN -1.5 AND 3 OR TAGS IN ('a', 'b''c')) AND NOT x", "expressionType": "SQL92"}
TEXTS = (
    "", " ", "-1", "0", "true", "F0", "FG", "%RETRY%FG", "TBW102", "SCHEDULE_TOPIC_XXXX", "*", "a||b", "\0", "\x01",
    "\x02", "\ud800", "é" * 40, "x" * 127, "x" * 128, "x" * 70_000, "../../etc", "1e5", "NaN", "0x7f", "9" * 400,
)  # fmt: skip

REQUESTS: tuple[tuple[int, dict[str, Any], bytes], ...] = (
    (names.SEND, {
        "producerGroup": "P", "topic": "F0", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 1,
        "sysFlag": 0, "bornTimestamp": 1_700_000_000_000, "flag": 0, "properties": "", "reconsumeTimes": 0,
    }, b"long"),
    (names.SEND_SHORT, send("F0", 0, TAGS), b"plain"),
    (names.SEND_SHORT, send("F1", 2, TAGS), b"y" * 3000),
    (names.SEND_SHORT, send("F1", 3, "DELAY\x012\x02"), b"late"),
    (names.SEND_SHORT, send("%RETRY%FG", 0, TAGS, retried=2, most=1), b"again"),
    (names.SEND_BATCH, send("F2", 1, batch="true"), batch((b"one", "KEYS\x01a\x02"), (b"two", ""), (b"three", ""))),
    (names.SEND_BACK, BACK, b""),
    (names.PULL, pull("F0", 0, 0, "FG"), b""),
    (names.PULL, pull("F1", 2, 0, "FG", subscription="a || b"), b""),
    (names.PULL, pull("F1", 3, 0, "FG", subscription=CONDITION["subString"], expressionType="SQL92"), b""),
    (names.PULL_LITE, pull("F0", 1, 1 << 40, "FH", sysFlag=7, suspendTimeoutMillis=300), b""),
    (names.QUERY, {"topic": "F0", "key": "k{}", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60}, b""),
    (names.VIEW, {"offset": 0}, b""),
    (names.GET_OFFSET, {**PLACE, "consumerGroup": "FG"}, b""),
    (names.COMMIT_OFFSET, {**PLACE, "consumerGroup": "FG", "commitOffset": 1}, b""),
    (names.GET_OFFSET_AT, {**PLACE, "timestamp": 1_700_000_000_000, "boundaryType": "LOWER"}, b""),
    (names.GET_QUEUE_END, PLACE, b""),
    (names.GET_QUEUE_BEGIN, PLACE, b""),
    (names.GET_EARLIEST_TIME, PLACE, b""),
    (names.HEARTBEAT, {}, heartbeat("c", *GROUPS, topics={"F0": "*", "F1": "a||b"})),
    (names.CHECK_CLIENT, {}, json.dumps({"subscriptionData": CONDITION}).encode()),
    (names.LEAVE, {"clientID": "c", "consumerGroup": "FG", "producerGroup": "P"}, b""),
    (names.GET_MEMBERS, {"consumerGroup": "FG"}, b""),
    (names.LOCK_QUEUES, {}, json.dumps(MEMBER).encode()),
    (names.UNLOCK_QUEUES, {}, json.dumps(MEMBER).encode()),
    (names.MAKE_TOPIC, MADE, b""),
    (names.DELETE_TOPIC, {"topic": "F2"}, b""),
    (names.FORGET_TOPIC, {"topic": "F2"}, b""),
    (names.MAKE_GROUP, {}, json.dumps({"groupName": "FG", "retryMaxTimes": 3, "retryQueueNums": 1}).encode()),
    (names.DELETE_GROUP, {"groupName": "FH", "cleanOffset": "true"}, b""),
    (names.RESET_OFFSET, {"topic": "F0", "group": "FG", "timestamp": 0, "isForce": "true"}, b""),
    (names.SET_CONFIG, {}, b"flushDiskType=ASYNC_FLUSH\n"),
    (names.END_TRANSACTION, {"producerGroup": "P", "commitLogOffset": 0, "commitOrRollback": 8}, b""),
    (names.REPLY_SHORT, send("F0", 0, REPLIED), b"reply"),
    (names.REPLY, {
        "producerGroup": "P", "topic": "F1", "queueId": 1, "bornTimestamp": 1_700_000_000_000, "properties": REPLIED,
    }, b"long reply"),
    (names.GET_RUNNING, {"consumerGroup": "FG", "clientId": "c", "jstackEnable": "false"}, b""),
    (names.CONSUME_DIRECTLY, {"consumerGroup": "FG", "clientId": "c", "msgId": "7F00000100002A9F" + "0" * 16}, b""),
    (names.RECALL, {"topic": "F0", "recallHandle": HANDLE, "producerGroup": "P"}, b""),
    (names.POP, pop("F0", "FG", maxMsgNums=4), b""),
    (names.POP, pop("F1", "FG", pollTime=300, order="true", invisibleTime=100), b""),
    (names.PEEK, pop("F0", "FG"), b""),
    (names.NOTIFICATION, {**pop("F0", "FG"), "pollTime": 100}, b""),
    (names.ACK, {**PLACE, **RECEIPT}, b""),
    (names.CHANGE_INVISIBLE, {**PLACE, **RECEIPT, "invisibleTime": 1000}, b""),
    (names.ACK_BATCH, {}, json.dumps({"brokerName": "broker-a", "acks": [ACKED]}).encode()),
    (names.GET_ASSIGNMENT, {}, json.dumps(ASSIGNED).encode()),
    (names.SET_MODE, {}, json.dumps({"topic": "F0", "consumerGroup": "FG", "mode": "POP"}).encode()),
    (names.GET_ROUTE, {"topic": "F0"}, b""),
    (names.GET_TOPIC_STATS, {"topic": "F0"}, b""),
    (names.GET_CONSUME_STATS, {"consumerGroup": "FG"}, b""),
    (names.GET_CONNECTIONS, {"consumerGroup": "FG"}, b""),
    (names.GET_GROUPS_OF, {"topic": "F0"}, b""),
    (names.GET_TOPIC, {"topic": "F0"}, b""),
    (names.GET_STATS, {"statsName": "GROUP_GET_NUMS", "statsKey": "F0@FG"}, b""),
    *((code, {}, b"") for code in (
        names.GET_TOPICS, names.GET_CONFIG, names.GET_RUNTIME, names.GET_OFFSETS, names.GET_DELAYS, names.GET_GROUPS,
        names.GET_MODES, names.GET_HA_ADDRESS, names.GET_CLUSTERS, names.GET_ALL_TOPICS, names.REGISTER, 350, 322,
        names.GET_TIMER_CHECK,
    )),
)  # fmt: skip
"""Each request that a broker answers, as a client asks it; `{}` is a number that differs each time."""
SENDS = (names.SEND, names.REPLY, names.SEND_SHORT, names.SEND_BATCH, names.REPLY_SHORT)


def good(chance: random.Random) -> bytes:
    """A request as it should be; now and then with a header of the other kind, or one that wants no answer."""
    code, fields, body = chance.choice(REQUESTS)
    number = str(chance.randrange(1 << 30))
    told = {name: str(value).replace("{}", number) for name, value in fields.items()}
    flag = 2 if chance.random() < 0.05 else 0
    if chance.random() < 0.2 and code <= 0x7FFF:  # the other kind has two bytes for it
        frame = RemotingFrame(code, chance.randrange(1 << 30), flag, None, told, body, "CPP")
        return encode_frame(frame, ROCKETMQ)
    return request(code, told, body, opaque=chance.randrange(1 << 30), flag=flag)


def strange(chance: random.Random) -> bytes:
    """A whole request of which some fields say something else, or are missing."""
    code, fields, body = chance.choice(REQUESTS)
    told = {name: str(value) for name, value in fields.items()}
    for name in chance.sample(sorted(told), min(len(told), chance.choice((0, 1, 1, 2, 4)))):
        match chance.randrange(3):
            case 0:
                del told[name]
            case 1:
                told[name] = str(chance.choice(NUMBERS) + chance.randrange(-1, 2))
            case 2:
                told[name] = chance.choice(TEXTS)
    if chance.random() < 0.3:
        body = mutate([body, b"{}", b'{"clientID":1}', heartbeat("c", "FG")], chance)
    code = chance.choice((code, code, code, *NUMBERS[:8])) % (1 << 31)
    return request(code, told, body, opaque=chance.choice((1, -1, 1 << 30)), flag=chance.choice((0, 0, 0, 1, 2, 3)))


def changed(chance: random.Random) -> bytes:
    """Good requests, joined, after blind changes."""
    whole = b"".join(good(chance) for _ in range(chance.choice((1, 1, 2, 5))))
    return mutate([whole, good(chance)], chance)


def lengths(chance: random.Random) -> bytes:
    """A request whose lengths lie: of the frame, of the header, or its kind."""
    data, value = bytearray(good(chance)), chance.choice(NUMBERS) + chance.randrange(-2, 3)
    match chance.randrange(4):
        case 0:
            data[0:4] = (value & 0xFFFFFFFF).to_bytes(4, "big")
        case 1:
            data[5:8] = (value & 0xFFFFFF).to_bytes(3, "big")
        case 2:
            data[4] = value & 0xFF
        case 3:  # a header that ends beyond its frame by one, or begins the next one
            data[5:8] = (len(data) - 8 + chance.choice((1, -1, 4))).to_bytes(3, "big")
    return bytes(data)


def deep(chance: random.Random) -> bytes:
    """JSON in the header, or in the body, that nests or repeats without end."""
    depth = chance.choice((50, 500, 20_000, 60_000))
    inside = chance.choice((
        b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth, b'{"a":' * depth,
        b"{" + b"a:1," * depth + b"}", b'"' + b"\\u0041" * depth + b'"', b"9" * depth, b"-" * depth,
    ))  # fmt: skip
    if chance.random() < 0.5:
        head = b'{"code":' + str(chance.choice(REQUESTS)[0]).encode() + b',"opaque":1,"extFields":' + inside + b"}"
        return struct.pack(">II", 4 + len(head), len(head)) + head
    code = chance.choice((names.HEARTBEAT, names.LOCK_QUEUES, names.UNLOCK_QUEUES, names.MAKE_GROUP))
    return request(code, {}, chance.choice((inside, b'{"clientID":"c","consumerDataSet":' + inside + b"}")))


MAKERS = (good, strange, strange, changed, changed, lengths, deep)


def valid_sends(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Topic and body of each message that bytes of one connection ask to store, up to what is no frame."""
    for frame in frames(data):
        if frame.code in SENDS and not frame.is_answer:
            topic = frame.fields.get("topic" if frame.code in SENDS[:2] else "b", "")
            yield topic, frame.body
            try:
                yield from ((topic, body) for body, _, _ in _entries(frame.body))
            except (Refused, ValueError):
                continue  # no batch, or its first messages are; none of it is stored


def frames(data: bytes) -> Iterator[RemotingFrame]:
    """The frames at the beginning of bytes, up to what is none."""
    at = 0
    try:
        while (size := frame_size(data[at : at + 4])) is not None and at + size <= len(data):
            yield decode_frame(data[at : at + size])
            at += size
    except FlintError:
        return


def names_of(data: bytes) -> set[str]:
    """Names of topics and groups that bytes may bring into being."""
    found = set()
    for frame in frames(data):
        keys = ("topic", "b", "a", "consumerGroup", "producerGroup", "group", "groupName")
        found |= {frame.fields[key] for key in keys if key in frame.fields}
        if frame.code in (names.HEARTBEAT, names.MAKE_GROUP):
            found |= set(_groups_in(frame.body))
    return found


def _groups_in(body: bytes) -> Iterator[str]:
    try:
        told = json.loads(body)
        for one in (told, *told.get("consumerDataSet", ())):
            if isinstance(one.get("groupName"), str):
                yield one["groupName"]
    except (ValueError, AttributeError, TypeError, RecursionError):
        yield repr(body[:100])  # loose JSON may name one too
