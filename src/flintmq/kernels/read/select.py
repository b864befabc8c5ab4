# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Selects the validated records that match a query, reading only the parts that it names.

Python decides on texts: Java's decoding of malformed bytes, patterns, rules for single queues. So the kernel has a
table of the topics that Python has judged, looks a record's topic up there, and returns for a verdict when it meets
another. Of tags the table holds the wanted ones, and only odd records need Python.
"""

import os

import cython

if not cython.compiled:
    from flintmq.kernels._plain import bytes_of, i32be, i64be, longs_of, same_bytes, seeded_hash
    from flintmq.kernels.read.record_parts import (
        NAMED_TAGS,
        NAMED_TAGS_END,
        SPAN_BORN,
        SPAN_END,
        SPAN_RECORD,
        SPAN_TOPIC,
        SPAN_TOPIC_END,
        locate,
        split,
    )

    _SINCE, _UNTIL, _TOPICS, _TAGS = range(4)  # compiled they come from select.pxd

# Why a call ended.
DONE = 0
TOPIC = 1  # Python must judge the topic of the record at `read`
TAG = 2  # Python must judge the tag of the record at `read`: its properties are too many, or not UTF-8

# Columns of `query`.
SINCE = 0  # least store time in ms
UNTIL = 1  # greatest store time
TOPICS = 2  # 0: any topic; 1: by the table, which Python extends; 2: by the table, others are not wanted
TAGS = 3  # 0: any tag or none; 1: those in the table, so no records without a tag
QUERY = 4

# A table has a power of two of slots, ENTRY numbers each: begin and length of a text in its arena (length -1: free),
# and the verdict. A text is in the slot of its hash or in the next free one after it; at least one slot is free.
ENTRY = 3
FREE = -1
UNWANTED = -1  # verdict; 0 for a wanted tag; for a wanted topic the index of its first queue rule

# A queue rule: queue id, least queue offset, end of queue offsets. A list of rules ends with one of queue END.
RULE = 3
ANY_QUEUE = -(2**40)  # all queues that no earlier rule names
END = -(2**41)

_ANY_QUEUE = cython.declare(cython.longlong, -(2**40))
_END = cython.declare(cython.longlong, -(2**41))
_SEED = cython.declare(cython.ulonglong, int.from_bytes(os.urandom(8), "big"))
_SECRET = cython.declare(cython.ulonglong, int.from_bytes(os.urandom(8), "big") | 1)
_ASKED = cython.declare(cython.longlong, -2)  # no verdict yet


def _table_fits(numbers):
    """Return whether a table of this many numbers has a power of two of slots."""
    slots: cython.longlong = numbers // 3
    return slots > 0 and numbers == 3 * slots and slots & (slots - 1) == 0


def _verdict(p, at, n, table, mask, arena, arena_size, closed):
    """Return the table's verdict on the text p[at:at + n]."""
    spot: cython.longlong = seeded_hash(p, at, n, 0, _SEED, _SECRET) & mask
    _tries: cython.longlong
    for _tries in range(mask + 1):
        start: cython.longlong = table[3 * spot]
        size: cython.longlong = table[3 * spot + 1]
        if size < 0:
            break
        if size == n and 0 <= start and start <= arena_size - n and same_bytes(p, at, arena, start, n):
            return table[3 * spot + 2]
        spot = (spot + 1) & mask
    return -1 if closed else _ASKED


def _queue_wanted(queue, offset, rules, rule, end):
    """Return whether the list of rules from rules[rule] on wants this queue and offset."""
    while rule + 3 <= end and rules[rule] != _END:
        if rules[rule] == queue or rules[rule] == _ANY_QUEUE:
            return rules[rule + 1] <= offset and offset < rules[rule + 2]
        rule += 3
    return False


def slot_of(text: cython.const[cython.uchar][::1], slots: cython.longlong):
    """Return the first slot, of `slots`, that may hold a text."""
    return seeded_hash(bytes_of(text), 0, len(text), 0, _SEED, _SECRET) & (slots - 1)


def select(
    data: cython.const[cython.uchar][::1],
    positions: cython.longlong[::1],
    read: cython.longlong,
    kept: cython.longlong,
    count: cython.longlong,
    query: cython.longlong[::1],
    topics: cython.longlong[::1],
    topic_arena: cython.const[cython.uchar][::1],
    rules: cython.longlong[::1],
    tags: cython.longlong[::1],
    tag_arena: cython.const[cython.uchar][::1],
):
    """Move the positions of wanted records to the front.

    Args:
        data: bytes that hold the records.
        positions: position of each record in data; positions[:kept] are wanted already, [read:count] are examined.
        read, kept, count: see positions; first 0, 0 and all, then the results of the previous call.
        query: QUERY numbers, columns above.
        topics, topic_arena: the table of topics and its texts.
        rules: lists of queue rules.
        tags, tag_arena: the table of tags and its texts.

    Returns:
        (read, kept, why): DONE; TOPIC if the table lacks the topic of the record at positions[read]; TAG if the caller
        must judge that record's tag, keep it or not, and continue after it.

    Raises:
        ValueError: a position holds no record within data, or a number does not fit its array.
    """
    if kept < 0 or read < kept or count < read or count > len(positions) or len(query) < 4:
        raise ValueError("kept, read and count must lie within positions, in this order")
    if not _table_fits(len(topics)) or not _table_fits(len(tags)):
        raise ValueError("a table must have a power of two of slots")
    if len(topic_arena) == 0 or len(tag_arena) == 0 or len(rules) == 0:
        raise ValueError("an array that must not be empty is empty")
    if read == count:
        return read, kept, 0
    limit: cython.longlong = len(data)
    if limit == 0:
        raise ValueError("no whole record at position 0 of the buffer")
    spans = cython.declare(cython.longlong[8])
    pairs = cython.declare(cython.longlong[96])
    named = cython.declare(cython.longlong[6])
    p, at, asked, topic_table = bytes_of(data), longs_of(positions), longs_of(query), longs_of(topics)
    topic_texts, tag_table, tag_texts = bytes_of(topic_arena), longs_of(tags), bytes_of(tag_arena)
    queues = longs_of(rules)
    topic_mask: cython.longlong = len(topics) // 3 - 1
    topic_size: cython.longlong = len(topic_arena)
    tag_mask: cython.longlong = len(tags) // 3 - 1
    tag_size: cython.longlong = len(tag_arena)
    rules_end: cython.longlong = len(rules)
    why: cython.int = 0
    lost: cython.longlong = -1
    last: cython.longlong = 0
    last_size: cython.longlong = -1
    verdict: cython.longlong = 0
    with cython.nogil:
        while read < count:
            if locate(p, limit, at, read, 1, spans) == 0:
                lost = read
                break
            time: cython.longlong = i64be(p, spans[SPAN_BORN] + 56)
            wanted: cython.bint = asked[_SINCE] <= time and time <= asked[_UNTIL]
            if wanted and asked[_TOPICS]:
                size: cython.longlong = spans[SPAN_TOPIC_END] - spans[SPAN_TOPIC]
                if size != last_size or not same_bytes(p, spans[SPAN_TOPIC], p, last, size):
                    verdict = _verdict(
                        p,
                        spans[SPAN_TOPIC],
                        size,
                        topic_table,
                        topic_mask,
                        topic_texts,
                        topic_size,
                        asked[_TOPICS] == 2,
                    )
                    if verdict == _ASKED:
                        why = 1
                        break
                    last = spans[SPAN_TOPIC]
                    last_size = size
                wanted = verdict >= 0 and _queue_wanted(
                    i32be(p, spans[SPAN_RECORD] + 12), i64be(p, spans[SPAN_RECORD] + 20), queues, verdict, rules_end
                )
            if wanted and asked[_TAGS]:
                if split(p, spans[SPAN_TOPIC_END] + 2, spans[SPAN_END], limit, pairs, named, 0) < 0:
                    why = 2
                    break
                size = named[NAMED_TAGS_END] - named[NAMED_TAGS]
                wanted = (
                    size > 0
                    and _verdict(p, named[NAMED_TAGS], size, tag_table, tag_mask, tag_texts, tag_size, True) >= 0
                )
            if wanted:
                at[kept] = at[read]
                kept += 1
            read += 1
    if lost >= 0:
        raise ValueError(f"no whole record at position {positions[lost]} of the buffer")
    return read, kept, why
