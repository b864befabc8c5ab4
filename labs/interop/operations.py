"""Seeded operations for labs/interop/differential.py: what the oracle takes, and the same for FlintMQ.

A kind of run has its own configuration, topics and operations:

    plain   messages of every size, flag and property, some at every limit
    batch   batches of both kinds, among single messages of both types of topic, refused ones included
    light   messages for light queues (enableLmq, enableMultiDispatch)
    ext     plain ones, with enableConsumeQueueExt
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flintmq.format import properties as names
from flintmq.format.text import java_hash
from flintmq.message import Message, PutResult
from flintmq.store.message_store import MessageStore

Operation = dict[str, Any]
KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 18,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
LEVELS = 18
TOPICS = ("T0", "T1", "T2", "主题", "t" * 127, "%RETRY%" + "g" * 150, "SCHEDULE_TOPIC_XXXX")
BATCH_TOPICS = ("B0", "批")
HOST = "127.0.0.1:10911"


@dataclass(frozen=True)
class Kind:
    """One kind of run.

    Attributes:
        operation: makes the n-th one from chance.
        keys: configuration besides KEYS.
        topics, batch_topics: all topics, and those of type BatchCQ.
    """

    operation: Callable[[random.Random, int], Operation]
    keys: dict[str, Any] = field(default_factory=dict)
    topics: tuple[str, ...] = TOPICS
    batch_topics: tuple[str, ...] = ()

    def java_topics(self) -> dict[str, Any]:
        """The topic table as the oracle takes it."""
        batch = {"attributes": {"queue.type": "BatchCQ"}}
        return {t: {"queues": 4} | (batch if t in self.batch_topics else {}) for t in self.topics + self.batch_topics}


def plain(chance: random.Random, number: int) -> Operation:
    """One put with its own property string; mostly plain ones, some at every limit."""
    topic = chance.choice(TOPICS)
    delayed = topic == TOPICS[-1]
    level = chance.randrange(1, LEVELS + 3)
    parts = [
        chance.choice(("", "TAGS\x01报警\x02", "TAGS\x01a\x02", "TAGS\x01Aa\x02", "TAGS\x01BB\x02")),
        chance.choice(
            ("", f"KEYS\x01k{number} k{number % 7}\x02", f"KEYS\x01k{number % 97}\x02", "KEYS\x01 a  b \x02")
        ),
        chance.choice(("", f"UNIQ_KEY\x01{number:032X}\x02")),
        chance.choice(("", "p\x01v\x02", "WAIT\x01false\x02", "p\x01v")),  # the last separator may be missing
    ]
    if delayed:
        parts.insert(0, f"DELAY\x01{level}\x02REAL_TOPIC\x01T0\x02REAL_QID\x010\x02")
    odd = chance.random()
    if odd < 0.002:  # around the longest property string
        parts = ["long\x01" + "x" * chance.choice((32_761, 32_762)) + "\x02"]
    size = chance.choice((0, 1, 50, 100, 100, 300)) if odd < 0.99 else chance.choice((3000, 70_000))
    queue = min(level, LEVELS) - 1 if delayed else chance.randrange(3)
    return _put(chance, number, topic, queue, "".join(parts), size) | {
        "sys_flag": chance.choice((0, 0, 0, 1, 2, 4, 8, 12)),
        "prepared_offset": chance.choice((0, 12345)),
    }


def _put(chance: random.Random, number: int, topic: str, queue: int, properties: str, size: int) -> Operation:
    return {
        "op": "put", "topic": topic, "queue": queue, "flag": chance.choice((0, 0, -5, 1 << 30)),
        "sys_flag": chance.choice((0, 0, 1, 8)), "reconsume": chance.choice((0, 3)),
        "born_ts": 1_700_000_000_000 + number, "born_host": HOST, "store_host": HOST,
        "properties_string": properties, "body": {"hex": chance.randbytes(size).hex()},
    }  # fmt: skip


def last(chance: random.Random, number: int) -> Operation:
    """A message with a queue unit, before the stores are closed: what has none and stands behind the last unit,
    RocketMQ's clean start enters into the index a second time."""
    return _put(chance, number, TOPICS[0], 0, "TAGS\x01last\x02", 10) | {"sys_flag": 0}


def batch(chance: random.Random, number: int) -> Operation:
    """A batch or a single message, into topics of both types; some that are refused."""
    odd = chance.random()
    topic = chance.choice(BATCH_TOPICS if odd < 0.6 else TOPICS[:6])
    inner = topic in BATCH_TOPICS
    properties = chance.choice(("", "CLUSTER\x01c\x02", f"UNIQ_KEY\x01{number:032X}\x02", "TAGS\x01x\x02p\x01q\x02"))
    one = _put(chance, number, topic, chance.randrange(2), properties, chance.choice((0, 30, 200)))
    if odd < 0.2 or odd > 0.9:
        if chance.random() < 0.1:  # the wrong combinations: a number without the flag, the flag in a plain topic
            one["properties_string"] += chance.choice(("INNER_NUM\x013\x02", ""))
            one["sys_flag"] |= 0x80 if not inner and "INNER_NUM" not in one["properties_string"] else 0
        return one
    count = chance.choice((1, 2, 3, 10, 40))
    size = 0 if odd < 0.59 else chance.choice((0, 1_000, 5_300))  # 40 times the last is too large for a batch
    parts = [
        {"body": {"hex": chance.randbytes(chance.choice((0, 9, 120)) + size).hex()}, "flag": chance.choice((0, -7))}
        | chance.choice(({}, {"tags": "报警"}, {"keys": f"k{number} k{n}", "tags": "a"}, {"uniq_key": f"{n:032X}"}))
        for n in range(count)
    ]
    sys_flag = 4 if chance.random() < 0.02 and not inner else 0
    one.update(op="inner_batch" if inner else "batch", messages=parts, flag=0, sys_flag=sys_flag)
    if chance.random() < 0.01:
        one["properties_string"] = "long\x01" + "x" * 33_000 + "\x02"
    return one


def light(chance: random.Random, number: int) -> Operation:
    """A message for up to four light queues, or for none; some that nobody dispatches."""
    one = plain(chance, number)
    one["sys_flag"] &= ~4  # of prepared and rolled-back ones RocketMQ counts light offsets that get no unit
    queues = [f"%LMQ%{name}" for name in chance.sample(("a", "b", "c", "设备", "x/y"), chance.choice((1, 2, 2, 4)))]
    which = chance.random()
    listed = "other,names" if which < 0.02 else "one" if which < 0.04 else ",".join(queues)
    if which < 0.8:
        given = chance.choice(("", "", "INNER_MULTI_QUEUE_OFFSET\x0177\x02"))  # what the sender says does not count
        one["properties_string"] = f"{given}INNER_MULTI_DISPATCH\x01{listed}\x02" + one["properties_string"]
    return one


KINDS = {
    "plain": Kind(plain),
    # With a larger maxMessageSize RocketMQ would take batches that no log file holds, and lose them (D8).
    "batch": Kind(
        batch, {"mapperFileSizeBatchConsumeQueue": 2300, "maxMessageSize": 200_000}, TOPICS[:6], BATCH_TOPICS
    ),
    "light": Kind(light, {"enableLmq": True, "enableMultiDispatch": True}),
    "ext": Kind(plain, {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 1024}),
}


def message_of(op: Operation) -> Message:
    """The same put for FlintMQ."""
    return Message(
        op["topic"], bytes.fromhex(op["body"]["hex"]), queue_id=op["queue"], flag=op["flag"], sys_flag=op["sys_flag"],
        born_timestamp=op["born_ts"], reconsume_times=op["reconsume"],
        prepared_transaction_offset=op.get("prepared_offset", 0), properties_bytes=op["properties_string"].encode(),
    )  # fmt: skip


def put(store: MessageStore, op: Operation) -> list[PutResult]:
    """Do the same with FlintMQ."""
    if op["op"] == "put":
        return store.put_many([message_of(op)], delivered=op["sys_flag"] & 4 != 0)
    messages = [
        Message(
            op["topic"], bytes.fromhex(part["body"]["hex"]), queue_id=op["queue"], flag=part["flag"],
            sys_flag=op["sys_flag"], born_timestamp=op["born_ts"], reconsume_times=op["reconsume"],
            properties=_small_map({k: part[v] for k, v in _WORDS.items() if v in part}),
        )
        for part in op["messages"]
    ]  # fmt: skip
    return store.put_batch(messages, names.java_order(names.parse(op["properties_string"])))


_WORDS = {names.TAGS: "tags", names.KEYS: "keys", names.UNIQ_KEY: "uniq_key"}


def _small_map(pairs: dict[str, str]) -> dict[str, str]:
    """The pairs in the order of a Java HashMap of 16 buckets, which the oracle gives the messages of a batch."""

    def bucket(name: str) -> int:
        spread = java_hash(name) & 0xFFFFFFFF
        return (spread ^ spread >> 16) & 15

    return {name: pairs[name] for name in sorted(pairs, key=bucket)}
