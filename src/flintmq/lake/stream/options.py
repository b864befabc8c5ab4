"""Checks the options of a stream: those of a batch read, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flintmq.cluster.member import Member
from flintmq.errors import UsageError
from flintmq.lake.read.broker_options import ANY_STORE, brokers_named, options_of_broker, texts_by_broker
from flintmq.lake.read.offsets import WORDS, Queue, means_latest, parse_json_offsets
from flintmq.lake.read.option_text import duration_ms, number, time_ms
from flintmq.lake.read.options import BATCH_ONLY, STREAM_ONLY, ReadOptions, check_read, named


@dataclass(frozen=True)
class StreamOptions:
    """The checked options of a stream.

    Attributes:
        start: where a new query begins: "earliest", "latest", a store time in ms, or offsets of queues (-2 is
            earliest, -1 is latest; queues that are not named begin at their earliest). `read.since_of` overrides it.
    """

    read: ReadOptions  # store, topics, queues, tags, columns. Its predicate bounds neither offsets nor times.
    start: str | int | dict[Queue, int] = "earliest"
    max_offsets: int | None = None  # max_offsets, max_bytes: of a micro-batch; None for no limit
    max_bytes: int | None = None
    min_offsets: int = 0  # of a micro-batch, unless max_delay_ms have passed since the last one
    max_delay_ms: int = 15 * 60_000

    def of(self, member: Member) -> StreamOptions:
        """Return the options for one of the stores: its path, and where its broker begins."""
        given = self.read.given
        own = StreamOptions.parse(options_of_broker(given, member.broker, member.path)) if given else self
        return replace(self, read=replace(self.read.at(member), since_of=own.read.since_of), start=own.start)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        given = named(options)
        for name in BATCH_ONLY:
            if name in given:
                raise UsageError(f"option {name} is for spark.read; a stream has no end (but see trigger availableNow)")
        rest = {name: value for name, value in given.items() if name not in (*STREAM_ONLY, "startingOffsets")}
        _history_begins(given)
        read = ReadOptions.parse(rest)
        predicate = replace(read.predicate, offsets=(), since=None)
        options_of_limits = {name: number(given, name, 1) for name in STREAM_ONLY[:3]}
        least, most = options_of_limits["minOffsetsPerTrigger"] or 0, options_of_limits["maxOffsetsPerTrigger"]
        if most is not None and least > most:
            raise UsageError(f"option minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most})")
        if "maxTriggerDelay" in given and not least:
            raise UsageError("option maxTriggerDelay has no effect without minOffsetsPerTrigger; give both")
        checked = cls(
            read=replace(read, predicate=predicate),
            max_offsets=most,
            max_bytes=options_of_limits["maxBytesPerTrigger"],
            min_offsets=least,
            max_delay_ms=duration_ms(given, "maxTriggerDelay", "15m"),
        )
        if not read.many:
            return replace(checked, start=_start(given, read))
        for broker in sorted(brokers_named(given)):
            cls.parse(options_of_broker(given, broker, ANY_STORE))
        return replace(checked, read=replace(checked.read, given=given))


def _history_begins(given: Mapping[str, str]) -> None:
    """Refuse options that say where to begin, beside one that says it too."""
    others = [name for name in ("startingOffsets", "startingTimestamp") if name in given]
    if "history" in given and others:
        raise UsageError(f"option {others[0]} does not apply beside history: the stream begins with all of the table")


def is_stream(options: Mapping[str, str]) -> bool:
    """Return whether these options can only be meant for a stream.

    Spark passes the options before it says whether they are for a batch read or a stream.
    """
    given = named(options)
    if any(name in given for name in STREAM_ONLY):
        return True
    text = given.get("startingOffsets", "earliest")
    return not any(name in given for name in BATCH_ONLY) and any(map(means_latest, (text, *texts_by_broker(text))))


def _start(given: Mapping[str, str], read: ReadOptions) -> str | int | dict[Queue, int]:
    """Return where to begin: startingTimestamp overrides startingOffsets, as in Kafka's source.

    Both are checked.
    """
    text = given.get("startingOffsets", "earliest")
    offsets = {} if text.lower() in WORDS else parse_json_offsets("startingOffsets", text)
    check_read("startingOffsets", offsets, read.predicate)
    time = time_ms(given, "startingTimestamp")
    if time is not None:
        return time
    return text.lower() if text.lower() in WORDS else offsets
