"""`flintmq scan`: the records of the log in physical order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from flintmq.cli.body_option import Bodies, BodyWords
from flintmq.cli.declare import option
from flintmq.cli.options import (
    DecompressOption,
    JsonOption,
    LimitOption,
    QueuesOption,
    SetOption,
    SinceOption,
    SkipDamageOption,
    StoresArgument,
    TagOption,
    TopicsOption,
    UntilOption,
    examples,
    template_option,
)
from flintmq.cli.output import Progress, no_progress, output, parts_of, report_damage
from flintmq.cli.values import members_of, parse_property, parse_tags, store_config, time_range

if TYPE_CHECKING:
    from flintmq.config.keys import StoreConfig
    from flintmq.message import StoredMessage
    from flintmq.store.commitlog.predicate import Predicate
    from flintmq.store.commitlog.report import Report
    from flintmq.store.commitlog.walk import Piece

EPILOG = examples(
    "flintmq scan /var/rocketmq/store --topic Orders --since -15m",
    "flintmq scan /var/rocketmq/store --limit 5 --format '{store_timestamp:iso} {topic} {body}'",
)


@dataclass(frozen=True)
class Selection:
    """The wanted records: those that match every given part.

    Attributes:
        keys: one is among the message's keys, or its unique id; also the predicate's hint. Empty: any message.
        having: name and value of a property of the message; None: any.
    """

    predicate: Predicate  # topics, queues, tags, store time; tested on the record's bytes before anything is decoded
    keys: frozenset[str] = frozenset()
    grep: bytes | None = None  # bytes in the body as it is shown
    having: tuple[str, str] | None = None

    @property
    def key_bytes(self) -> bytes:
        """The one key as messages hold it; empty if it cannot be compared in bytes, or of several."""
        key = "".join(self.keys)
        if len(self.keys) != 1 or "\ufffd" in key:  # which may represent bytes that are not UTF-8
            return b""
        return key.encode("utf-8", "ignore")

    @property
    def value_bytes(self) -> bytes:
        """The property's value as messages hold it; empty if it cannot be compared in bytes."""
        value = "" if self.having is None else self.having[1]
        return b"" if "\ufffd" in value else value.encode("utf-8", "ignore")

    def wants(self, message: StoredMessage) -> bool:
        """Test the key and the property."""
        keys, one = self.keys, self.having
        if keys and message.msg_id not in keys and keys.isdisjoint((message.keys or "").split(" ")):
            return False
        return one is None or message.properties.get(one[0]) == one[1]


class MessageScan:
    """The wanted messages of a store in physical order, each with its body. Iterate once.

    Args:
        lenient: skip damaged ranges and report them; otherwise they are an error.
        begin: log offset of the first record, or of none after which the next one is looked for.
    """

    def __init__(
        self,
        store: str,
        selection: Selection,
        config: StoreConfig,
        bodies: Bodies,
        lenient: bool = False,
        progress: Progress = no_progress,
        report: Report | None = None,
        begin: int = 0,
    ) -> None:
        from flintmq.store.commitlog.report import Report
        from flintmq.store.commitlog.resync import first_record
        from flintmq.store.commitlog.snapshot import Snapshot
        from flintmq.store.commitlog.walk import LogWalk
        from flintmq.store.commitlog.zones import zones_for

        self.selection, self.bodies, self.progress = selection, bodies, progress
        self.found = 0
        self.report = report if report is not None else Report()  # damage and notes, complete after the last message
        snapshot = Snapshot.open(store, config)
        first = first_record(snapshot.log, begin) if begin else 0
        self.walk = LogWalk(snapshot.log, snapshot.facts, first, strict=not lenient, report=self.report)
        self.walk.use_zones(zones_for(snapshot.log, selection.predicate))

    def __iter__(self) -> Iterator[tuple[StoredMessage, bytes]]:
        for found in self.by_piece():
            yield from found

    def by_piece(self) -> Iterator[Iterator[tuple[StoredMessage, bytes]]]:
        """Yield the wanted messages of each piece of the log; take all of one before the next piece."""
        from flintmq.kernels.read.zone_keys import keyed
        from flintmq.store.commitlog.predicate import Selector

        selector, grep, log = Selector(self.selection.predicate), self.selection.grep, self.walk.log
        key, value = self.selection.key_bytes, self.selection.value_bytes
        for piece in self.walk:
            count = selector.select(piece)
            if key:
                count = keyed(piece.data, piece.positions, count, key)
            if grep and not self.bodies.decompress:
                count = _with_text(piece, count, grep)
            elif value:
                count = _with_text(piece, count, value)
            yield self._of(piece, count)
            self.progress(piece.base + piece.end - log.min_offset, log.limit - log.min_offset)

    def _of(self, piece: Piece, count: int) -> Iterator[tuple[StoredMessage, bytes]]:
        from flintmq.kernels.read.fetch import take
        from flintmq.message import StoredMessage, stored_message

        grep, wants, body_of = self.selection.grep, self.selection.wants, self.bodies.of
        # Of copies, because messages outlive the piece, whose buffer is used again: of each, or of all at once.
        if 8 * count < piece.count:
            messages = [stored_message(piece.data, at) for at in piece.positions[:count]]
        else:
            messages = take(StoredMessage, bytes(piece.data[: piece.end]), piece.positions, count)
        for message in messages:
            if wants(message):
                body = body_of(message)
                if grep is None or grep in body:
                    self.found += 1
                    yield message, body

    def report_deleted(self) -> None:
        """Report deleted files as damage; call it once, after the last message."""
        for lost in self.walk.deleted:
            self.report.damage(lost)


def _with_text(piece: Piece, count: int, text: bytes) -> int:
    """Move positions of records that may hold a text to the front; return their number.

    Only the first `count` are looked at. All that hold it are among them, and some more: it may lie in other fields
    than in the wanted one, or in records between. To search the piece's bytes costs less than to make a message of each
    record.
    """
    from flintmq.kernels.read.zone_keys import find

    places, kept, read = piece.positions, 0, 0
    while read < count and (at := find(piece.data, places[read], piece.end, text)) >= 0:
        read = bisect_right(places, at, read, count)
        places[kept] = places[read - 1]
        kept += 1
    return kept


@dataclass(frozen=True)
class ScanWords(BodyWords):
    stores: StoresArgument
    topic: TopicsOption = None
    queue: QueuesOption = None
    since: SinceOption = None
    until: UntilOption = None
    tag: TagOption = None
    key: list[str] | None = option("--key K", "Only messages with this key or unique id. May be repeated.", text=True)
    grep: str | None = option("--grep TEXT", "Only messages whose body holds this text.")
    having: str | None = option("--property NAME=VALUE", "Only messages with this property.", text=True)
    from_offset: int | None = option("--from-offset N", "Only records from this log offset on.", min=0)
    limit: LimitOption = None
    template: Annotated[str | None, template_option("A line of your own, such as '{topic} {body}'.")] = None
    decompress: DecompressOption = False
    skip_damage: SkipDamageOption = False
    settings: SetOption = None
    as_json: JsonOption = False


def command(words: ScanWords) -> int:
    """Print the log's records in physical order.

    Prints everything unless limited, one line a message; with --json one object a line with exactly the keys of the
    schema. Prepared and rolled-back transactions are records too. Damage ends the scan with exit code 1 after the
    records before it, unless --skip-damage is given. Torn and stale tails are ends, not damage. A file that is deleted
    during the scan, as retention does, and before it was read, is reported at the end with exit code 1.

    --body decodes bodies, from what the producer gave; one that does not decode is shown as it is, with the reason, and
    makes the exit code 1.

    Several stores are read one after the other; each line names the broker, and in JSON the store too.
    """
    from flintmq.cli.template import message_writer
    from flintmq.store.commitlog.predicate import Predicate
    from flintmq.store.commitlog.report import LOST, Report

    first, end = time_range(words.since, words.until)
    predicate = Predicate(
        topics=frozenset(words.topic) if words.topic else None,
        queue_ids=frozenset(words.queue) if words.queue else None,
        since=first,
        until=end,
        tags=parse_tags(words.tag),
        any_key=frozenset(words.key) if words.key else None,
    )
    selection = Selection(
        predicate,
        frozenset(words.key or ()),
        None if words.grep is None else words.grep.encode("utf-8", "surrogateescape"),
        None if words.having is None else parse_property("--property", words.having),
    )
    config, report = store_config(words.settings), Report()
    out, bodies = output(words.as_json), words.shown(words.decompress)
    members = members_of(words.stores, config, out, report, strict=not words.skip_damage)
    paths = [member.path for member in members]
    writers = [message_writer(words.template, words.as_json, **member.words) for member in members]
    with out.progress("scanning") as progress:
        scans = [
            MessageScan(path, selection, config, bodies, words.skip_damage, part, report, words.from_offset or 0)
            for path, part in zip(paths, parts_of(progress, len(paths)), strict=True)
        ]
        several, seen = len(words.topic or ()) > 1, set[str]()

        def lines() -> Iterator[str]:
            for scan, write in zip(scans, writers, strict=True):
                for message, body in scan:
                    if several:
                        seen.add(message.topic)
                    yield write(message, body)

        out.lines(islice(lines(), words.limit))
    for scan in scans:
        scan.report_deleted()
    readable = "readable " if report.damage_count or report.note_counts[LOST] else ""
    found = sum(scan.found for scan in scans)
    if (several or not found) and not readable and (words.limit is None or found < words.limit):
        from flintmq.forensics.topic_tail import one_must_have

        one_must_have(paths, [topic for topic in words.topic or () if topic not in seen], config)
    if not found and words.limit != 0:
        out.note(f"no {readable}record matches; flintmq inspect shows the topics and times")
    return max(report_damage(out, report), bodies.report_failures(out), min(1, report.note_counts[LOST]))
