"""Finds rows that a store would refuse, before the first row is put.

A store answers each put separately, so a refusal in the middle would leave the rows before it stored. Therefore jobs
that put rows in order check all of them first, by the rules of the store itself (`store/append/checks.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy
import pyarrow as pa

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError, UsageError
from flintmq.format.message_id import parse_host
from flintmq.format.record import BLANK_SIZE, CRC_PROPERTY_SIZE, MAX_PROPERTIES, TRANSACTION_PREPARED
from flintmq.format.start_fields import MARKS, TIMER_TOPIC
from flintmq.format.text import java_encode
from flintmq.message import Message, PutRule
from flintmq.spark.jobs.replay.exactly_once import messages_of
from flintmq.spark.jobs.replay.rows import Records, RowRules, incomplete, messages
from flintmq.storage.files.filesystem import REAL
from flintmq.store.append import multi_queue
from flintmq.store.append.checks import message_rule, record_size, start_rule, topic_status
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.layout import directories
from flintmq.store.layout.given_sizes import refuse_other_sizes
from flintmq.store.layout.store_config import batch_topics

REFUSED = "refused_messages"  # key in the counts of rows that are left out
_HOST = bytes(8)  # the store's own, and that of a message without one


def target_config(root: str, config: StoreConfig) -> StoreConfig:
    """Return the configuration with which a store at `root` would be opened.

    The size of log files is that of the existing files.
    """
    refuse_other_sizes(root, config, REAL)  # before anything is staged there
    places = [place.path for place in directories.log_directories(root, config) if place.writable]
    files = LogFiles.discover(places) if any(REAL.is_dir(place) for place in places) else None
    if files is not None and files.files and files.file_size and "mappedFileSizeCommitLog" not in config.given:
        return config.with_keys({"mappedFileSizeCommitLog": files.file_size})
    return config


def batches_of(root: str) -> frozenset[str]:
    """Return the topics of a store that take inner batches; none if the store does not exist."""
    return frozenset(batch_topics(root, REAL)) if REAL.is_dir(root) else frozenset()


def why_refused(message: Message, config: StoreConfig, inner_topics: Collection[str] = ()) -> str:
    """Return why a store would refuse this message, in words; empty if it accepts it.

    It may still refuse a message for LMQs, whose record is larger by queue offsets that are not known before.

    `message`: has its property string.
    """
    topic, properties = java_encode(message.topic), message.properties_bytes or b""
    if topic_status(message.topic, topic) is not None:
        return f"its topic ({len(topic)} bytes) cannot be a directory's name; give 1 to 127 bytes (%RETRY%, %DLQ%: 255)"
    if b"\0" in properties:
        return "its properties contain a byte 0"
    try:
        host = parse_host(message.born_host) if message.born_host is not None else _HOST
    except FormatError as error:
        return f"its born host is not valid ({error.reason})"
    if message.queue_id < 0:
        return "its queue id is negative"
    if len(message.body) > config.max_message_size:
        return f"its body has {len(message.body)} bytes, and maxMessageSize is {config.max_message_size}"
    rule = message_rule(message, properties, config)
    if rule is not None:
        which = f"queue id ({message.queue_id}) or properties ({len(properties)} bytes)"
        return f"{rule.status.name}: its {which} cannot be"
    if message.sys_flag & TRANSACTION_PREPARED:
        return "its sys_flag is that of a prepared or rolled-back transaction record"
    if multi_queue.is_wrong_inner_batch(message, properties, message.topic in inner_topics):
        return "it is an inner batch by its sys_flag or by INNER_NUM, but not by both, or its topic takes none"
    if multi_queue.are_wrong_lmqs(multi_queue.lmq_names(message, properties, config), config):
        return "INNER_MULTI_DISPATCH names queues that cannot be"
    if start_rule(message.topic, properties) is not None:
        return f"{PutRule.START_FIELD}"
    added = CRC_PROPERTY_SIZE if config.enabled_append_prop_crc else 0
    if len(properties) + added > MAX_PROPERTIES:
        return f"its properties have {len(properties)} bytes, and {MAX_PROPERTIES - added} are the most"
    size, most = record_size(message.body, topic, properties, host + _HOST, config), config.mapped_file_size_commit_log
    if size > most - BLANK_SIZE:
        return f"its record of {size} bytes does not fit into a log file of {most} bytes"
    return ""


def refused(rows: pa.RecordBatch, rules: RowRules) -> list[tuple[int, str]]:
    if rules.puts is None:
        records = Records(rows)
        sizes, properties = records.sizes(rules)
        return [
            (row, f"makes a record of {sizes[row]} bytes with {properties[row]} of properties, and {rules.largest} and "
             f"{rules.most_properties} are the most; set maxMessageSize or mappedFileSizeCommitLog higher")
            for row in numpy.flatnonzero((sizes > rules.largest) | (properties > rules.most_properties)).tolist()
        ] + _start_fields(rows, records)  # fmt: skip
    found = (
        (row, why_refused(message, rules.puts, rules.inner_topics)) for row, message in enumerate(messages_of(rows))
    )
    return [(row, why) for row, why in found if why]


def _start_fields(rows: pa.RecordBatch, records: Records) -> list[tuple[int, str]]:
    """Return the rows that a start of RocketMQ could not bear."""
    data, begins, ends = records.properties
    texts, topics = bytes(data), [str(topic) for topic in rows.column("topic").to_pylist()]
    if TIMER_TOPIC not in topics and not any(mark in texts for mark in MARKS):  # mostly
        return []
    found = ((row, start_rule(topics[row], texts[begins[row] : ends[row]])) for row in range(rows.num_rows))
    return [(row, str(rule)) for row, rule in found if rule is not None]


def checked(batch: pa.RecordBatch, rules: RowRules, left_out: Counter[str]) -> pa.RecordBatch:
    """Return the rows that are messages and can be written, in their order."""
    rows = messages(batch, rules, left_out)
    rows = _without(rows, incomplete(rows), rules, left_out)
    return _without(rows, refused(rows, rules), rules, left_out)


def _without(
    rows: pa.RecordBatch, found: list[tuple[int, str]], rules: RowRules, left_out: Counter[str]
) -> pa.RecordBatch:
    """Leave out the rows that were found, and count them; or refuse the first, as `checked`."""
    if not found:
        return rows
    if not rules.skip_refused:
        row, why = found[0]
        raise UsageError(
            f"{place(rows, row)}: {why}; nothing was put: fix that, or leave such messages out (--skip-refused)"
        )
    left_out[REFUSED] += len(found)
    keep = numpy.ones(rows.num_rows, bool)
    keep[[row for row, _ in found]] = False
    return rows.filter(pa.array(keep))


def place(rows: pa.RecordBatch, row: int) -> str:
    """Describe the message of a row for errors: its topic, queue and offset in the source."""
    topic, queue_id, offset = (rows.column(name)[row].as_py() for name in ("topic", "queue_id", "queue_offset"))
    return f"topic {topic!a:.100}, queue {queue_id}, offset {offset} of the source"
