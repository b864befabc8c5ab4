"""Takes the steps of a follower, one after the other, in one thread.

    open           opens the store in role SLAVE; a new one, with `run`, once the master has answered
    connect_once   opens a line. An empty follower first finds where to begin (`begin`); any other reports the begin of
                   its last whole record, and has what comes compared with it (`overlap`) before it stores a byte.
    receive_once   takes what one read brings: compares it, or appends it
    report_once    reports the end of what is whole, if it moved, and each 5 s in any case

Without `ack` the follower is a tap: it repeats its first report, so that a SYNC_MASTER never takes it for a replica. A
lost line is opened again after 0.2 to 5 s. What a master cannot mend by sending again ends the follower: a
ReplicationError, with nothing changed that it had before.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final, NamedTuple

from flintmq.errors import FlintError, ReplicationError, StoreError, UsageError
from flintmq.ha.begin import ANSWER_S, BeginSearch, report_for
from flintmq.ha.broker_tables import ATTEMPTS, BrokerTables
from flintmq.ha.connection import POLL_S, MasterConnection, parse_master
from flintmq.ha.follower_line import SILENCE_S, Received
from flintmq.ha.follower_store import FollowerStore, FollowOptions, OnEvent, one_line
from flintmq.ha.overlap import Overlap, QueueGapCheck, judge_silence
from flintmq.ha.pauses import Pauses
from flintmq.ha.progress import ProgressNotes
from flintmq.ha.resync import PartingSearch
from flintmq.store.message_store import MessageStore

QUIET_S: Final = 0.2
"""Seconds without bytes of the log after which the follower has caught up."""
ONCE_S: Final = 1.0
"""Seconds without them after which `once` is done; and after a heartbeat, for a master that has nothing there."""
DISPATCH_S: Final = 600.0
COMPARE_S: Final = 60.0
"""Seconds that `once` waits for the logs to agree, however slowly the master sends."""
REMIND_S: Final = 600.0
"""Seconds after which a master that is still lost is reported again."""


class FollowerStats(NamedTuple):
    """Counters of a follower since it was opened."""

    end: int  # log offset after the last byte received
    whole: int  # log offset after the last whole record
    acknowledged: int  # the last report; -1 before the first
    frames: int  # frames, heartbeats, bytes: received in all
    heartbeats: int
    bytes: int
    sessions: int  # lines that were opened to follow
    refusals: int  # 1 if the master was refused
    lag_ms: int  # our clock minus the store time of the last whole record; 0 while caught up


class FollowerSteps:
    """Takes the steps of one follower.

    `tables`: of the broker; None: they are not asked for.

    Thread: one; the numbers, `caught_up` and `state` may be read from any.
    """

    def __init__(self, options: FollowOptions, tables: BrokerTables | None, on_event: OnEvent) -> None:
        self.master, self.address = options.master, parse_master(options.master)
        self._ack, self._once = options.ack, options.once
        self._resync, self._confirmed = options.resync, options.confirmed
        self._sync = options.config.flush_disk_type == "SYNC_FLUSH"
        self._effects, self._dial = options.effects, options.dial
        self._tables, self._on_event = tables, on_event
        self._pauses = Pauses()
        self._copy = FollowerStore(options, tables, self._pauses, on_event)
        self.line: MasterConnection | None = None  # the open line; None if there is none
        self._overlap: Overlap | None = None
        self._gap: QueueGapCheck | None = None
        self._held = bytearray()  # bytes after a gap that hold no whole record yet
        self._unanswered_since: float | None = None  # the first heartbeat of a master that sent nothing to compare
        self.resumed = False  # True once nothing on this line disagrees, so that bytes are stored
        self._agreed = False  # it was, on one line at least
        self._data_at = self._connected_at = 0.0  # when bytes of the log last came
        self._caught_up_at = -1  # end of the log of the last event `caught_up`
        self._lost_at: float | None = None  # when the loss was last reported; None: it is not lost
        self._in_vain = self._silent_lines = 0  # attempts and lines in a row
        self._dialled = False  # the last attempt reached somebody
        self._frames = self._heartbeats = self._bytes = self._sessions = 0
        self._notes: ProgressNotes | None = None  # written by `loop` only
        self._last: FollowerStats | None = None
        self.state = "opening"
        self.error: BaseException | None = None

    # -- the whole --------------------------------------------------------------------------------------------------

    def open(self, *, patient: bool = False) -> None:
        if self._copy.prepare(patient):
            self._open_prepared()

    def run(self) -> None:
        """Open the store, and follow until stopped or done.

        In a new directory nothing is made until the master answers.
        """
        if self._copy.prepare(patient=not self._once):
            if not self._copy.is_new():
                self._open_prepared()
            self.loop()

    def _open_prepared(self) -> None:
        self._copy.open()
        self.state = "connecting"

    def loop(self) -> None:
        while not self.stopping.is_set() and not self.done:
            if self.line is None and not (self.resync_once() and self.connect_once()):
                self._note_progress()
                self._pauses.take()
                self._take_tables()
                continue
            self.receive_once()
            self.report_once()
            self._take_tables()
            self._note_progress()

    def wait_s(self) -> float:
        return self._pauses.next_s()

    @property
    def stopping(self) -> threading.Event:
        return self._pauses.stopping

    @stopping.setter
    def stopping(self, event: threading.Event) -> None:
        self._pauses.stopping = event

    @property
    def store(self) -> MessageStore | None:
        return self._copy.store

    def opened(self) -> MessageStore:
        return self._copy.opened()

    @property
    def connected(self) -> bool:
        return self.line is not None

    @property
    def done(self) -> bool:
        """True if `once` was asked for and it has caught up."""
        if not self._once or self.line is None or not self.caught_up:
            return False
        if self._tables is not None and not (self._tables.settled or self.opened().raw.begin is None):
            return False
        if self.opened().raw.begin is None:
            return self.line.line.heartbeats >= 2
        return self._effects.monotonic() - self._data_at >= ONCE_S

    def close(self) -> None:
        """Close the line and the store. May be called again.

        Raises StoreError: both are closed, and the disk refused; see `MessageStore.close`.
        """
        if self._tables is not None:
            self._tables.stop()
        store = self.store
        if self._notes is not None:
            self._note_progress(last=True)
        self._drop_line()
        if store is not None:
            # Zeroed while the store is open: the next start would find half a record as a tail that it has to judge.
            store.raw.discard()
            self._last = self.stats()
            lacks: str | None = "it is not known what it lacks"
            with suppress(OSError, FlintError):
                lacks = self._copy.note_lacks()
            end, self._copy.store = store.raw.end, None
            try:
                store.close()
            except StoreError as error:
                if self.state != "refused":
                    self.refused(error)
                raise
        if self.state != "refused":
            self.state = "closed"
        if store is not None:
            self._event("closed", end=end, promotable=lacks is None, **({} if lacks is None else {"lacks": lacks}))

    def refused(self, error: BaseException) -> None:
        self.error, self.state = error, "refused"
        if not isinstance(error, UsageError):
            self._event(
                "refused",
                reason=error.reason if isinstance(error, ReplicationError) else "store",
                detail=one_line(error),
            )

    # -- numbers ----------------------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """True if the last byte that the master sent is here, and no more came for a moment."""
        connection = self.line
        if connection is None or not self.resumed or self._caught_up_at != self.whole:
            return False
        # The first bytes of a record or frame that is still to come change neither `whole` nor `_caught_up_at`.
        line = connection.line
        return line.between_frames and line.due == self._caught_up_at

    @property
    def whole(self) -> int:
        return self.stats().whole if self.store is None else self.store.raw.end

    def stats(self) -> FollowerStats:
        store = self.store
        if store is None:
            refusals = int(isinstance(self.error, ReplicationError))
            return self._last or FollowerStats(0, 0, -1, 0, 0, 0, 0, refusals, 0)
        raw, line = store.raw, None if self.line is None else self.line.line
        lag = 0 if self.caught_up else max(0, self._effects.now_ms() - raw.last_time)
        return FollowerStats(
            end=raw.received,
            whole=raw.end,
            acknowledged=-1 if line is None else line.reported,
            frames=self._frames + (line.frames if line else 0),
            heartbeats=self._heartbeats + (line.heartbeats if line else 0),
            bytes=self._bytes + (line.bytes if line else 0),
            sessions=self._sessions,
            refusals=int(isinstance(self.error, ReplicationError)),
            lag_ms=lag,
        )

    # -- steps ------------------------------------------------------------------------------------------------------

    def resync_once(self) -> bool:
        """Drop what the master does not have, if that was asked for and not done yet.

        Returns:
            False if the line was lost meanwhile.
        """
        if not self._resync or self.store is None:  # a new one has nothing to drop
            return True
        store = self.opened()
        try:
            tail = PartingSearch(self._ask, store.raw, self._effects, self.stopping.is_set, self._copy.unsure).tail()
        except OSError as error:
            self._lost(one_line(error))
            return False
        if self.stopping.is_set():
            return False
        self._resync = False
        if tail is None:
            return True
        self._event("resync", **tail._asdict())
        if not self._confirmed:
            raise UsageError(
                f"{self._copy.root}: {tail.records} messages from log offset {tail.begin} to {tail.end} are not in the "
                f"master's log, the first one stored at {tail.since}; give --yes to move them to quarantine/"
            )
        self._copy.cut(tail.begin)
        return True

    def connect_once(self) -> bool:
        """Open a line to the master; return whether there is one."""
        raw = None if self.store is None else self.store.raw
        self.state = "connecting"
        try:
            if raw is None or raw.begin is None:
                search = BeginSearch(self._ask, self._copy.file_size, self.stopping.is_set)
                line = search.line_at(self._copy.begin, self._copy.first_file)
                asked = None
            else:
                # From our last record on, which the master sends again: equal bytes show that both logs are one.
                known = raw.end if raw.last_record is None else raw.last_record
                if self._copy.unsure is not None and known:
                    # After a power cut from the first byte on that it may have taken: no checksum covers all of a
                    # record.
                    known = min(known, max(self._copy.unsure, raw.begin))
                asked = report_for(known)
                line = self._ask(asked, asked)
        except OSError as error:
            if isinstance(error, TimeoutError) and self._dialled and not self.stopping.is_set():
                self._count_silence()
            self._lost(one_line(error))
            return False
        if raw is None and not self._open_for(line):
            return False
        self._follow_on(line)
        if raw is None or asked is None:
            self._resume()
        else:
            self._overlap = Overlap(asked, raw.end, raw.read) if asked < raw.end else None
            self.state = "comparing"
        return True

    def _open_for(self, line: MasterConnection) -> bool:
        """Open a new store, now that the master has answered.

        Returns:
            False if another process has made the copy meanwhile; the line is closed then, as after an error.
        """
        empty = False
        try:
            # Once more: the question took time, and another process may have made a store here meanwhile.
            self._copy.check_past()
            self._open_prepared()
            empty = self.opened().raw.begin is None
            self._resync = self._resync and not empty
        finally:
            if not empty:
                line.close()
        return empty

    def receive_once(self, seconds: float = POLL_S) -> None:
        """Take what one read brings, or wait so many seconds for it."""
        line = self.line
        if line is None:
            return
        try:
            got = line.receive(seconds)
        except OSError as error:
            self._lost(one_line(error))
            return
        now = self._effects.monotonic()
        if got is not None:
            self._silent_lines = 0
            if self.resumed and (got.size or got.heartbeats):  # a header alone is no answer
                self._in_vain = 0
            try:
                self._take(line, got, now)
            except (FlintError, OSError):
                # Records before the error are stored, so puts of the master that wait for them need not wait in vain.
                self._report_last()
                raise
            if got.refusal is not None:
                self._report_last()
                raise got.refusal
        elif line.line.silent(now):
            self._lost(f"the master sent nothing for {SILENCE_S:.0f} s")
            return
        if self._once and not self.resumed and now - self._connected_at > COMPARE_S:
            self._lost(f"the logs could not be compared in {COMPARE_S:.0f} s")
            return
        if not self.resumed and self._unanswered_since is not None and now - self._unanswered_since >= ONCE_S:
            self._explain_silence()
        self._notice_caught_up(now)

    def report_once(self) -> None:
        """Report to the master, if the time has come, or there is more to acknowledge."""
        line = self.line
        if line is None:
            return
        offset = self._to_report(line)
        if not line.line.report_due(offset, self._effects.monotonic(), more=line.full):
            return
        # Durable before it is reported: with SYNC the master answers its producers by this number.
        self._flush_below(offset)
        try:
            line.report(offset)
        except OSError as error:
            self._lost(one_line(error))
            return
        self._notice_caught_up(self._effects.monotonic())

    def _note_progress(self, *, last: bool = False) -> None:
        """Note for other processes how far it is, now and then."""
        if self.store is None:
            return
        if self._notes is None:
            self._notes = ProgressNotes(self._copy.root, self._effects)
        facts = None if self._tables is None else self._tables.facts
        line = None if self.line is None else self.line.line
        self._notes.take(line, caught_up=self.caught_up, master_end=None if facts is None else facts.end, last=last)

    def _take_tables(self) -> None:
        tables, store = self._tables, self.store
        if tables is not None and store is not None:
            # A line that is lost has no say in what is known since the logs agreed, and a held record waits for it.
            event = tables.take(store, agreed=self.resumed or self._agreed)
            if event is not None:
                self._event(event.pop("event"), **event)
            if tables.stale or tables.keys:
                self._lost("queues are laid out again as the broker has them now")
                self._event("laid_out_again", topics=self._copy.lay_again())
            elif self._once and tables.failed >= ATTEMPTS and store.copied.held:
                raise UsageError(
                    f"{tables.address}: nobody answers there, and a topic's type is not known; give a broker's "
                    "listenPort with --config-from"
                )
        if store is not None:
            self._copy.note_lacks()

    # -- a line -----------------------------------------------------------------------------------------------------

    def _ask(self, report: int, due: int | None) -> MasterConnection:
        # Here too: a master counts the first report of a line as an acknowledgement.
        self._flush_below(report)
        self._dialled = False
        line = MasterConnection.open(self.address, report, due, self._copy.file_size, self._dial, self._effects)
        self._dialled = True
        return line

    def _follow_on(self, line: MasterConnection) -> None:
        self.line, self._sessions, self._lost_at = line, self._sessions + 1, None
        self.resumed, self._unanswered_since = False, None
        self._data_at = self._connected_at = self._effects.monotonic()
        self._caught_up_at = -1
        self._overlap = self._gap = None
        self._held.clear()
        self._event("connected", report=line.line.reported)

    def _take(self, line: MasterConnection, got: Received, now: float) -> None:
        if got.heartbeats and not got.size and not self.resumed and self._unanswered_since is None:
            self._unanswered_since = now
        if not got.size or got.offset is None:
            return
        self._data_at, self._unanswered_since = now, None
        offset, data = got.offset, line.buffer[: got.size]
        if self._overlap is not None:
            try:
                same = self._overlap.compare(offset, data)
            except UsageError:
                if (self.opened().raw.begin or 0) <= self._overlap.at:
                    raise
                self._lost("old files were deleted here, and with them the record that was compared")
                return
            if not self._overlap.agreed:
                return
            self._overlap, offset, data = None, offset + same, data[same:]
        if self._gap is not None:
            self._held += data
            if not self._gap.check(memoryview(self._held)):
                return
            offset, data = offset + len(data) - len(self._held), memoryview(bytes(self._held))
            self._gap = None
            self._held.clear()
        if not self.resumed:
            self._resume()
        self._append(offset, data)

    def _append(self, offset: int, data: memoryview) -> None:
        raw = self.opened().raw
        if data and raw.begin is None:
            begin = 0 if offset == 1 else offset
            # Noted before the first byte: a log with bytes and without the note would pass for a store of its own.
            self._copy.note_begin(begin)
            raw.begin_at(begin)
        if data and offset == 1 and raw.received == 0:
            raw.append_raw(0, b"\0")  # a report cannot ask for byte 0, the high byte of the first record's size
        at = 0
        while at < len(data):
            # A frame ends within a file of the master, and one read may bring several frames.
            room = raw.file_size - (offset + at) % raw.file_size
            raw.append_raw(offset + at, data[at : at + room])
            at += room

    def _resume(self) -> None:
        """Begin to follow: nothing that the master sent disagrees."""
        # Not before: until both logs agree the next start has to compare from the same place again.
        self._copy.note_compared()
        self._pauses.reset()
        self.resumed = self._agreed = True
        self.state = "following"
        self._event("resumed", end=self.opened().raw.end)
        self._take_tables()

    def _explain_silence(self) -> None:
        """Find out why the master has nothing where our log ends, and go on if nothing is wrong."""
        raw = self.opened().raw
        end, size = raw.end, raw.file_size
        with_records = raw.last_record is not None
        if self._copy.unsure is not None:  # noted in the file still; the next start of the follower tries again
            unsure, self._copy.unsure = self._copy.unsure, None
            self._lost(f"the master has deleted the log from offset {unsure} on, so only the last record is compared")
            return
        self._drop_line()
        if self.opened().copied.held:
            self._lost("the type of a topic is not known yet, and with it the queues to compare")
            return
        if with_records and not self.opened().wait_dispatched(DISPATCH_S):
            raise StoreError(f"{self._copy.root}: queues are not dispatched up to offset {end}; run flintmq verify")
        try:
            search = BeginSearch(self._ask, size, self.stopping.is_set)
            line = search.line_if_there(end, ANSWER_S) if with_records and end % size == 0 else None
            there = line is not None
            if line is None:
                asked, last = search.last_file()
                asked.close()
                judge_silence(last, end)
                line = self._ask(report_for(end), report_for(end))
        except OSError as error:
            self._lost(one_line(error))
            return
        self._follow_on(line)
        self._gap = None
        if with_records:
            whole, time = raw.begin == 0, raw.last_time
            self._gap = QueueGapCheck(raw.next_offsets(), end, size, whole=whole, last_time=time)
        if not there:
            self._resume()

    def _to_report(self, line: MasterConnection) -> int:
        if not self._ack or not self.resumed:
            return line.line.reported
        return max(line.line.reported, self.opened().raw.end)

    def _flush_below(self, report: int) -> None:
        """Make durable what a report names.

        A master takes the first one, too, for an acknowledgement.
        """
        raw = None if self.store is None else self.store.raw
        if raw is not None and self._sync and raw.durable < report <= raw.end:
            raw.flush()

    def _report_last(self) -> None:
        """Acknowledge what is whole before the end."""
        if self.line is not None:
            self.line.full = False
        if self.line is not None and self._to_report(self.line) > self.line.line.reported:
            self.report_once()

    def _notice_caught_up(self, now: float) -> None:
        line, raw = self.line, self.opened().raw
        if line is None or not self.resumed or self._caught_up_at == raw.end:
            return
        if now - self._data_at < QUIET_S or not line.line.between_frames or raw.received != raw.end:
            return
        if line.line.reported < self._to_report(line):
            return
        self._caught_up_at = raw.end
        self._event("caught_up", end=raw.end)

    def _lost(self, reason: str) -> None:
        line = self.line.line if self.line is not None else None
        if line is not None and not line.heard_any and line.silent(self._effects.monotonic()):
            self._count_silence()
        # Closed first: what is zeroed next comes again on another line, and must not come twice.
        self._drop_line()
        if self.store is not None:
            self.store.raw.discard()
        now = self._effects.monotonic()
        if not self.stopping.is_set() and (self._lost_at is None or now - self._lost_at >= REMIND_S):
            self._event("lost", what="line", reason=reason)
            self._lost_at = now
        self.state = "connecting"
        self._in_vain += 1
        if self._once and self._in_vain >= ATTEMPTS and not self.stopping.is_set():
            raise UsageError(f"{self.master}: nobody answers there ({reason}); give a broker's HA port")

    def _count_silence(self) -> None:
        self._silent_lines += 1
        if self._silent_lines >= ATTEMPTS:
            text = f"{self.master} accepts connections and does not answer; give a master's HA port"
            raise ReplicationError("protocol", text)

    def _drop_line(self) -> None:
        if self.line is not None:
            line = self.line.line
            self._frames, self._heartbeats = self._frames + line.frames, self._heartbeats + line.heartbeats
            self._bytes += line.bytes
            self.line.close()
        self.line, self._overlap, self._gap, self.resumed = None, None, None, False
        self._held.clear()

    def _event(self, name: str, **fields: Any) -> None:
        self._on_event({"event": name, **fields})
