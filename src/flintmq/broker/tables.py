"""Answers slaves and `mqadmin`: tables of config/, the configuration, figures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from flintmq.broker.broker_keys import BrokerKeys
from flintmq.broker.clients import Clients
from flintmq.broker.offsets import with_table
from flintmq.broker.requests import Answer, Handler, Refused, Request
from flintmq.broker.routes import Routes
from flintmq.broker.served import Offsets, Served
from flintmq.config.keys import KEYS
from flintmq.format import config_json, timer
from flintmq.format.text import java_encode
from flintmq.message import StoredMessage
from flintmq.remoting.names import (
    GET_CONFIG,
    GET_CONSUME_STATS,
    GET_DELAYS,
    GET_GROUPS,
    GET_GROUPS_OF,
    GET_HA_ADDRESS,
    GET_MODES,
    GET_OFFSETS,
    GET_RUNTIME,
    GET_TIMER_CHECK,
    GET_TOPIC,
    GET_TOPIC_STATS,
    GET_TOPICS,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
)
from flintmq.storage.files.store_url import effects_for
from flintmq.store.layout import config_reader, directories, timer_files
from flintmq.store.layout.config_reader import ConfigReader
from flintmq.store.layout.file_geometry import FileGeometry
from flintmq.version import OURS

_FILES: Mapping[int, tuple[str, str]] = {
    GET_TOPICS: (config_reader.TOPICS, "topicConfigTable"),
    GET_GROUPS: (config_reader.GROUPS, "subscriptionGroupTable"),
    GET_DELAYS: (config_reader.DELAYS, "offsetTable"),
    GET_MODES: (config_reader.REQUEST_MODES, "messageRequestModeMap"),
}
"""Request -> the file that holds its answer, and the table that the answer has in any case."""


class Tables:
    """Answers what is asked of a broker as a whole. Thread: the loop's.

    Args:
        keys: of a broker that writes its store; None: it is read-only.
    """

    def __init__(
        self, served: Served, routes: Routes, clients: Clients, offsets: Offsets, keys: BrokerKeys | None
    ) -> None:
        self._served, self._routes, self._clients, self._offsets = served, routes, clients, offsets
        self._is_writable, self._makes_topics = keys is not None, keys is not None and keys.auto_create_topic
        self._began_ms = int(time.time() * 1000)
        self._folder = os.path.join(served.root, directories.CONFIG)
        self._effects = effects_for(served.root, served.config.s3)

    def handlers(self) -> dict[int, Handler]:
        return {
            **dict.fromkeys(_FILES, self.file),
            GET_OFFSETS: self.offsets,
            GET_TIMER_CHECK: self.timer_check,
            GET_CONFIG: self.config,
            GET_RUNTIME: self.runtime,
            GET_TOPIC: self.topic,
            GET_GROUPS_OF: self.groups_of,
            GET_HA_ADDRESS: self.ha_address,
            GET_TOPIC_STATS: self.topic_stats,
            GET_CONSUME_STATS: self.consume_stats,
        }

    async def file(self, request: Request) -> Answer:
        """Answer with a file of config/ as it is, whole: no pages, as RocketMQ 5.3.3."""
        name, table = _FILES[request.frame.code]
        reader = ConfigReader(self._folder, self._effects)
        found = await self._served.run(reader.load, name)
        if reader.problems and not reader.files:  # an empty table would make a follower forget its own
            raise Refused(SYSTEM_ERROR, f"{name} cannot be used: {reader.problems[0].reason}")
        told: config_json.JsonObject = {} if request.frame.code == GET_MODES else {"dataVersion": self._version(0)}
        return request.answer(body=config_json.write({**told, table: {}, **found}, "5.4.0", compact=True))

    async def offsets(self, request: Request) -> Answer:
        """Answer with the file of offsets, with what groups committed here."""
        reader = ConfigReader(self._folder, self._effects)
        found = await self._served.run(
            lambda: reader.load(config_reader.LMQ_OFFSETS) or reader.load(config_reader.OFFSETS)
        )
        version = self._version(self._offsets.changes)  # a slave of RocketMQ reads it, and wants another if it changed
        content = {"dataVersion": version, **found} if not self._offsets.has_own else {**found, "dataVersion": version}
        return request.answer(body=config_json.write(with_table(content, self._offsets.all()), "5.4.0", compact=True))

    async def timer_check(self, request: Request) -> Answer:
        """Answer with the timer's progress, from which a slave goes on once it is a master."""
        check = await self._served.run(timer_files.read_check, self._served.root, self._effects)
        return request.answer(body=timer.TIMER_CHECK.pack(check))

    def _version(self, counter: int) -> config_json.JsonObject:
        return {"counter": counter, "stateVersion": 0, "timestamp": self._began_ms}

    async def config(self, request: Request) -> Answer:
        """Answer with the configuration, a key a line: sizes as the files show, and what was given."""
        config = self._served.config
        lines = {key: _text(config.key(key)) for key in KEYS}
        shown = await self._served.run(FileGeometry.of, self._served.root, config, self._effects)
        sizes = {
            "mappedFileSizeCommitLog": self._served.log_file_size,
            "mappedFileSizeConsumeQueue": shown.queue_file,
            "mappedFileSizeConsumeQueueExt": shown.ext_file,
            "mapperFileSizeBatchConsumeQueue": shown.batch_file,
            "maxHashSlotNum": shown.slots,
            "maxIndexNum": shown.items,
        }
        lines |= {key: str(size) for key, size in sizes.items() if size}
        lines |= {
            "brokerName": self._routes.name,
            "brokerClusterName": self._routes.cluster,
            "brokerId": "0",
            "brokerRole": "ASYNC_MASTER",
            "autoCreateTopicEnable": _text(self._makes_topics),
        }
        return request.answer(body=java_encode("".join(f"{key}={value}\n" for key, value in sorted(lines.items()))))

    def runtime(self, request: Request) -> Answer:
        """Answer `mqadmin brokerStatus`, and followers: where the log begins and ends."""
        begin, end = self._served.log_bounds
        table = {
            "bootTimestamp": str(self._began_ms),
            "brokerActive": "true",
            "brokerVersion": str(request.version),
            "brokerVersionDesc": f"FlintMQ {OURS}{'' if self._is_writable else ', read-only'}",
            "commitLogMinOffset": str(begin),
            "commitLogMaxOffset": str(end),
            "dispatchBehindBytes": "0",
            **self._served.figures(),
            "runtime": f"[ {time.time() - self._began_ms / 1000:.0f} seconds ]",
        }
        return request.answer(body=_body({"table": table}))

    async def topic(self, request: Request) -> Answer:
        """Answer with settings of one topic: mqadmin of 5.5.0 asks before it asks for figures."""
        name = request.text("topic")
        facts = self._served.topic(name)
        if facts is None:
            raise Refused(TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
        table = await self._served.run(ConfigReader(self._folder, self._effects).load, config_reader.TOPICS)
        kept = table.get("topicConfigTable")
        entry = kept.get(name) if isinstance(kept, dict) else None
        settings: dict[str | int, Any] = {
            "topicName": name,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {},
            **(entry if isinstance(entry, dict) else {}),
            "readQueueNums": facts.read_queues,
            "writeQueueNums": facts.write_queues,
            "perm": facts.perm,
        }
        return request.answer(body=config_json.write(settings, "5.4.0", compact=True))

    def groups_of(self, request: Request) -> Answer:
        """Answer with the groups that have consumed a topic, or subscribe to it now."""
        topic = request.text("topic")
        committed = {group for of, group in self._offsets.all() if of == topic}
        here = {
            name
            for name, members in self._clients.groups()
            if any(topic in member.subscriptions for member in members.values())
        }
        return request.answer(body=_body({"groupList": sorted(committed | here)}))

    def ha_address(self, request: Request) -> Answer:
        raise Refused(
            SYSTEM_ERROR,
            f"{self._routes.name} gives its log to nobody; run `flintmq serve-ha` on the store, and `flintmq follow` "
            f"that, with --config-from {self._routes.address(request)}",
        )

    async def topic_stats(self, request: Request) -> Answer:
        """Answer `mqadmin topicStatus`: the bounds of each queue, and when its last message came."""
        topic = request.text("topic")
        entries = []
        for queue_id, (low, high) in self._queues(topic):
            last = await self._time(topic, queue_id, high - 1) if high > low else 0
            entries.append((queue_id, {"lastUpdateTimestamp": last, "maxOffset": high, "minOffset": low}))
        return request.answer(body=self._by_queue({"topicPutTps": 0.0}, [(topic, *entry) for entry in entries]))

    async def consume_stats(self, request: Request) -> Answer:
        """Answer `mqadmin consumerProgress`: where a group is in each queue that it consumes."""
        group, wanted = request.text("consumerGroup"), request.text("topic", "")
        entries = []
        for topic in sorted({wanted} if wanted else self._topics_of(group)):
            for queue_id, (low, high) in self._queues(topic):
                at = self._offsets.get(group, topic, queue_id)
                seen = await self._time(topic, queue_id, at - 1) if at is not None and low < at <= high else 0
                place = {"brokerOffset": high, "consumerOffset": at or 0, "lastTimestamp": seen, "pullOffset": at or 0}
                entries.append((topic, queue_id, place))
        return request.answer(body=self._by_queue({"consumeTps": 0.0}, entries))

    def _topics_of(self, group: str) -> set[str]:
        committed = {topic for topic, of in self._offsets.all() if of == group}
        members = self._clients.members(group).values()
        return committed | {topic for member in members for topic in member.subscriptions}

    def _queues(self, topic: str) -> Iterator[tuple[int, tuple[int, int]]]:
        facts = self._served.topic(topic)
        for queue_id in range(facts.read_queues if facts is not None else 0):
            yield queue_id, self._served.bounds(topic, queue_id)

    async def _time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of a message; 0 if it cannot be read."""
        found = await self._served.read(topic, queue_id, offset)
        return StoredMessage(found.data).store_timestamp if found.count else 0

    def _by_queue(self, facts: Mapping[str, Any], entries: list[tuple[str, int, dict[str, int]]]) -> bytes:
        rest = b"".join(b"," + _body(key) + b":" + _body(value) for key, value in facts.items())
        return b'{"offsetTable":' + self._routes.by_queue(entries) + rest + b"}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _body(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
