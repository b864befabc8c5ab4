"""Finds where two logs part, for `flintmq follow --resync`.

They do after a master lost its tail, or another one took over.

Records are only added at a log's end, so two logs agree up to one place and never after it. The files of our log are
tried from the last one down: the master is asked for a file's begin, and what comes is compared with the file, until a
byte differs or the master has no more. The place is the begin of the first record that is not the same on both sides.
After a power cut that took bytes which no checksum covers they may agree again after it; then all from the last certain
byte on is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from flintmq.errors import DivergedError
from flintmq.ha.begin import ANSWER_S, Ask, report_for
from flintmq.ha.connection import POLL_S
from flintmq.ha.overlap import NEW_PLACE
from flintmq.storage.files.filesystem import Effects
from flintmq.store.append.raw_log import RawLog

READ_BYTES: Final = 1 << 18


class Tail(NamedTuple):
    """The part of our log that the master does not have."""

    begin: int
    end: int
    records: int
    since: int  # store time in ms of the first one; 0 without one


class PartingSearch:
    """Searches for the place where the master's log parts from ours.

    `unsure_from`: log offset from which on a power cut may have taken bytes; None: it took none.
    """

    def __init__(
        self,
        ask: Ask,
        raw: RawLog,
        effects: Effects,
        stopped: Callable[[], bool],
        unsure_from: int | None = None,
    ) -> None:
        self._ask, self._raw, self._effects, self._stopped = ask, raw, effects, stopped
        self._unsure_from = unsure_from

    def tail(self) -> Tail | None:
        """Return what is to be dropped before the master can be followed; None if nothing is."""
        raw = self._raw
        begin, end, size = raw.begin, raw.end, raw.file_size
        if begin is None or end == begin:
            return None
        # From the last file backwards: two logs that part do so near their ends.
        last = (end - 1) // size * size
        first = last if self._unsure_from is None else max(begin, min(last, self._unsure_from // size * size))
        for start in range(first, begin - 1, -size):
            limit = end if start == first else start + size
            same = self._same_from(start, limit)
            parting = (
                limit if same >= limit else max((at for at, _ in raw.records(start, end) if at <= same), default=start)
            )
            if parting > start:
                return self._tail(parting)
        text = f"the master's log and ours, from offset {begin} to {end}, have no record in common that can be compared"
        raise DivergedError("diverged", f"{text}; {NEW_PLACE}")

    def _same_from(self, start: int, limit: int) -> int:
        """Return the log offset up to which both logs are the same from the begin of a file on."""
        at = report_for(start)
        line = self._ask(at, at)
        try:
            heard = self._effects.monotonic()
            while at < limit and not self._stopped():
                got = line.receive(POLL_S)
                now = self._effects.monotonic()
                if got is None or not got.size:
                    if now - heard >= ANSWER_S:
                        break
                    continue
                heard = now
                for part in _parts(line.buffer[: min(got.size, limit - at)]):
                    ours = self._raw.read(at, len(part))
                    if part != ours:
                        return at + next(n for n in range(len(part)) if part[n] != ours[n])
                    at += len(part)
                if got.refusal is not None:
                    raise got.refusal
        finally:
            line.close()
        return at

    def _tail(self, parting: int) -> Tail | None:
        if parting >= self._raw.end:
            return None
        records, since = 0, 0
        for _, time in self._raw.records(parting, self._raw.end):
            records, since = records + 1, since or time
        return Tail(parting, self._raw.end, records, since)


def _parts(data: memoryview) -> Iterator[memoryview]:
    return (data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES))
