"""Names topics of groups, for their retries and dead letters, and RocketMQ's own topics.

Upstream: MixAll.getRetryTopic, MixAll.getDLQTopic, MixAll.getReplyTopic, TopicValidator.
"""

from __future__ import annotations

import re
from typing import Final

from flintmq.format.consume_queue import SCHEDULE_TOPIC

RETRY: Final = "%RETRY%"
DEAD: Final = "%DLQ%"
OF_GROUPS: Final = (RETRY, DEAD)
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"  # messages of transactions that have not ended, in queue 0
OUTCOME_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # queue offsets of those that have, likewise
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"  # those whose senders never said how they end
LEGAL_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")  # of topics and groups; upstream: TopicValidator
GROUP_MAX: Final = 255  # letters of a group; upstream: Validators.CHARACTER_MAX_LENGTH
OWN_GROUPS: Final = "CID_RMQ_SYS_"  # groups of RocketMQ itself begin so; upstream: MixAll.CID_RMQ_SYS_PREFIX
HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"  # its offsets say up to where both queues are done
SYSTEM_TOPICS: Final = frozenset({
    SCHEDULE_TOPIC, "TBW102", "BenchmarkTest", HALF_TOPIC, "RMQ_SYS_TRACE_TOPIC", OUTCOME_TOPIC, GIVEN_UP_TOPIC,
    "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC",
})  # fmt: skip
"""Upstream: TopicValidator.SYSTEM_TOPIC_SET; besides, names with its prefix rmq_sys_."""


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith("rmq_sys_")


def reply_topic(cluster: str) -> str:
    """Return the topic of replies to the requests of clients."""
    return f"{cluster}_REPLY_TOPIC"


def retry_topic(group: str) -> str:
    """Return the topic of messages that consumers of a group gave back."""
    return RETRY + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of messages that a group gave up."""
    return DEAD + group
