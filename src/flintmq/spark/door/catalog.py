"""Names stores and topics for Spark's catalog (`java/flintmq/spark/Catalog.java`).

    spark.sql.catalog.mq               flintmq.spark.Catalog
    spark.sql.catalog.mq.path          /data/store                  mq.Orders
    spark.sql.catalog.mq.stores.shop   /data/shop/cluster.toml      mq.shop.Orders
    spark.sql.catalog.mq.failOnDataLoss  false                      an option of each read
    spark.sql.catalog.mq.writable      true                         INSERT INTO puts; without it nothing does

A store, several by a pattern, or a manifest is a namespace; its topics are tables. Below a topic are its metadata
tables: `mq.shop.Orders.queues`, `groups`, `index`, `halves`, `timers`, `dead`. What there is is looked up each time: a
new topic is there at the next query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from flintmq.cluster.member import Member
from flintmq.config.keys import KEYS
from flintmq.errors import UsageError
from flintmq.format.text import EARLIEST_MS, iso
from flintmq.lake.read.members import broker_members, of_each
from flintmq.lake.read.option_text import flag
from flintmq.lake.read.options import ReadOptions, for_a_view
from flintmq.spark.source import FlintMQSource
from flintmq.storage.files.store_url import absolute
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.read.queue_lookup import QueueLookup

STORES = "stores."
OWN = ("path", "writable")
METADATA = ("queues", "groups", "index", "halves", "timers", "dead")
"""Names of the tables below a topic: each is what the option `view` of that name reads."""
HINT = (
    "spark.sql.catalog.NAME.path=STORE, or spark.sql.catalog.NAME.stores.SHOP=STORE for mq.SHOP.TOPIC; STORE is a "
    "directory, a URL, a pattern of several stores, or a manifest"
)
Namespace = tuple[str, ...]


class Catalog:
    """Finds what a catalog names. `options`: its settings, without their prefix."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.stores: dict[Namespace, str] = {
            (name.removeprefix(STORES),): path for name, path in options.items() if name.startswith(STORES)
        }
        if "path" in options:
            self.stores[()] = options["path"]
        if not self.stores:
            raise UsageError(f"the catalog has no store; give it one: {HINT}")
        self.common = {  # options of each read
            name: value for name, value in options.items() if name not in OWN and not name.startswith(STORES)
        }
        if any(name.lower() == "schemaregistry" and "@" in urlsplit(given).netloc for name, given in options.items()):
            raise UsageError(
                "schemaRegistry has a password, and Spark writes settings into its event log; name the host with it in "
                "~/.netrc of each machine instead"
            )
        self.writable = flag(options, "writable", False)

    def contents(self, namespace: Namespace) -> dict[str, Any]:
        """Return the namespaces and tables within a namespace; nothing if it is not there."""
        if namespace in self.stores:
            deeper = [name for (name,) in filter(None, self.stores)] if not namespace else []
            place = {"location": self.stores[namespace]}
            return {"namespaces": deeper, "tables": self._topics(namespace), "properties": place}
        if not namespace:
            return {"namespaces": [name for (name,) in self.stores], "tables": [], "properties": {}}
        if namespace[:-1] in self.stores and self._has(namespace[:-1], namespace[-1]):
            return {"namespaces": [], "tables": list(METADATA), "properties": {}}
        return {}

    def table(self, namespace: Namespace, name: str, until: int | None) -> dict[str, Any]:
        """Return how a table is read; nothing if there is none of that name.

        `until`: the time up to which, in microseconds since 1970.
        """
        if namespace in self.stores:
            store, topic, own, common = namespace, name, {}, self.common
            comment = f"messages of the topic {topic}"
        elif namespace[:-1] in self.stores and name in METADATA:
            store, topic, own = namespace[:-1], namespace[-1], {"view": name}
            common = for_a_view(self.common)
            comment = f"{name} of the topic {topic}"
        else:
            return {}
        if not self._has(store, topic):
            return {}
        options = {**common, "path": self.stores[store], **_only(topic), **own}
        if until is not None:
            options["endingTimestamp"] = str(_end_of(until, own))
        properties = {"provider": "flintmq", "location": self.stores[store], "comment": comment}
        found = {"schema": FlintMQSource(options).schema().json(), "options": options, "properties": properties}
        found["closed"] = self._why_closed(store, own)
        if not found["closed"]:
            keys = {name: value for name, value in self.common.items() if name in KEYS}
            found["sink"] = {**keys, "path": self.stores[store], "topic": topic}
        return found

    def _why_closed(self, store: Namespace, own: Mapping[str, str]) -> str:
        """Return why a table is not written; empty if it is."""
        if own:
            return f"flintmq writes messages; a table {own['view']} is read from other files of a store"
        if self._options(store).stores is not None:  # which one would it be?
            return "flintmq writes into one store, and this table is of several; give the catalog the one by itself"
        if not self.writable:
            return "this catalog of flintmq writes nothing; set spark.sql.catalog.NAME.writable=true in a new session"
        return ""

    def _has(self, namespace: Namespace, topic: str) -> bool:
        def has(member: Member) -> bool:
            lookup = self._lookup(namespace, member)
            return topic in lookup.snapshot.broker.topics or any(name.topic == topic for name in lookup.names())

        return any(of_each(has, self._members(namespace)))

    def _topics(self, namespace: Namespace) -> list[str]:
        """Return the topics that have messages, or had some."""

        def topics(member: Member) -> set[str]:
            return {name.topic for name in self._lookup(namespace, member).names()}

        return sorted(set().union(*of_each(topics, self._members(namespace))))

    def _members(self, namespace: Namespace) -> Sequence[Member]:
        return broker_members(self._options(namespace), Report())

    def _lookup(self, namespace: Namespace, member: Member) -> QueueLookup:
        options = self._options(namespace).of(member)
        return QueueLookup(Snapshot.open(absolute(options.path), options.config))

    def _options(self, namespace: Namespace) -> ReadOptions:
        return ReadOptions.parse({**self.common, "path": self.stores[namespace]})


def _end_of(until: int, own: Mapping[str, str]) -> int:
    """Return the store time in ms before which the messages of `TIMESTAMP AS OF` are.

    `until`: the time, in microseconds; messages of its millisecond are there. `own`: options of a metadata table.
    """
    if own:
        raise UsageError(f"TIMESTAMP AS OF is for messages; a table {own['view']} shows what the store has now")
    ms = until // 1000
    if ms < EARLIEST_MS:
        raise UsageError(
            f"TIMESTAMP AS OF {iso(ms)}: time travel is by store time, and no store is that old; name a time since "
            f"{iso(EARLIEST_MS)[:10]}"
        )
    return ms + 1


def _only(topic: str) -> dict[str, str]:
    """Return the option that selects one topic.

    `subscribe` has commas between topics, and takes blanks around them away.
    """
    if topic == topic.strip() and "," not in topic:
        return {"subscribe": topic}
    return {"subscribePattern": "".join("[ ]" if sign == " " else re.escape(sign) for sign in topic)}
