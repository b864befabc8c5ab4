"""Writes metrics as Prometheus text, and declares all of them.

The text is written here, because prometheus_client takes four times as long for 50,000 lines (1.1 s, 0.26 s) and would
be one more package on a broker's machine; tests read the text back with its parser.

Names that begin with `rocketmq_` are those of RocketMQ 5 (DefaultStoreMetricsConstant, BrokerMetricsConstant), with its
units and labels; `flintmq_` those that RocketMQ has not.
"""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text."""

STORE_METRICS = {
    "rocketmq_storage_size": "Bytes in use on the file system of the store, by whatever files.",
    "rocketmq_storage_flush_behind_bytes": "Bytes of the log that are not known to be on disk.",
    "rocketmq_storage_dispatch_behind_bytes": "Bytes of the log after the last message that its queue has.",
    "rocketmq_storage_message_reserve_time": "Age of the oldest message of the log in milliseconds.",
    "rocketmq_topic_number": "Topics in config/topics.json.",
    "rocketmq_consumer_group_number": "Groups in config/subscriptionGroup.json.",
    "rocketmq_consumer_lag_messages": "Messages after a group's committed offset.",
    "rocketmq_consumer_lag_latency": "Age of the group's oldest message not consumed, in milliseconds; else 0.",
    "flintmq_group_offsets_outside": "Queues whose committed offset of the group is after their end, or negative.",
    "flintmq_group_queue_lag_messages": "Messages of a queue after a group's committed offset (--queue-lag).",
    "flintmq_group_queues_left_out": "Queues with lag that the limit of --queue-lag leaves out.",
    "flintmq_store_up": "1 if the store could be read, else 0.",
    "flintmq_store_clean": "1 if the store stopped cleanly; 0 too while it runs.",
    "flintmq_store_live": "1 while a process writes the store.",
    "flintmq_store_look_seconds": "Time that this look at the store took.",
    "flintmq_store_notes": "What `flintmq inspect` notes of the store, by code.",
    "flintmq_timer_waiting": "Messages that wait for a timer; not there if damage hides how many.",
    "flintmq_transaction_unsettled": "Half messages neither committed nor rolled back (at most so many); likewise.",
    "flintmq_log_damaged": "1 if log files are missing, or the log's end is damage or unordered write-back.",
    "flintmq_log_begin_offset": "Log offset of the first byte.",
    "flintmq_log_end_offset": "Log offset after the last record.",
    "flintmq_follower_connected": "Of a copy: 1 while a follower keeps it and the master answers, else 0.",
    "flintmq_follower_lag_seconds": "Of a copy: time for which it may lack messages of its master; 0 if it has all.",
    "flintmq_follower_behind_bytes": "Of a copy: bytes of the master's log that it lacks, if that is known.",
    "flintmq_follower_last_contact_timestamp_seconds": "Of a copy: Unix time at which the master last sent a byte.",
    "flintmq_topic_messages": "Messages of a topic that can be read.",
    "flintmq_topic_queues": "Queues of a topic.",
    "flintmq_topic_largest_queue_messages": "Messages of the topic's largest queue.",
    "flintmq_topic_largest_queue_share": "Share of the topic's messages in its largest queue, above 0 to 1.",
    "flintmq_disk_used_ratio": "Used part of the fuller disk, of log and queues, as retention counts it.",
    "flintmq_retention_next_deletion_timestamp_seconds": "Unix time at which retention next deletes files of the log.",
    "flintmq_retention_next_deletion_bytes": "Bytes of the log that it then deletes.",
    "flintmq_retention_unread_messages": "Messages that go then and that the group has not consumed.",
    "flintmq_retention_unread_unknown": "1 if what groups have consumed of what goes then is not known, else 0.",
    "flintmq_retention_ungrouped_messages": "Messages that go then, of topics for which no group has an offset.",
}
"""Name -> help of the metrics of a store's directory; all are gauges."""

ENGINE_METRICS = {
    "rocketmq_storage_flush_behind_bytes": "Bytes that were put and are not on disk.",
    "rocketmq_storage_dispatch_behind_bytes": "Bytes that were confirmed and are not in queues and index.",
    "rocketmq_messages_in_total": "Messages that were put.",
    "rocketmq_throughput_in_total": "Bytes of log that puts filled.",
    "rocketmq_messages_out_total": "Messages that gets returned.",
    "flintmq_puts_total": "Puts by duration, in RocketMQ's steps.",
    "flintmq_puts_refused_total": "Puts answered with another status than PUT_OK.",
    "flintmq_gets_total": "Gets, by whether they returned messages.",
    "flintmq_put_longest_in_lock_seconds": "The longest time that one put delayed all others.",
    "flintmq_commit_behind_bytes": "Bytes that were put and are in no file yet (transient pool).",
    "flintmq_log_bytes": "Bytes between the first and the last byte of the log.",
    "flintmq_pool_buffers_free": "Buffers of the transient pool that may be borrowed.",
    "flintmq_process_memory_bytes": "Memory of the process without mapped files.",
    "flintmq_mapped_bytes": "Memory of the process in mapped files.",
    "flintmq_open_seconds": "Time since the store was opened.",
    "flintmq_listener_followers": "Followers that are connected to the store.",
    "flintmq_listener_unsent_bytes": "Bytes of the log that a follower was not sent yet.",
    "flintmq_listener_unacknowledged_bytes": "Bytes of the log that a follower has not reported; a tap reports none.",
}
"""Name -> help of the metrics of an open MessageStore; those that end with _total are counters."""

BROKER_METRICS = {
    "rocketmq_broker_permission": "Permissions of clients: 6 to read and write, 4 to read.",
    "rocketmq_topic_number": "Topics, with those of the broker that nobody has made.",
    "rocketmq_consumer_group_number": "Consumer groups of the store; of one that is only read also those that came.",
    "rocketmq_messages_out_total": "Messages that a group got of a topic.",
    "rocketmq_throughput_out_total": "Bytes of the messages that a group got of a topic.",
    "rocketmq_send_to_dlq_messages_total": "Messages that were put to a group's dead letters.",
    "rocketmq_producer_connections": "Connections of producers, each once for each of its groups.",
    "rocketmq_consumer_connections": "Members of a consumer group.",
    "rocketmq_consumer_lag_messages": "Messages after a group's committed offset; of one that pops, not acknowledged.",
    "rocketmq_consumer_lag_latency": "Age of the group's oldest message not consumed, in milliseconds; else 0.",
    "rocketmq_consumer_inflight_messages": "Messages that a group popped and has not acknowledged yet.",
    "rocketmq_consumer_ready_messages": "Messages that a group has not popped yet.",
    "flintmq_broker_connections": "Connections of clients.",
    "flintmq_broker_held": "Pulls and pops that wait for messages.",
    "flintmq_broker_accepted_total": "Connections that were accepted.",
    "flintmq_broker_broken_total": "Connections that were closed because they broke a rule, or were silent.",
    "flintmq_broker_failed_total": "Requests that met an error, which the log tells.",
    "flintmq_broker_unsupported_total": "Requests of a code, or calls of gRPC, that are not known here.",
    "flintmq_broker_left_out": "Samples that the limit of this page leaves out.",
}
"""Name -> help of what a broker adds to the metrics of its store, or has in their place."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Page:
    """The samples of declared metrics.

    Args:
        metrics: name -> help.
        most: samples of one metric; None: any number.

    Attributes:
        left_out: how many samples were more than that.
    """

    def __init__(self, metrics: Mapping[str, str], most: int | None = None) -> None:
        self._metrics, self._most, self.left_out = metrics, most, 0
        self._lines: dict[str, list[str]] = {name: [] for name in metrics}

    def add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add a sample of a declared metric. The labels' values may be any text, from a hostile file too."""
        if len(self._lines[name]) == self._most:
            self.left_out += 1
            return
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        self._lines[name].append(f"{name}{{{shown}}} {value!r}\n")

    def text(self) -> str:
        """Return the whole text; a metric without samples is left out."""
        parts: list[str] = []
        for name, lines in self._lines.items():
            if lines:
                kind = "counter" if name.endswith("_total") else "gauge"
                parts += (f"# HELP {name} {self._metrics[name]}\n# TYPE {name} {kind}\n", *lines)
        return "".join(parts)


def _escaped(text: str) -> str:
    """Return a label's value between its quotes.

    A control character, and a byte of a directory's name that is not UTF-8, becomes its escape in Python, because the
    text may go to a terminal and must be UTF-8; a line feed has an escape of the format. A backslash is doubled: no two
    names may come out alike.
    """
    text = text.replace("\\", r"\\")
    if not text.isprintable():
        parts = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
        text = "".join(parts)
    return text.translate(_ESCAPES)
