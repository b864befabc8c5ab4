"""Names of the topics that a group has for itself: its retries, and its dead letters.

Upstream: MixAll.getRetryTopic, MixAll.getDLQTopic.
"""

from __future__ import annotations

from typing import Final

RETRY: Final = "%RETRY%"
DEAD: Final = "%DLQ%"
OF_GROUPS: Final = (RETRY, DEAD)


def retry_topic(group: str) -> str:
    """Return the topic of messages that consumers of a group gave back."""
    return RETRY + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of messages that a group gave up."""
    return DEAD + group
