"""Property strings of messages: `name 01 value 02` for each pair.

Bytes and rules: docs/internals/format/properties.md.

Upstream: MessageDecoder.string2messageProperties, messageProperties2String, MessageConst.
"""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.format.text import java_decode, java_encode, java_hash

NAME_END = "\x01"
VALUE_END = "\x02"

KEYS = "KEYS"
TAGS = "TAGS"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
FIRST_POP_TIME = "1ST_POP_TIME"
POP_CK = "POP_CK"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
TRANSACTION_ID = "__transactionId__"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
SHARDING_KEY = "__SHARDINGKEY"
CRC32 = "__CRC32#"

MEANINGS = {
    KEYS: "index keys, separated by single spaces",
    TAGS: "gives the tags code of the queue unit",
    UNIQ_KEY: "the sender's message id, indexed; the column `msg_id`",
    DELAY: "delay level from 1; on `SCHEDULE_TOPIC_XXXX` it makes the tags code a time",
    REAL_TOPIC: "topic to which a delayed, timed or half message belongs",
    REAL_QID: "queue to which a delayed, timed or half message belongs",
    INNER_NUM: "messages of an inner batch",
    INNER_BASE: "queue offset of the first message of an inner batch",
    INNER_MULTI_DISPATCH: "light queues that get a unit too, separated by commas",
    INNER_MULTI_QUEUE_OFFSET: "queue offsets in those light queues, separated by commas",
    TRAN_MSG: "`true`: of a transaction",
    PGROUP: "group of the producer that is asked about the transaction",
    TRANSACTION_ID: "id of the transaction",
    CHECK_TIMES: "how often the sender of a half message was asked",
    CHECK_IMMUNITY: "seconds before the sender of a half message is asked first",
    PREPARED_QUEUE_OFFSET: "queue offset of the half message that this one is a copy of",
    TIMER_OUT_MS: "ms, when a timer message is due",
    TIMER_ENQUEUE_MS: "ms, when it was put into the timer wheel",
    TIMER_DEQUEUE_MS: "ms, when it left the timer wheel",
    TIMER_ROLL_TIMES: "how often it was put into the wheel again, being due too late for it",
    TIMER_DEL_UNIQKEY: "deletes the waiting timer message of this id",
    CRC32: "checksum of the record before it, least significant digit first",
    WAIT: "`true` or `false`: whether the sender waits for the disk",
    SHARDING_KEY: "ordered messages: what chose the queue",
}
"""Name of a property with a meaning on disk -> what it means. All others are carried and change nothing."""


def parse(text: str) -> dict[str, str]:
    """Parse a property string exactly as Java does.

    If a name occurs twice, the last value wins, in the first one's place.

    Parts that Java drops are dropped: shorter than three characters, without a name, without a separator, with an empty
    value. Only the first 01 of a part separates, further ones belong to the value; the last 02 may be missing.
    """
    pairs: dict[str, str] = {}
    at, end = 0, len(text)
    while at < end:
        stop = text.find(VALUE_END, at)
        if stop < 0:
            stop = end
        if stop - at >= 3:
            middle = text.find(NAME_END, at, stop)
            if at < middle < stop - 1:
                pairs[text[at:middle]] = text[middle + 1 : stop]
        at = stop + 1
    return pairs


def parse_bytes(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Parse a property string as stored; bytes that are not UTF-8 are read as Java decodes them."""
    return parse(java_decode(data))


def encode(pairs: Mapping[str, str | None]) -> bytes:
    """Encode `pairs` in their order as a property string.

    A value of None leaves the pair out; empty values are written.
    """
    kept = ((name, value) for name, value in pairs.items() if value is not None)
    return java_encode("".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in kept))


def java_order(pairs: Mapping[str, str]) -> dict[str, str]:
    """Sort the pairs as upstream writes them again after reading them from a property string.

    string2messageProperties puts them into a HashMap of 128 buckets, which doubles beyond 3/4; messageProperties2String
    takes them bucket by bucket. Pairs of one bucket keep their order.
    """
    buckets = 128
    while 4 * len(pairs) > 3 * buckets:
        buckets *= 2

    def bucket(name: str) -> int:
        spread = java_hash(name) & 0xFFFFFFFF
        return (spread ^ spread >> 16) & (buckets - 1)

    return {name: pairs[name] for name in sorted(pairs, key=bucket)}
