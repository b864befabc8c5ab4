"""Asks a broker for what a follower needs beside the log, and writes its tables.

That is: sizes of files, bounds of the log, topics, groups and offsets.

`fetch` asks one broker over one connection, with requests that read only, and returns everything or raises. `save`
writes tables into config/ before a store is opened; an open store gets them by `Housekeeping.follow`. A file is
replaced as a whole, and entries that the broker no longer has are gone. Java's slave only adds offsets, and can leave a
torn file (docs/internals/upstream-defects.md).

    code  what                      into
    26    configuration             -
    21    topics, in pages          topics.json
    201   groups, in pages          subscriptionGroup.json
    43    offsets of groups         consumerOffset.json, or lmqConsumerOffset.json
    45    offsets of delay levels   delayOffset.json
    402   pull or pop               messageRequestMode.json
    28    begin and end of the log  -
    30    next offset of a queue    -

Each code is answered on listenPort. 26, 28 and 402 may be missing (codes 1 and 3: an older broker, a proxy); every
other refusal ends it. Upstream: SlaveSynchronize, AdminBrokerProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import ConfigError, FormatError, ReplicationError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import java_decode, java_encode
from flintmq.ha.asking import asking
from flintmq.remoting.client import RemotingClient
from flintmq.remoting.frames import RemotingFrame
from flintmq.remoting.names import (
    GET_CONFIG,
    GET_DELAYS,
    GET_GROUPS,
    GET_MODES,
    GET_OFFSETS,
    GET_QUEUE_END,
    GET_RUNTIME,
    GET_TOPICS,
    NOT_SUPPORTED,
    SUCCESS,
    SYSTEM_ERROR,
)
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.consumequeue.queue_ends import QueueEnds
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile

log = logging.getLogger("flintmq.ha")

PAGE = 2000  # entries of a page, as a slave of 5.4.0 asks
RESTARTS = 10  # changes between pages, in one fetch
ENTRIES_MAX = 1_000_000  # topics, groups, or queues
ALL_S = 120.0  # seconds for all requests of one call: whoever answers each of them slowly must not be waited for

_KEYS = (  # of the broker: they decide how its files are laid out and what is in a queue's units
    "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "mappedFileSizeConsumeQueueExt", "enableConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue", "maxHashSlotNum", "maxIndexNum",
    "messageDelayLevel", "enableLmq", "enableMultiDispatch", "messageIndexEnable",
)  # fmt: skip
_VERSIONS = ((513, "5.5.0"), (493, "5.4.0"))  # first number of a frame's version; all before: 5.3.3
_NOT_THERE = (SYSTEM_ERROR, NOT_SUPPORTED)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    config: Mapping[str, str]  # its configuration, key to value; empty if it does not tell
    begin: int | None  # begin, end: log offsets of its first file and after its last record; None if it does not tell
    end: int | None
    tables: Mapping[str, JsonObject]  # name of a file of config/ to its content
    version: int = 0

    @property
    def peer(self) -> str:
        """The version of RocketMQ whose layout the broker writes: "5.3.3", "5.4.0" or "5.5.0"."""
        return next((peer for first, peer in _VERSIONS if self.version >= first), "5.3.3")

    @property
    def file_size(self) -> int | None:
        """Bytes of a log file; None if the broker does not tell."""
        size = self.store_keys.get("mappedFileSizeCommitLog")
        return None if size is None else int(size)

    @property
    def store_keys(self) -> dict[str, str]:
        """The keys of its configuration on which the bytes of its files depend."""
        keys = {key: self.config[key] for key in _KEYS if key in self.config}
        try:
            StoreConfig.from_keys(keys)
        except ConfigError as error:
            raise ReplicationError("config", f"the broker's configuration: {error}") from None
        return keys


def fetch(address: str, *, timeout: float = 5.0, page: int = PAGE) -> BrokerFacts:
    """Ask a broker for its configuration, its tables and the bounds of its log.

    `timeout`: seconds for each request. Thread: any.
    """
    with asking(address, timeout_s=timeout, all_s=ALL_S) as client:
        config = _config(client)
        refuse_other_kinds(address, config)
        tables = {
            config_reader.TOPICS: _in_pages(client, GET_TOPICS, "topicConfigTable", "Topic", page),
            config_reader.GROUPS: _in_pages(client, GET_GROUPS, "subscriptionGroupTable", "Group", page),
        }
        offsets = _table(client, GET_OFFSETS, "offsetTable")
        light = "lmqOffsetTable" in offsets
        tables[config_reader.LMQ_OFFSETS if light else config_reader.OFFSETS] = offsets
        tables[config_reader.DELAYS] = _table(client, GET_DELAYS, "offsetTable")
        modes = _ask_if_there(client, GET_MODES)
        if modes is not None:
            tables[config_reader.REQUEST_MODES] = _parsed(client, GET_MODES, modes, "messageRequestModeMap")
        runtime = _ask_if_there(client, GET_RUNTIME)
        begin, end = (None, None) if runtime is None else _bounds(client, runtime)
        version = client.peer_version
    for foreign in ("mappingDataVersion", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"):
        tables[config_reader.TOPICS].pop(foreign, None)  # these belong to another file
    return BrokerFacts(config, begin, end, tables, version)


def queue_ends(
    address: str, tables: Mapping[str, JsonObject], places: Iterable[tuple[bytes, int]] = (), *, timeout: float = 5.0
) -> QueueEnds | None:
    """Ask a broker where its queues go on; None: it knows request 28 or 30 not.

    They are those of its tables, and others. The smallest offset of a queue (31) is not asked for: it follows from the
    log's begin. Request 30 reads the queue on every version, and makes none that is missing. Thread: any.
    """
    wanted = sorted({*_queues_of(tables), *places})
    if len(wanted) > ENTRIES_MAX:
        raise ReplicationError("config", f"{address}: its tables have {len(wanted)} queues; {ENTRIES_MAX} are possible")
    with asking(address, timeout_s=timeout, all_s=ALL_S) as client:
        before = _ask_if_there(client, GET_RUNTIME)
        found: dict[tuple[bytes, int], int] = {}
        for topic, queue_id in wanted:
            if java_encode(name := java_decode(topic)) != topic:
                continue  # no text, so no broker can be asked for it
            answer = client.request(GET_QUEUE_END, {"topic": name, "queueId": str(queue_id)})
            if answer.code == NOT_SUPPORTED:
                return None
            end = config_json.integer(answer.fields.get("offset"))
            if answer.code != SUCCESS:
                raise client.refused(GET_QUEUE_END, answer)
            if end is None or end < 0:
                raise _wrong(client, GET_QUEUE_END, f"queue {name!a}/{queue_id} ends at {end}")
            found[topic, queue_id] = end
        after = _ask_if_there(client, GET_RUNTIME)
        if before is None or after is None:
            return None
        behind = config_json.integer(_parsed(client, GET_RUNTIME, before, "table")["table"].get("dispatchBehindBytes"))
        begin, until = _bounds(client, after)
        return QueueEnds(_bounds(client, before)[1] - max(behind or 0, 0), until, begin, found)


def _queues_of(tables: Mapping[str, JsonObject]) -> Iterator[tuple[bytes, int]]:
    """Yield (topic, queue id) of the queues that topics have, or that groups have offsets of."""
    left = ENTRIES_MAX
    for topic, entry in tables[config_reader.TOPICS]["topicConfigTable"].items():
        numbers = (entry.get("readQueueNums"), entry.get("writeQueueNums")) if isinstance(entry, dict) else ()
        count = max((config_json.integer(number) or 0 for number in numbers), default=0)
        left -= count
        if left >= 0:  # else the caller says that they are too many
            yield from ((java_encode(str(topic)), queue_id) for queue_id in range(count))
        else:
            yield from ((b"", number) for number in range(ENTRIES_MAX + 1))
            return
    for name in (config_reader.OFFSETS, config_reader.LMQ_OFFSETS):
        for table, light in (("offsetTable", False), ("lmqOffsetTable", True)):
            for key, queues in (tables.get(name, {}).get(table) or {}).items():
                topic = java_encode(str(key).partition("@")[0])
                if light:
                    yield topic, 0
                elif isinstance(queues, dict):
                    ids = (config_json.integer(number) for number in queues)
                    yield from ((topic, number) for number in ids if number is not None and number >= 0)


def save(root: str, tables: Mapping[str, JsonObject], effects: Effects = REAL, peer: str = "5.3.3") -> list[str]:
    """Write tables into the config/ of a store that is not open; see `ConfigFile.replace`.

    Durability: on return. Raises OSError: the disk refused; each file is the old one or the new one.
    """
    effects.mkdirs(root)
    lock = effects.lock_store(root)
    try:
        return [name for name, value in tables.items() if ConfigFile(root, name, (), effects, peer).replace(value)]
    finally:
        lock.release()


def refuse_other_kinds(address: str, config: Mapping[str, str]) -> None:
    """Refuse a broker that replicates in another way, or whose queues are elsewhere."""
    if config.get("enableControllerMode") == "true":
        raise ReplicationError(
            "config", f"{address}: runs in controller mode, whose replication FlintMQ does not speak"
        )
    if config.get("enableDLegerCommitLog") == "true":
        raise ReplicationError("config", f"{address}: has a DLedger log, which FlintMQ does not follow")
    if "rocksdb" in config.get("storeType", "").lower():
        raise ReplicationError("config", f"{address}: keeps its queues in RocksDB, which FlintMQ does not read")


def _config(client: RemotingClient) -> dict[str, str]:
    answer = _ask_if_there(client, GET_CONFIG)
    lines = [] if answer is None else java_decode(answer.body).splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def _bounds(client: RemotingClient, answer: RemotingFrame) -> tuple[int, int]:
    table = _parsed(client, GET_RUNTIME, answer, "table")["table"]
    begin, end = (config_json.integer(table.get(name)) for name in ("commitLogMinOffset", "commitLogMaxOffset"))
    if begin is None or end is None or not -1 <= begin <= end:
        raise _wrong(client, GET_RUNTIME, f"a log from {begin} to {end}")
    return max(begin, 0), end  # a broker without a file says -1


def _ask_if_there(client: RemotingClient, code: int) -> RemotingFrame | None:
    answer = client.request(code)
    if answer.code == SUCCESS:
        return answer
    if answer.code not in _NOT_THERE:
        raise client.refused(code, answer)
    log.warning("%s; going on without", client.refusal(code, answer))
    return None


def _table(client: RemotingClient, code: int, name: str) -> JsonObject:
    return _parsed(client, code, client.ask(code), name)


def _in_pages(client: RemotingClient, code: int, name: str, what: str, page: int) -> JsonObject:
    """Ask for a table in pages, and from the first page again if it changes in between.

    A broker that knows no pages gives all, and no total. One that does begins again by itself if the data version it is
    given is not its own.
    """
    for _ in range(RESTARTS):
        whole: JsonObject = {}
        version: Any = None
        size = 0
        while True:
            held: JsonObject = whole.get(name, {})
            asked = config_json.write(version, "5.4.0", compact=True).decode() if version else ""
            fields = {f"{what.lower()}Seq": str(len(held)), f"max{what}Num": str(page), "dataVersion": asked}
            answer = client.ask(code, fields)
            part = _parsed(client, code, answer, name)
            total = config_json.integer(answer.fields.get(f"total{what}Num"))
            if total is None:
                return part
            size += len(answer.body)
            if not 0 <= total <= ENTRIES_MAX or size > config_json.MAX_BYTES:
                raise _wrong(client, code, f"a total of {total} entries; {size} bytes came so far")
            if whole and part.get("dataVersion") != version:
                break
            version = part.get("dataVersion")
            before = len(held)
            whole = {**part, name: held | part[name]}
            if len(whole[name]) >= total:
                return whole
            if len(whole[name]) == before:
                raise _wrong(client, code, f"{before} entries of {total}, and no more come")
    raise _wrong(client, code, f"it changed between two pages, {RESTARTS} times")


def _parsed(client: RemotingClient, code: int, answer: RemotingFrame, name: str) -> JsonObject:
    try:
        value = config_json.parse(answer.body)
    except FormatError as error:
        raise _wrong(client, code, f"its body is no object ({error})") from None
    if not isinstance(value.get(name), dict):
        raise _wrong(client, code, f"its body has no {name}")
    return value


def _wrong(client: RemotingClient, code: int, what: str) -> ReplicationError:
    return ReplicationError("config", f"{client.address}: request {code}: not the answer of a broker: {what}")
