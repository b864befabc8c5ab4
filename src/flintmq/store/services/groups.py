"""Keeps the consumer groups of a store in config/subscriptionGroup.json.

A group is made by its first offset, as a broker makes it by its first consumer, or beforehand with settings of its own.
Fields of the file that are not among those are kept. Page: docs/internals/format/config.md. Upstream:
SubscriptionGroupManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import has_lone_surrogate
from flintmq.store import arguments
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.layout.kept_members import KeptMembers

TABLE = "subscriptionGroupTable"
FORBIDDEN = "forbiddenTable"
LARGEST = (1 << 31) - 1

# Field of GroupSettings -> member in the file.
_NAMES: Final = {
    "consume_enable": "consumeEnable",
    "consume_from_min_enable": "consumeFromMinEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "consume_orderly": "consumeMessageOrderly",
    "retry_queues": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
    "consume_timeout_minutes": "consumeTimeoutMinute",
    "notify_ids_changed": "notifyConsumerIdsChangedEnable",
    "attributes": "attributes",
}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a consumer group, as RocketMQ's SubscriptionGroupConfig.

    A broker acts on them. The store keeps them; its own consumers look at `retry_queues` and `retry_max_times`.

    Args:
        consume_enable: whether its consumers get messages.
        consume_from_min_enable: whether a group without offsets may begin at the smallest offset of a queue.
        consume_broadcast_enable: whether its consumers may ask for all messages each.
        consume_orderly: whether messages of a queue are given one after the other when they are popped.
        retry_queues: number of queues of the group's retry topic.
        retry_max_times: how often a refused message is given again; then it goes to the group's dead letters.
        consume_timeout_minutes: how long a push consumer may work at a message.
        notify_ids_changed: whether members are notified when others come and go.
        attributes: RocketMQ's, such as lite.bind.topic.
    """

    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    consume_timeout_minutes: int = 15
    notify_ids_changed: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse switches of another type.

        Raises:
            TypeError: one is neither True nor False.
        """
        arguments.flags(**{
            one.name: getattr(self, one.name) for one in fields(self) if isinstance(one.default, bool)
        })  # fmt: skip

    @classmethod
    def of(cls, value: Mapping[Any, Any]) -> GroupSettings:
        """Read a group's member of subscriptionGroup.json.

        What it lacks, or has of another type, has its default.
        """
        read: dict[str, Any] = {}
        for name, key in _NAMES.items():
            found = value.get(key)
            if name == "attributes":
                pairs = found.items() if isinstance(found, dict) else ()
                read[name] = {str(one): text for one, text in pairs if isinstance(text, str)}
            elif isinstance(found, bool) == isinstance(getattr(_DEFAULTS, name), bool):
                number = found if isinstance(found, bool) else config_json.integer(found)
                read |= {} if number is None else {name: number}
        return cls(**read)

    def members(self) -> JsonObject:
        """Return the members that a group has of them in subscriptionGroup.json."""
        found: JsonObject = {key: getattr(self, name) for name, key in _NAMES.items()}
        found["attributes"] = dict(sorted(self.attributes.items()))
        return found

    def check(self, group: str) -> None:
        """Raise UsageError for a number that RocketMQ does not write, TypeError for a type."""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(getattr(_DEFAULTS, one.name), bool):
                arguments.flags(**{one.name: value})
            elif one.name != "attributes" and not -1 <= arguments.number(one.name, value) <= LARGEST:
                raise UsageError(f"group {group!a}: {one.name}={value}; give a number from -1 to 2^31 - 1")
        check_attributes(f"group {group!a}", self.attributes)


_DEFAULTS: Final = GroupSettings()


def check_attributes(owner: str, attributes: Mapping[str, str]) -> None:
    """Raise UsageError or TypeError for what cannot be attributes of a topic or a group."""
    for key, text in attributes.items():
        arguments.texts(**{"the name of an attribute": key, f"attribute {key!a:.100}": text})
        if not key or has_lone_surrogate(key) or has_lone_surrogate(text):
            raise UsageError(f"{owner}: attribute {key[:100]!a} is no Unicode text, or has no name")


class Groups:
    """The table of consumer groups. Thread: any."""

    def __init__(self, file: ConfigFile) -> None:
        self.file = file
        self._members = KeptMembers(file, TABLE, lambda _, found: GroupSettings.of(found))

    def settings(self, group: str) -> GroupSettings | None:
        """Return the settings of a group, which a broker asks for with each pull."""
        return self._members.get(group)

    def all_settings(self) -> dict[str, GroupSettings]:
        with self.file.lock:
            return self._all()

    def _all(self) -> dict[str, GroupSettings]:
        table = self.file.table(TABLE)
        return {str(name): GroupSettings.of(one) for name, one in table.items() if isinstance(one, dict)}

    def know(self, group: str) -> None:
        """Make a group with the default settings, unless it is there."""
        if self._members.get(group) is not None:
            return
        with self.file.lock:
            table = self.file.table(TABLE)
            if not isinstance(table.get(group), dict):
                table[group] = new_group(group)
                self.file.mark_changed()

    def create(self, group: str, settings: GroupSettings) -> None:
        """Make a group, or replace its settings."""
        settings.check(group)
        with self.file.lock:
            table = self.file.table(TABLE)
            found = table.get(group)
            if not isinstance(found, dict):
                found = table[group] = new_group(group)
            found.update(settings.members())
            self.file.mark_changed()

    def remove(self, group: str) -> None:
        """Remove a group's settings, if there are any, and what it was forbidden to read."""
        with self.file.lock:
            gone = self.file.table(TABLE).pop(group, None), self.file.table(FORBIDDEN).pop(group, None)
            if gone != (None, None):
                self.file.mark_changed()


def new_group(group: str) -> JsonObject:
    """Return a new group's settings: upstream's defaults, fields in its order."""
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": group,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
