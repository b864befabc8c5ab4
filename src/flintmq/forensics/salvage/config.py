"""Carries over the usable parts of config/ into a salvaged store, with translated offsets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flintmq.forensics.salvage.queues import Emit
from flintmq.forensics.verify.small_files import JSON_NAME
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.store.layout import config_reader, directories
from flintmq.store.layout.config_reader import TABLES, ConfigReader
from flintmq.store.services.consumer_offsets import LIGHT_OFFSETS, OFFSETS

Translate = Callable[[str, int, int], int]
"""(topic, queue id, old queue offset) -> new queue offset."""

# Files whose offsets have no meaning in the new store, with the consequence of leaving each out.
LEFT_OUT = {
    "consumerOrderInfo.json": "names messages in the hands of ordered consumers; they get them again",
    "timercheck": "says how far the old timer log was read; RocketMQ recreates wheel and log from the timer topic",
}


def carry_config(root: str, into: str, translate: Translate, peer: str, effects: Effects, emit: Emit) -> int:
    """Write the configuration of a store for a new one; return how many files are lost."""
    folder, out = os.path.join(root, directories.CONFIG), os.path.join(into, directories.CONFIG)
    effects.mkdirs(out)
    lost = 0
    for name in sorted({name.removesuffix(".bak") for name in effects.listdir(folder)}):
        if name in LEFT_OUT:
            emit({"kind": "config", "file": name, "what": "left out", "why": LEFT_OUT[name]})
            continue
        if not JSON_NAME.fullmatch(name):
            emit({"kind": "config", "file": name, "what": "left out", "why": "not a file that RocketMQ reads there"})
            continue
        value, source = usable(folder, name, effects)
        if value is None:
            lost += 1
            emit({"kind": "config", "file": name, "what": "lost", "why": "neither it nor its .bak can be read"})
            continue
        changed = translate_offsets(name, value, translate, emit)
        raw = effects.read_file(os.path.join(folder, source), config_json.MAX_BYTES)
        data = config_json.write(value, peer) if changed or raw is None else raw
        replace_file(os.path.join(out, name), data, effects)
        emit({"kind": "config", "file": name, "what": "translated" if changed else "carried over", "from": source})
    return lost


def usable(folder: str, name: str, effects: Effects) -> tuple[JsonObject | None, str]:
    """Return a configuration file's content and its source: the file itself or its `.bak`.

    The content is None if neither can be used.
    """
    for source in (name, f"{name}.bak"):
        reader = ConfigReader(folder, effects)
        value, _ = reader.parse(source)
        if value is not None and _has_tables(name, value):
            return value, source
    return None, name


def _has_tables(name: str, value: JsonObject) -> bool:
    wanted = TABLES.get(name, ())
    present = all(isinstance(value[table], dict) for table in wanted if table in value)
    return present and (not wanted or wanted[0] in value) and _topics_are_objects(name, value)


def _topics_are_objects(name: str, value: JsonObject) -> bool:
    return name != config_reader.TOPICS or all(isinstance(e, dict) for e in value[TABLES[name][0]].values())


def translate_offsets(name: str, value: JsonObject, translate: Translate, emit: Emit) -> bool:
    """Translate the queue offsets in a file's tables, in place; return whether any changed."""
    changed = False

    def put(table: JsonObject, key: str | int, owner: str, topic: str, queue_id: int) -> None:
        nonlocal changed
        old = config_json.integer(table[key])
        new = 0 if old is None else translate(topic, queue_id, old)
        if new != old:
            changed = True
            table[key] = new
            emit({"kind": "offset", "of": owner, "topic": topic, "queue_id": queue_id, "old": old, "new": new})

    if name in (config_reader.OFFSETS, config_reader.LMQ_OFFSETS):
        for key, queues in _tables(value.get(OFFSETS)):
            for queue_id in list(queues):
                if (number := config_json.integer(queue_id)) is not None:
                    put(queues, queue_id, _group(key), _topic(key), number)
        light_offsets = _table(value.get(LIGHT_OFFSETS))
        for pair in list(light_offsets):
            put(light_offsets, pair, _group(str(pair)), _topic(str(pair)), 0)
    elif name == config_reader.DELAYS:
        levels = _table(value.get(OFFSETS))
        for level in list(levels):
            if (number := config_json.integer(level)) is not None:
                put(levels, level, f"delay level {number}", SCHEDULE_TOPIC, number - 1)
    return changed


def _tables(value: Any) -> list[tuple[str, JsonObject]]:
    return [(str(key), table) for key, table in _table(value).items() if isinstance(table, dict)]


def _table(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _topic(key: str) -> str:
    return key.partition("@")[0]


def _group(key: str) -> str:
    return f"group {key.partition('@')[2]}"
