"""Names topics of groups, for their retries and dead letters, and RocketMQ's own topics.

Upstream: MixAll.getRetryTopic, MixAll.getDLQTopic, TopicValidator.
"""

from __future__ import annotations

from typing import Final

from flintmq.format.consume_queue import SCHEDULE_TOPIC

RETRY: Final = "%RETRY%"
DEAD: Final = "%DLQ%"
OF_GROUPS: Final = (RETRY, DEAD)
SYSTEM_TOPICS: Final = frozenset({
    SCHEDULE_TOPIC, "TBW102", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
})  # fmt: skip
"""Upstream: TopicValidator.SYSTEM_TOPIC_SET; besides, names with its prefix rmq_sys_."""


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith("rmq_sys_")


def retry_topic(group: str) -> str:
    """Return the topic of messages that consumers of a group gave back."""
    return RETRY + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of messages that a group gave up."""
    return DEAD + group
