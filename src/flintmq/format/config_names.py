"""Meanings of the files of config/ and of their keys (docs/internals/format/config.md).

Used by that page and by the command `explain`. Upstream: TopicConfigManager, SubscriptionGroupManager,
ConsumerOffsetManager and the other ConfigManagers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FILES: Final = {
    "topics.json": "topics: their queues, permissions and attributes",
    "subscriptionGroup.json": "consumer groups and their settings",
    "consumerOffset.json": "how far each group has consumed each queue",
    "lmqConsumerOffset.json": "instead of `consumerOffset.json` with `enableLmq`; light queues beside the others",
    "delayOffset.json": "how far each delay level was delivered",
    "consumerFilter.json": "expressions of the groups, and their bits in the ext bitmaps",
    "consumerOrderInfo.json": "state of ordered pop consumption",
    "topicQueueMapping.json": "queues of static topics",
    "messageRequestMode.json": "whether groups pull or pop",
    "position-checkpoint": "in `compaction/`: how far each queue was compacted",
    "timermetrics": "statistics of the timer store",
    "transactionMetrics": "statistics of transactions",
}
"""File -> what it holds."""

KEYS: Final = {
    "dataVersion": "version of the file's content",
    "dataVersion.counter": "changes so far",
    "dataVersion.stateVersion": "version of the broker's state",
    "dataVersion.timestamp": "ms, of the last change",
    "topicConfigTable": "topic -> its settings",
    "topicConfigTable.*": "settings of this topic",
    "topicConfigTable.*.readQueueNums": "queues that are read",
    "topicConfigTable.*.writeQueueNums": "queues that are written",
    "topicConfigTable.*.perm": "bits: 1 inherit, 2 write, 4 read, 8 priority (5.4.0)",
    "topicConfigTable.*.topicFilterType": "`SINGLE_TAG` or `MULTI_TAG`",
    "topicConfigTable.*.topicName": "the topic",
    "topicConfigTable.*.topicSysFlag": "bits: 1 unit, 2 subscribed by units",
    "topicConfigTable.*.order": "ordered topic",
    "topicConfigTable.*.attributes": "attribute -> value",
    "topicConfigTable.*.attributes.queue.type": "`SimpleCQ` or `BatchCQ`",
    "topicConfigTable.*.attributes.cleanup.policy": "`DELETE` or `COMPACTION`",
    "topicConfigTable.*.attributes.message.type": "which messages it takes",
    "subscriptionGroupTable": "group -> its settings",
    "subscriptionGroupTable.*": "settings of this group",
    "subscriptionGroupTable.*.consumeEnable": "whether it may consume",
    "subscriptionGroupTable.*.retryMaxTimes": "retries before a message goes to the dead letters",
    "subscriptionGroupTable.*.retryQueueNums": "queues of its retry topic",
    "forbiddenTable": "group -> topic -> what is forbidden to it, as bits",
    "offsetTable": "`topic@group`, or a delay level -> next queue offset",
    "offsetTable.*": "next queue offset: of a delay level, or queue by queue",
    "offsetTable.*.*": "next queue offset to consume of this queue",
    "lmqOffsetTable": "`topic@group` of a light queue -> next queue offset",
    "groupTopicMap": "written, ignored on reading",
    "filterDataByTopic": "topic -> expressions of its groups",
    "table": "`topic@group` -> queue -> state of ordered consumption",
    "queueOffsetMap": "`topic_queue` -> queue offset up to which it was compacted",
    "topicQueueMappingInfoMap": "topic -> its queues on several brokers",
    "messageRequestModeMap": "topic -> group -> pull or pop",
    "timingCount": "topic -> waiting timer messages",
    "transactionCount": "topic -> open transactions",
}
"""Path of a key -> its meaning; `*` matches any name (or number) at that level."""


def meaning(path: Sequence[str | int]) -> str:
    """Return the meaning of the key at this path, empty where none is known.

    The path begins at the file's top object.
    """
    matches = [("", 0)]
    for step in map(str, path):
        # A name may hold dots itself (`queue.type`), and so may a topic, which only `*` matches.
        matches = [
            (f"{known}.{word}".lstrip("."), stars + (word == "*")) for known, stars in matches for word in (step, "*")
        ]
        matches = [one for one in matches if any(key == one[0] or key.startswith(one[0] + ".") for key in KEYS)]
    exact = sorted((stars, known) for known, stars in matches if known in KEYS)
    return KEYS[exact[0][1]] if exact else ""
