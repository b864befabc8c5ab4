"""Streams stores as one: a StoreStream for each broker, and one offset of all.

The offset of an only store is that of its StoreStream, `{"Orders/0": 185}`. That of several names the brokers:
`{"broker-a": {"Orders/0": 185}, "broker-b": {"Orders/0": 90}}`. What names the stores is looked at again for each
micro-batch. A broker that comes is taken up at its first message: one offset contains its begin, and the next one what
was read of it. A broker that goes keeps its offset, and goes on there when it returns. Of a master and its slaves the
one is read whose log goes further, so the store of a broker may change; the anchor in its offset shows whether that is
the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flintmq.cluster.member import ONLY
from flintmq.config.text import short
from flintmq.errors import NotAStoreError, StoreError
from flintmq.lake.stream.reader import Available, StoreStream, log_line

if TYPE_CHECKING:
    from flintmq.cluster.member import Member
    from flintmq.lake.stream.options import StreamOptions
    from flintmq.lake.stream.plan import StreamTask
    from flintmq.store.commitlog.anchor import KnownLog

Offset = Mapping[str, Any]
"""An offset as it is kept: of an only store in the form of StoreStream, of several by broker."""

BrokerOffsets = Mapping[str, Mapping[str, int]]
"""The offset of each broker, in the form of StoreStream."""


class StoresStream:
    """Plans the micro-batches of stores.

    `lose`: receives those about messages that are lost, and the reader goes on without; None: `tell`.

    Thread: one at a time.
    """

    def __init__(
        self, options: StreamOptions, tell: Callable[[str], None] = log_line, lose: Callable[[str], None] | None = None
    ) -> None:
        self.options, self.tell, self.lose = options, tell, lose or tell
        self._streams: dict[str, tuple[Member, StoreStream]] = {}
        self._ends_now = False
        self._told: set[str] = set()
        self._gone: set[str] = set()  # brokers that the user knows to be gone
        self.left_out: list[str] = []  # sentences about the named stores that are not there now
        self.is_full = False  # the limits cut the batch that `next_end` planned last: more is there
        self._served = 0  # which broker gets the rest of a limit first

    # -- micro-batches -------------------------------------------------------------------------------------------------

    def by_broker(self, offset: Offset) -> BrokerOffsets:
        return offset if self.options.read.many else {ONLY: offset}

    @staticmethod
    def offset_of(parts: BrokerOffsets) -> Offset:
        return parts.get(ONLY, parts)

    def initial(self) -> Offset:
        return self.offset_of({broker: stream.initial() for broker, stream in self._look(check=True).items()})

    def initial_at(self, positions: Mapping[str, int]) -> Offset:
        """Return the offset from which on messages begin at a log offset of each broker.

        Brokers that are not there are left out.
        """
        there = self._look().items()
        return self.offset_of({name: one.initial_at(positions[name]) for name, one in there if name in positions})

    def with_others(self, offset: Offset) -> Offset:
        """Return an offset with the brokers that it lacks, each at its begin."""
        parts, there = self.by_broker(offset), self._look(check=True).items()
        begins = {name: parts[name] if name in parts else stream.initial() for name, stream in there}
        return self.offset_of({**begins, **parts})

    def selected(self, offset: Offset) -> Offset:
        parts = dict(self.by_broker(offset))
        there = {name: one for name, one in self._look().items() if name in parts}
        return self.offset_of(parts | {name: one.selected(parts[name]) for name, one in there.items()})

    def tell_unknown(self) -> None:
        for stream in self._look().values():
            stream.tell_unknown()

    def end_now(self) -> None:
        """Set the target of the stream to the present ends of the stores."""
        self._ends_now = True
        for stream in self._look().values():
            stream.end_now()

    def next_end(self, start: Offset, limits: bool = True) -> Offset:
        """Return the end of the next micro-batch; `start` itself if there is not enough to read.

        `limits`: whether the options' limits apply; they are of all stores together.
        """
        streams, known = self._look(), self.by_broker(start)
        self._tell_gone(known, streams)
        there = {broker: stream.available(known[broker]) for broker, stream in streams.items() if broker in known}
        self.is_full = False
        if limits:
            messages = sum(one.messages for one in there.values())
            if streams and all(stream.too_few(messages) for stream in streams.values()):
                return start
            there = self._limited(there)
            self.is_full = sum(one.messages for one in there.values()) < messages
        begins = {broker: self._begin(stream) for broker, stream in streams.items() if broker not in known}
        ends = {broker: streams[broker].end_after(one) for broker, one in there.items()}
        return self.offset_of(dict(sorted({**known, **begins, **ends}.items())))

    def present_end(self) -> Offset:
        """Return the end of all that there is, for who asks without saying where it is."""
        return self.next_end(self.initial(), limits=False)

    def progress(self) -> dict[str, Any]:
        found = {broker: stream.progress() for broker, stream in self._look().items()}
        sums = {name: sum(one[name] for one in found.values()) for name in ("lagMessages", "lagBytes")}
        ends = {
            broker: {name: number for name, number in one.items() if name not in _LAGS} for broker, one in found.items()
        }
        several = {
            **sums,
            "minOffsetsBehindLatest": min((one["minOffsetsBehindLatest"] for one in found.values()), default=0),
            "maxOffsetsBehindLatest": max((one["maxOffsetsBehindLatest"] for one in found.values()), default=0),
            **ends,
        }
        return found.get(ONLY, several)

    def tasks(self, start: Offset, end: Offset) -> list[tuple[Member, StreamTask]]:
        streams, known = self._look(), self.by_broker(start)
        parts: list[tuple[Member, StreamTask]] = []
        for broker, offset in sorted(self.by_broker(end).items()):
            if broker not in known or known[broker] == offset:
                continue
            if broker not in streams:
                self._lost_broker(broker)
                continue
            member, stream = self._streams[broker]
            parts += [(member, task) for task in stream.tasks(known[broker], offset)]
        return parts

    def logs(self) -> dict[str, KnownLog]:
        return {broker: stream.log for broker, stream in self._look().items()}

    # -- stores --------------------------------------------------------------------------------------------------------

    def _look(self, check: bool = False) -> dict[str, StoreStream]:
        """Find the stores as they are now; return the stream of each broker, in the order of names."""
        from flintmq.lake.read.members import broker_members, members_of
        from flintmq.store.commitlog.report import LOST, Report

        read, report = self.options.read, Report()
        try:
            members = (broker_members if check else members_of)(read, report)
        except NotAStoreError:
            if check or read.fail_on_data_loss:
                raise
            members = ()  # all brokers of a pattern are gone, for now
        self.left_out = [note.text for note in report.notes if note.code == LOST]
        for note in report.notes:
            self._tell(note.text)
        now = {member.broker: member for member in members}
        self._streams = {
            broker: self._streams[broker]
            if broker in self._streams and self._streams[broker][0] == member
            else (member, self._stream(member))
            for broker, member in now.items()
        }
        return {broker: stream for broker, (_, stream) in self._streams.items()}

    def _stream(self, member: Member) -> StoreStream:
        stream = StoreStream(self.options.of(member), self.tell, self.lose)
        if self._ends_now:
            stream.end_now()
        return stream

    def _begin(self, stream: StoreStream) -> dict[str, int]:
        """Return the offset at which a broker is taken up that was not there when the stream began."""
        return StoreStream(replace(stream.options, start="earliest"), self.tell, self.lose).initial()

    def _limited(self, there: Mapping[str, Available]) -> dict[str, Available]:
        """Limit all stores together to one micro-batch: each gets its share of the limits."""
        there = {broker: there[broker] for broker in sorted(there)}
        most, most_bytes = self.options.max_offsets, self.options.max_bytes
        messages = {broker: one.messages for broker, one in there.items() if one.messages}
        there = self._shared(there, messages, most, lambda one, share: one.limited(share, None))
        sizes = {broker: one.log_bytes for broker, one in there.items() if one.spans and most_bytes is not None}
        return self._shared(there, sizes, most_bytes, lambda one, share: one.limited(None, share))

    def _shared(
        self,
        there: dict[str, Available],
        wanted: Mapping[str, int],
        most: int | None,
        limited: Callable[[Available, int], Available],
    ) -> dict[str, Available]:
        """Give each store its share of one limit; one without a share has nothing to read."""
        if most is None or sum(wanted.values()) <= most:
            return there
        shares = _shares(wanted, most, self._served)
        self._served += 1
        return {
            broker: limited(one, shares[broker]) if shares.get(broker) else replace(one, spans={})
            for broker, one in there.items()
        }

    def _tell_gone(self, start: BrokerOffsets, there: Mapping[str, StoreStream]) -> None:
        for broker in sorted(start.keys() - there.keys() - self._gone):
            self.tell(
                f"{self.options.read.path}: the store of broker {short(broker)} is gone; "
                "the stream goes on there when it returns"
            )
        self._gone = (self._gone | start.keys()) - there.keys()

    def _lost_broker(self, broker: str) -> None:
        """Fail because the store of a planned batch is gone; or report it."""
        path = self.options.read.path
        why = f"{path}: the store of broker {short(broker)}, of which a micro-batch was planned, is gone"
        skip = self.options.read.skip_option
        if self.options.read.fail_on_data_loss:
            raise StoreError(f"{why}; start the stream again when it is back, or set {skip}")
        self._tell(f"{why}; its messages of this batch are left out (as {skip} says)", self.lose)

    def _tell(self, text: str, tell: Callable[[str], None] | None = None) -> None:
        if text not in self._told:
            self._told.add(text)
            (tell or self.tell)(text)


_LAGS = (
    "lagMessages",
    "lagBytes",
    "minOffsetsBehindLatest",
    "maxOffsetsBehindLatest",
    "avgOffsetsBehindLatest",
)


def _shares(wanted: Mapping[str, int], most: int, turn: int) -> dict[str, int]:
    """Divide a limit among those that want more in all: by what each wants, the rest in turn.

    A share is never more than what is wanted, and the shares are the whole limit, which is at least 1.
    """
    total = sum(wanted.values())
    shares = {name: most * want // total for name, want in wanted.items()}
    names = sorted(wanted)
    rest = most - sum(shares.values())
    for step in range(rest):
        shares[names[(turn + step) % len(names)]] += 1
    assert sum(shares.values()) == most and all(shares[name] <= wanted[name] for name in names)
    return shares
