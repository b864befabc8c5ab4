"""Finds messages, and shows each as it is found: by key, id, text, property, topic, tag and time.

Keys are looked up in the index first, under every topic, which takes milliseconds; the walk over the log that follows
is that of `flintmq scan`, and finds all. It says how much of the log its zones left out, and where it ended.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from flintmq.cli.body_option import Bodies
from flintmq.cli.commands.scan import MessageScan, Selection
from flintmq.cli.message_lines import json_line, json_member
from flintmq.cli.text import size
from flintmq.cli.values import parse_property, parse_tags
from flintmq.config.text import check_choice
from flintmq.errors import ConfigError, CorruptStoreError, FlintError, MessageNotFoundError, UsageError
from flintmq.format.index import key_hash
from flintmq.message import StoredMessage
from flintmq.store.commitlog.predicate import Predicate
from flintmq.store.commitlog.report import Report
from flintmq.store.index.reader import IndexFileReader, discover
from flintmq.ui.asked import Ask
from flintmq.ui.links import command_of, option
from flintmq.ui.page import UiPage, incomplete, places_lost
from flintmq.ui.stores import OpenStore
from flintmq.ui.topics import ALL_TOPICS, Nearest, passed_over, queues_of

if TYPE_CHECKING:
    from flintmq.ui.app import Ui

HOW = ("auto", "key", "text", "property")
HITS, MOST_HITS = 100, 1000
SECONDS = 120.0
"""Of one search; a further one begins where it ended, by `begin`."""
TOPICS_IN_INDEX = 2000
TOPICS_OFFERED = 500
INDEX_SECONDS = 2.0
PROGRESS_S = 0.25
_OFFSET_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


class Hit(NamedTuple):
    store: OpenStore
    message: StoredMessage
    how: str
    passed_over: bool


class UnreadableHit(NamedTuple):
    """A place in the log that the index has for the key, and from which no record can be read."""

    store: OpenStore
    offset: int
    reason: str


class SoFar(NamedTuple):
    """Progress: how much of which store was walked."""

    store: OpenStore
    done: int
    total: int


class SearchEnding(NamedTuple):
    """How the search in a store ended; there may be more from log offset `begin` on, by the walk `how`."""

    store: OpenStore
    text: str
    whole: bool
    how: str = ""
    begin: int | None = None


Found = Hit | UnreadableHit | SoFar | SearchEnding | Nearest


class Over(Exception):
    """The time of a search is over."""


class Until(NamedTuple):
    """When a search ends: at a time, or with the server."""

    at: float
    closing: threading.Event

    @property
    def over(self) -> bool:
        return time.monotonic() > self.at or self.closing.is_set()


@dataclass(frozen=True)
class SearchWords:
    """What a request searches for, checked."""

    q: str
    how: str
    topic: str
    tag: str
    since: int | None
    until: int | None
    limit: int
    unpack: bool
    store: str
    begin: int

    @staticmethod
    def of(ask: Ask) -> SearchWords:
        how = ask.text("how", "auto") or "auto"
        check_choice("how", how, HOW)
        since, until = ask.time("since"), ask.time("until")
        if since is not None and until is not None and since >= until:
            raise UsageError("since is not before until; no time is between them")
        q = ask.text("q") if how == "text" else ask.text("q").strip()  # pasted with the spaces around it
        if how == "property" and q:
            parse_property("property", q)
        limit = max(ask.number("limit", HITS, MOST_HITS), 1)
        return SearchWords(
            q, how, ask.text("topic"), ask.text("tag"), since, until, limit, bool(ask.text("unpack")),
            ask.text("store"), ask.number("begin"),
        )  # fmt: skip

    @property
    def empty(self) -> bool:
        return not (self.q or self.topic or self.tag or self.begin) and self.since is None and self.until is None

    @property
    def is_id(self) -> bool:
        return self.how in ("auto", "key") and _OFFSET_ID.fullmatch(self.q) is not None

    @property
    def passes(self) -> list[str]:
        """The walks over the log that find all, in order."""
        if not self.q:
            return [""]
        if self.how != "auto":
            return [self.how]
        return ["key"] if self.is_id else ["text"] if " " in self.q else ["key", "text"]

    def selection(self, how: str) -> Selection:
        key = frozenset({self.q}) if how == "key" else None
        tags = parse_tags([self.tag]) if self.tag else None
        topics = frozenset({self.topic}) if self.topic else None
        predicate = Predicate(topics=topics, since=self.since, until=self.until, tags=tags, any_key=key)
        return Selection(
            predicate,
            key or frozenset(),
            self.q.encode("utf-8", "surrogatepass") if how == "text" else None,
            parse_property("property", self.q) if how == "property" else None,
        )

    def command(self, how: str, stores: Sequence[OpenStore]) -> list[str]:
        names = {"": "", "key": "--key", "text": "--grep", "property": "--property"}
        found = [*option(names[how], how and self.q), *option("--topic", self.topic), *option("--tag", self.tag)]
        found += [*option("--since", self.since), *option("--until", self.until)]
        found += [*option("--from-offset", self.begin or ""), "--skip-damage", "--limit", str(self.limit)]
        found += ["--decompress"] if self.unpack else []
        return command_of("scan", *(one.path for one in stores), options=found)


def search(ui: Ui, _: OpenStore | None, ask: Ask) -> UiPage:
    wanted = SearchWords.of(ask)
    stores = [ui.stores.at(wanted.store)] if wanted.store else ui.stores.all
    commands = [wanted.command(how, stores) for how in wanted.passes]
    words = {
        "wanted": wanted,
        "hits": iter(()) if wanted.empty else _watched(ui, wanted, stores),
        "given": ask.typed,
        "topics": _topics(stores),
        "kind_of": lambda item: type(item).__name__,
    }
    shown = stores[0] if len(stores) == 1 else None

    def lines() -> Iterator[str]:
        left, lost, bodies = wanted.limit, Report(), Bodies(wanted.unpack)
        for one in () if wanted.empty else stores:
            end = json_member(one.member.broker, one.path) if one.member.words else "}"
            for found in _all(wanted, one, bodies, lost):
                for message, body in islice(found, left):
                    left -= 1
                    yield json_line(message, body)[:-1] + end
                if not left:
                    break
                yield ""  # nothing yet: the reader may be gone
            if not left:
                break
        failed = f"some bodies are as stored, from {bodies.first_failure}" if bodies.failed else ""
        yield from incomplete(places_lost(lost), failed)
        if left == wanted.limit and not lost.damage_count and (unknown := _unknown_topic(wanted, stores)):
            raise unknown

    title = "Search" if wanted.empty else f"Search: {wanted.q or wanted.topic or wanted.tag or 'time'}"
    return UiPage(
        "search.html", title, words, () if wanted.empty else commands[0],
        lines, tab="search", store=shown, also=commands[1:],
    )  # fmt: skip


def _all(
    wanted: SearchWords, one: OpenStore, bodies: Bodies, lost: Report
) -> Iterator[Iterator[tuple[StoredMessage, bytes]]]:
    """Yield what the named commands print, each message once, by pieces of the log; `lost` receives its damage."""
    end, seen = time.monotonic() + SECONDS, set[int]()

    def watch(done: int, total: int) -> None:
        if time.monotonic() > end:
            raise UsageError(f"it takes over {SECONDS:.0f} s; run the command, or give a topic or a time")

    def new(found: Iterator[tuple[StoredMessage, bytes]]) -> Iterator[tuple[StoredMessage, bytes]]:
        for message, body in found:
            if message.physical_offset not in seen:
                seen.add(message.physical_offset)
                yield message, body

    for how in wanted.passes:
        report = lost if how == wanted.passes[-1] else None  # each damaged place once
        scan = MessageScan(one.path, wanted.selection(how), one.config, bodies, True, watch, report, wanted.begin)
        yield from map(new, scan.by_piece())
        scan.report_deleted()


def _watched(ui: Ui, wanted: SearchWords, stores: Sequence[OpenStore]) -> Iterator[Found]:
    """Yield all of a search, if not too many run."""
    if not ui.searches.acquire(blocking=False):
        raise UsageError("as many searches run as this server allows; stop one, or wait")
    try:
        left = wanted.limit
        end, whole = time.monotonic() + SECONDS, True
        for one in stores:
            for item in _in_store(wanted, one, left, Until(end, ui.closing)):
                left -= isinstance(item, Hit)
                whole = whole and not (isinstance(item, SearchEnding) and not item.whole)
                yield item
        if left == wanted.limit and whole and (unknown := _unknown_topic(wanted, stores)):
            yield unknown
    finally:
        ui.searches.release()


def _unknown_topic(wanted: SearchWords, stores: Sequence[OpenStore]) -> Nearest | None:
    """Return an error if no store has the topic; it is known that no log has messages of it."""
    found: list[Nearest] = []
    for one in stores if wanted.topic else ():
        try:
            queues_of(one, one.view(), wanted.topic)
            return None
        except Nearest as error:
            found.append(error)
        except (FlintError, OSError):
            return None  # of a store that cannot be read nobody knows
    return min(found, key=lambda error: error.words == ALL_TOPICS, default=None)


def _topics(stores: Sequence[OpenStore]) -> list[str]:
    """Return the topics to choose from; none if they are too many."""
    found = set[str]()
    for one in stores:
        with suppress(FlintError, OSError):
            found.update(one.view().topics())
    return sorted(found) if len(found) <= TOPICS_OFFERED else []


def _in_store(wanted: SearchWords, one: OpenStore, left: int, until: Until) -> Iterator[Found]:
    try:
        yield from _find(wanted, one, left, until)
    except (FlintError, OSError) as error:
        yield SearchEnding(one, str(error), False)


def _find(wanted: SearchWords, one: OpenStore, left: int, until: Until) -> Iterator[Found]:
    seen: set[int] = set()
    unread: set[int] = set()
    for hit in _at_once(wanted, one, unread):
        if hit.message.physical_offset not in seen and len(seen) < left:
            seen.add(hit.message.physical_offset)
            yield hit
    texts: list[str] = []
    lost = 0
    for how in wanted.passes:
        walk = _Walk(wanted, one, how, until)
        for item in walk:
            if isinstance(item, StoredMessage):
                if item.physical_offset in seen:
                    continue
                if len(seen) >= left:
                    text = f"the first {wanted.limit} are shown, there are more"
                    yield SearchEnding(one, text, False, how, item.physical_offset)
                    return
                seen.add(item.physical_offset)
                yield _hit(one, item, how)
            else:
                yield item
        walk.scan.report_deleted()
        for damage in walk.scan.report.damages:
            for at in sorted(at for at in unread if damage.offset <= at < damage.end):
                yield UnreadableHit(one, at, damage.reason)
                unread.discard(at)
        texts.append(walk.text())
        lost += walk.lost
        if walk.over:
            begin = max(walk.scan.walk.log.min_offset + walk.done, wanted.begin)
            yield SearchEnding(one, f"stopped after {SECONDS:.0f} s: {walk.text()}", False, how, begin)
            return
    count = f"{len(seen)} message{'s' * (len(seen) != 1)}" if seen else "nothing"
    yield SearchEnding(one, f"{count} found in {'; '.join(texts)}", not lost)


def _hit(one: OpenStore, message: StoredMessage, how: str) -> Hit:
    return Hit(one, message, how, bool(passed_over(one, [message])))


class _Walk:
    """One walk over a log: its messages, and now and then how far it is. Iterate once."""

    def __init__(self, wanted: SearchWords, one: OpenStore, how: str, until: Until) -> None:
        self.one, self.until, self.over, self.begin = one, until, False, wanted.begin
        self.done = self.total = 0
        text = "bodies" if wanted.unpack else "bodies, as stored,"
        self.names = {"key": "keys and ids", "text": text, "property": "properties", "": "records"}[how]
        self.bodies = _Unpacked(wanted.unpack and how == "text")
        selection = wanted.selection(how)
        self.scan = MessageScan(one.path, selection, one.config, self.bodies, True, self._note, begin=wanted.begin)

    def _note(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.until.over:
            raise Over

    def __iter__(self) -> Iterator[StoredMessage | SoFar]:
        told = time.monotonic()
        try:
            for found in self.scan.by_piece():
                yield from (message for message, _ in found)
                if time.monotonic() - told > PROGRESS_S:
                    told = time.monotonic()
                    yield SoFar(self.one, self.done, self.total)
        except Over:
            self.over = True

    @property
    def lost(self) -> int:
        return self.scan.report.damage_count + self.bodies.failed

    def text(self) -> str:
        zones = self.scan.walk.zones
        skipped = zones.skipped_bytes if zones is not None else 0
        before = max(self.begin - self.scan.walk.log.min_offset, 0)
        found = f"the {self.names} of {size(max(self.done - skipped - before, 0))}"
        if skipped:
            found += f" of log ({size(skipped)} left out: their zones say that nothing wanted is there)"
        else:
            found += " of log"
        if damaged := self.scan.report.damage_count:
            found += f"; {damaged} place{'s' * (damaged > 1)} could not be read"
        if count := self.bodies.failed:
            found += f"; {count} compressed bod{'ies' if count > 1 else 'y'} left out, from {self.bodies.first_failure}"
        return found


class _Unpacked(Bodies):
    """Bodies to search; one that no package here decompresses does not end the search."""

    def of(self, message: StoredMessage) -> bytes:
        try:
            return super().of(message)
        except FlintError as error:  # a package is missing
            self._fail(message, str(error))
            return message.body


def _at_once(wanted: SearchWords, one: OpenStore, unread: set[int]) -> Iterator[Hit]:
    """Yield what an offset id names, and what the index has under a key; the walk after it finds all.

    `unread` receives log offsets that the index names, and where no record is.
    """
    if not wanted.q or wanted.begin or wanted.how not in ("auto", "key"):
        return
    view = one.view()
    if wanted.is_id:
        with suppress(MessageNotFoundError, UsageError):
            yield _hit(one, view.get_by_offset_msg_id(wanted.q), "offset id")
    topics = [wanted.topic] if wanted.topic else view.topics()[:TOPICS_IN_INDEX]
    hashes = {key_hash(topic, wanted.q) for topic in topics}
    until = time.monotonic() + INDEX_SECONDS
    keyed = wanted.selection("key")
    for file in reversed(discover(view.root, one.config, one.effects)):
        for offset in _in_file(file, hashes, until):
            try:
                message = view.get_at(offset)
            except (MessageNotFoundError, CorruptStoreError):
                unread.add(offset)
                continue
            if keyed.predicate.wants(message) and keyed.wants(message):
                yield _hit(one, message, "index")


def _in_file(file: IndexFileReader, hashes: Iterable[int], until: float) -> Iterator[int]:
    """Yield log offsets under hashes; none of a file that is gone or cannot be used."""
    with suppress(FileNotFoundError, ConfigError, CorruptStoreError), file.open() as index:
        for number in hashes:
            if time.monotonic() > until:
                return
            yield from islice(index.find(number), MOST_HITS)
