# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Syncs the log for groups of puts in a thread of its own that runs without the GIL.

Groups are numbered. The thread begins group n, reads how far the log was appended, syncs the files up to there,
publishes the durable end and ends group n. A put that was appended before group n began is covered by it; so it
publishes the log's end, then reads the number of the last group begun, and waits for the next one. Both sides use
sequentially consistent stores and loads, so no put can wait for a group that did not see it.

A thread waits on the futex word of its group (four words in turn) and releases the GIL once. An event loop has one
event descriptor (kernels/threads/loop_puts.py). The thread takes the GIL only for what is rare: to learn of new log
files, to report a failed sync, to have a lost store judged, and to wake dispatch when it sleeps.

With `in_caller` a thread that waits makes a group itself if nobody makes one (T1 to T4 below).

Uncompiled, and where the system has no futex, `native` returns False and no flusher is made: store/append/flush.py
then syncs in a Python thread.
"""

# Shared are `_appended`, `_begun`, `_done`, `_flushed`, `_words`, `_sleepers`, `_bell`, `_idle`, `_failed`, `_ended`,
# `_turn` and `_queued`, and `want` of a loop. All loads and stores of them are sequentially consistent (flusher.h), so
# that all threads see them in one order, on x86 and on ARM, with and without a GIL. "Later" below means later in that
# order.
#
# Writer algorithm: who puts, and waits
#
# W1 The record counts (fast_append.py, W6). Raise `_appended` to its end, then store `_appended_time`.
# W2 Wait for group n = `_begun` + 1. This load did not see n, so the thread stores `_begun` = n later (R2), and reads
#    `_appended` later still (R3): group n covers W1. Group n - 1 need not.
# W3 Count in as a sleeper of n, then read the word of n.
# W4 Ring: raise `_bell`, and wake the thread if it is `_idle`. It stores `_idle` and then looks at `_bell` (R1), so one
#    of the two sees the other.
# W5 Sleep while `_done` is below n and the word is as in W3; the kernel compares it once more as it puts the thread to
#    sleep. R7 changes the word of n after `_done` = n, and looks for sleepers after that: who missed R7 had not counted
#    in, and reads the new `_done` here. There are four words in turn, so that R7 wakes nobody of group n + 1. A word
#    changes for n only after all of n - 4 is over, because the groups come one by one.
# W6 Look: `_flushed` reaches the record: durable. `_failed`: not known to be. `_ended`: the caller syncs itself.
# W7 An event loop sets `want` of n instead of W3, rings, and looks at `_done`: R8 takes `want` after `_done` = n, so
#    one of the two rings the loop's event. Whoever takes the wish rings, so it is rung once.
#
# Reader algorithm: the thread, which reads how far was put
#
# R1 `_idle` = 1, then sleep if the bell did not ring since.
# R2 `_begun` = n, with the turn taken (T1).
# R3 Read `_appended_time`, then `_appended`, against the order of W1: the time is that of a record below the end.
# R4 Sync the files with bytes below that end, oldest first, and note each file's `flushed` after its sync. A file that
#    is flushed so far is not touched: retention may have closed it.
# R5 Compare the names of lock and newest file: what lies in a file without a name is not in the store.
# R6 `_time`, then `_flushed`, last of all that promises something. Not if `_failed` was set meanwhile by whomever.
# R7 `_done` = n, the word of n, then wake its sleepers, if there are any.
# R8 Ring the events of loops that want n, under the mutex, for which who closes an event waits.
# R9 Wake dispatch, which takes flushed records only: so this thread does it, and no put. `_needs_wake` is the address
#    of dispatch's flag (`Flusher.__init__`), read without the GIL; the GIL is taken only if it is set. Dispatch sets
#    the flag, fences fully, then looks at `_flushed` (dispatch_service.py, `_run`). Here the flag is read after R6: on
#    x86 because R6 is an exchange, on ARM because the load of `_sleepers` in R7 comes after R6 and before all later
#    loads. So one of the two sees the other.
#
# Turns: who makes a group
#
# T1 `_turn` is 1 while somebody makes a group; who makes it 1 does R2 to R8, alone. So groups come one by one, `_time`
#    and `_flushed` move in one order, and the list of files has one user, whichever threads take turns.
# T2 A caller that finds the turn taken waits as in W2 to W6, until its own deadline: the turn may hang in a sync. Only
#    the thread waits for the turn. It sets `_queued`, then tries; who gives the turn back makes `_turn` 0, then looks
#    at `_queued`: one of the two sees the other.
# T3 A caller may be Python's main thread, in which a signal handler could raise amid Python code and be taken for a
#    failure. So it runs none. Where R4 or R5 must ask the owner, it gives the turn back with its group begun and not
#    over (`_begun` is not `_done`), and waits for it as in W3 to W6; its ring (W4) brings the thread, and no other
#    caller goes on with it. The thread goes on with group n: it reads the log's end anew (R3), syncs no file that is
#    flushed so far, and tries no sync again that was refused the caller (`_refused`). Who came since waits for n + 1,
#    and may have rung before: the thread makes that group, too. In place of R9 a caller rings.
# T4 The thread ends with the turn taken, and never gives it back: after `stop` nobody makes a group, and files may be
#    closed.
#
# Others read `_flushed` as `flushed_where`, with the GIL or without: it only grows, and the disk has all below it.
#
# What a crash may show
#
# C1 A kill, at any step: the page cache has every record (fast_append.py, C2 and C3), synced or not. Who waited was not
#    answered.
# C2 A power cut amid R4: of what lies above `_flushed` any sector may be there or missing, in each file, also what came
#    after R3, because a sync takes all that a file has. Nobody was answered. The next start reads from the disk and
#    ends the log as fast_append.py says in C4.
# C3 A power cut after R4 and before R7: more is durable than anybody knows.
# C4 `flintmq.mark` never says more than the disk has: it is written from a `flushed_where` that was read before
#    (store/services/checkpointer.py).
# C5 A sync fails: the kernel may have dropped the pages, and would answer the next sync with success. So none is tried
#    again. The owner hears of it first: it refuses puts, and has `abort` say that this page cache is not to be believed
#    (store/layout/small_files.py, `distrust_page_cache`), so that the next start takes it for a power cut. Only then
#    `_failed` is set, and puts are answered.

import cython

if not cython.compiled:
    import os

    from flintmq.kernels.write.fast_append import AppendTarget, DurableWait

DURABLE = 1  # on disk
FAILED = 0  # a sync failed, or the store is lost: not known to be on disk
LATE = 2  # not on disk in time
STOPPED = 3  # the thread has ended: the caller syncs itself

_DURABLE = cython.declare(cython.int, 1)
_FAILED = cython.declare(cython.int, 0)
_LATE = cython.declare(cython.int, 2)
_STOPPED = cython.declare(cython.int, 3)
_INTERRUPTED = cython.declare(cython.int, -1)
_MS = cython.declare(cython.longlong, 1_000_000)
_LEFT = cython.declare(cython.int, 4)  # the thread must go on with this group
_AHEAD = cython.declare(cython.longlong, 64 << 10)  # bytes made writable ahead at most: the next sync writes them all

# What the thread asks its owner.
_FILES = cython.declare(cython.int, 0)
_ERROR = cython.declare(cython.int, 1)
_OURS = cython.declare(cython.int, 2)
_LOOK = cython.declare(cython.int, 3)
_WAKE = cython.declare(cython.int, 4)


def native() -> bool:
    """Return whether a flusher can be made: compiled, and on Linux."""
    return bool(cython.compiled and fmq_native())


@cython.cclass
class LogWatermark:
    """The position up to which a log is on disk; the base class of storage's MappedFileQueue.

    Attributes:
        flushed_where: log offset below which all bytes are on disk. The flusher moves it without the GIL.
        sync_error: errno of the last sync that failed; 0: none did.
    """

    def sync(self, fd: cython.int) -> int:
        """Sync a file, and note a refusal of the disk in the same step; return its errno, or 0.

        No Python code runs in between, so an exception that a signal handler or another thread raises in this thread
        neither counts as the disk's nor hides one. Uncompiled a handler that Python calls in the middle of the system
        call is known by its own frame.
        """
        error: cython.int = 0
        if not cython.compiled:
            try:
                (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(fd)
            except OSError as refused:
                if refused.errno is None or refused.__traceback__.tb_next is not None:
                    raise
                self.sync_error = error = refused.errno  # before any call: Python looks for signals after one
            return error
        with cython.nogil:
            error = fmq_sync(fd)
        if error != 0:
            self.sync_error = error
        return error


@cython.final
@cython.cclass
class Flusher(DurableWait):
    """Makes one log durable for those who wait.

    Args:
        log: the log's watermark.
        owner: a NativeFlush (store/append/native_flush.py). It answers what the thread asks with the GIL: `log_files()`
            calls `sync_file` for each file that is not wholly on disk; `failed(error)` notes an OSError; `is_ours()`
            judges whether the store is lost; `look()` publishes the log's end.
        after_flush: woken after a group if it needs it: the dispatch (store/services/dispatch_service.py).
        timeout_s: how long a put waits (syncFlushTimeout).
        interval_s: how often the thread looks by itself for records that nobody published.
        limits_ms: upper limits of the histogram of waits, whole milliseconds.

    Attributes:
        in_caller: whoever waits syncs itself if nobody syncs. A hanging sync then holds it, whatever its timeout.
        gate: a socket to which a byte is written before each sync, and then one is read, for tests; -1: none.

    Thread: any, for every method but `sync_file` (the flusher's).
    """

    def __init__(
        self, log: LogWatermark, owner: object, after_flush, timeout_s: float, interval_s: float, limits_ms: tuple
    ) -> None:
        if not cython.compiled:
            raise NotImplementedError("a flusher is compiled")
        if len(limits_ms) > 16:
            raise ValueError("more than 16 limits")
        self._log, self._owner, self._after_flush, self._kept = log, owner, after_flush, []
        self._flushed = cython.address(log.flushed_where)
        if after_flush is not None:
            # R9. `_after_flush` is kept for as long as this address is used.
            self._needs_wake = cython.address(self._after_flush._needs_wake)
        self._timeout = cython.cast(cython.longlong, timeout_s * 1e9)
        self._interval = cython.cast(cython.longlong, interval_s * 1e9)
        self._limit_count = len(limits_ms)
        i: cython.int
        for i in range(self._limit_count):
            self._limits[i] = limits_ms[i]
        self._appended = self._covered = log.flushed_where
        self.gate = -1

    def __dealloc__(self):
        if cython.compiled:  # the thread holds a reference, so it has ended or was never started
            self._forget_files()
            free(self._files)
            free(self._lock_file.path)

    def guard(self, path: bytes, dev: cython.longlong, ino: cython.longlong) -> None:
        """Compare after each sync whether this path, the store's lock, names the same file.

        If not, `owner.is_ours` judges. Call it before `start`.
        """
        self._lock_file.path = strdup(path)
        self._lock_file.dev, self._lock_file.ino = dev, ino

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        Py_INCREF(self)  # for the thread
        self._pid = getpid()
        error: cython.int = fmq_start(
            cython.address(self._thread), cython.address(_main), cython.cast(cython.p_void, self)
        )
        if error != 0:
            Py_DECREF(self)
            raise RuntimeError("can't start new thread")
        self._has_thread = True

    def stop(self) -> None:
        """Sync what was published, answer all who wait, and end the thread, if there is one."""
        if self._stopping:
            return
        store32(cython.address(self._stopping), 1)
        if not self._has_thread:
            store32(cython.address(self._ended), 1)
            return
        with cython.nogil:
            self._ring()
            fmq_join(cython.address(self._thread))

    def poison(self) -> None:
        """Answer everybody that waits or comes with FAILED, and sync nothing any more."""
        store32(cython.address(self._failed), 1)
        self._ring()

    @property
    def time(self) -> int:
        """Store time in ms of the last record that a sync covered; 0: there was none."""
        return load64(cython.address(self._time))

    @property
    def syncs(self) -> int:
        """Number of syncs of files."""
        return load64(cython.address(self._syncs))

    @property
    def is_failed(self) -> bool:
        """True once everybody gets FAILED."""
        return load32(cython.address(self._failed)) != 0

    @property
    def has_ended(self) -> bool:
        """True once the thread has answered everybody and ended."""
        return load32(cython.address(self._ended)) != 0

    @property
    def waiting(self) -> int:
        """Number of threads that wait."""
        i: cython.int
        count: cython.int = 0
        for i in range(4):
            count += load32(cython.address(self._sleepers[i]))
        return count

    def waits(self) -> list:
        """Return the number of waits in each bucket of the histogram but the first."""
        return [self._waits[bucket] for bucket in range(self._limit_count + 1)]

    # -- waiting ----------------------------------------------------------------------------------------------------

    def publish(self, appended: cython.longlong, time: cython.longlong) -> None:
        """Publish the log's end and request a sync.

        Args:
            appended: the log's end.
            time: store time in ms of its last record, or of an earlier one.
        """
        self._publish(appended, time)
        self._ring()

    def _publish(self, appended, time):
        """Publish a log's end that is beyond the published one."""
        # W1. The end first: the thread reads the time first, so it never has a time of a record beyond the end.
        if raise64(cython.address(self._appended), appended):
            store64(cython.address(self._appended_time), time)

    def wait(self, end, appended, time):
        """Publish the log's end, then wait until the log is durable up to `end`.

        Returns:
            DURABLE, FAILED, LATE or STOPPED.
        """
        self._publish(appended, time)
        began: cython.longlong = fmq_now()
        status: cython.int = _INTERRUPTED
        while status == _INTERRUPTED:
            with cython.nogil:
                status = self._wait(end, began + self._timeout)
            if status == _INTERRUPTED:
                self._handle_signals()
        self._count(began, 1)
        return status

    def flush(self, end: cython.longlong, time: cython.longlong):
        """Publish the log's end and wait, however long, until the log is durable up to there.

        Returns:
            As `wait`, but for LATE.
        """
        self._publish(end, time)
        status: cython.int = _INTERRUPTED
        while status == _INTERRUPTED:
            with cython.nogil:
                status = self._wait(end, -1)
            if status == _INTERRUPTED:
                self._handle_signals()
        return status

    def _handle_signals(self):
        """Have Python handle signals that came during a wait."""
        PyErr_CheckSignals()
        if getpid() != self._pid:  # a handler forked, and this is the child: the thread stayed with the parent
            store32(cython.address(self._ended), 1)

    def _wait(self, end, deadline):
        """Wait for groups until `end` is durable."""
        while True:
            # W6. A failure before the rest: the page cache is not to be believed any more.
            if load32(cython.address(self._failed)):
                return _FAILED
            if load64(self._flushed) >= end:
                return _DURABLE
            if load32(cython.address(self._ended)):
                return _STOPPED
            n: cython.longlong = self._lead() if self.in_caller else 0
            if n < 0:
                continue
            if n == 0:  # W2
                n = load64(cython.address(self._begun)) + 1  # the next group to begin reads what was published before
            # W3: counted in before `_done` is looked at, else R7 might find nobody to wake.
            add32(cython.address(self._sleepers[n & 3]), 1)
            known: cython.int = load32(cython.address(self._words[n & 3]))
            # W4
            self._ring()
            error: cython.int = 0
            # W5
            while load64(cython.address(self._done)) < n and not load32(cython.address(self._ended)):
                error = fmq_sleep(cython.address(self._words[n & 3]), known, deadline)
                if error == ETIMEDOUT or error == EINTR:
                    break
            add32(cython.address(self._sleepers[n & 3]), -1)
            if load64(self._flushed) >= end:  # an earlier group may have covered it, while group n still syncs
                return _DURABLE
            if error == ETIMEDOUT:
                return _LATE
            if error == EINTR:
                return _INTERRUPTED

    def _lead(self):
        """Make a group in this thread if nobody makes one.

        Returns:
            -1: it is over. 0: it was not made. Else its number: the thread must go on with it.
        """
        n: cython.longlong = 0
        if swap32(cython.address(self._turn), 1):
            return 0
        # T3: a group that another caller could not end is the thread's.
        if load64(cython.address(self._begun)) == load64(cython.address(self._done)):
            n = -1 if self._group(True) else load64(cython.address(self._begun))
        self._give_turn()
        if n < 0 and self._needs_wake != cython.NULL and self._needs_wake[0]:
            self._ring()
        return n

    def _take_turn(self):
        """Wait for the turn; only the thread does."""
        if swap32(cython.address(self._turn), 1):
            store32(cython.address(self._queued), 1)
            while swap32(cython.address(self._turn), 1):
                fmq_sleep(cython.address(self._turn), 1, -1)
            store32(cython.address(self._queued), 0)

    def _give_turn(self):
        """Give the turn back."""
        store32(cython.address(self._turn), 0)
        if load32(cython.address(self._queued)):
            fmq_wake(cython.address(self._turn))

    def _count(self, began, waits):
        """Count waits in the histogram unless they belong to the first bucket."""
        ms: cython.longlong = (fmq_now() - began) // _MS
        i: cython.int = 0
        while i < self._limit_count and self._limits[i] < ms:
            i += 1
        if i > 0:
            add64(cython.address(self._waits[i]), waits)

    def _ring(self):
        """Make the thread begin another group."""
        add32(cython.address(self._bell), 1)
        if load32(cython.address(self._idle)):
            fmq_wake(cython.address(self._bell))

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self):
        """Make a group whenever the bell rang, until the flusher is stopped."""
        seen: cython.int = 0
        while True:
            self._take_turn()
            rung: cython.int = load32(cython.address(self._bell))
            # Looked at with the turn: a group that was left is made before the thread sleeps, or ends.
            if rung != seen or load64(cython.address(self._begun)) != load64(cython.address(self._done)):
                seen = rung
                self._group(False)
                self._give_turn()
                continue
            if load32(cython.address(self._stopping)):  # T4
                break
            self._touch_ahead()
            self._give_turn()
            # R1: idle before the look at the bell; who rings does both the other way round.
            store32(cython.address(self._idle), 1)
            error: cython.int = 0
            if load32(cython.address(self._bell)) == seen:
                error = fmq_sleep(cython.address(self._bell), seen, fmq_now() + self._interval)
            store32(cython.address(self._idle), 0)
            if error == ETIMEDOUT:
                _ask(cython.cast(cython.p_void, self), _LOOK, 0)
        self._end()

    def _group(self, leads):
        """Sync for everybody who published before, and answer them.

        Args:
            leads: this is not the thread, so no Python code runs.

        Returns:
            Whether it is over; if not, the thread must go on with it.
        """
        n: cython.longlong = load64(cython.address(self._done)) + 1
        if load64(cython.address(self._begun)) == n:  # T3: it was left
            self._ring()
        # R2
        store64(cython.address(self._begun), n)
        # R3
        time: cython.longlong = load64(cython.address(self._appended_time))
        target: cython.longlong = load64(cython.address(self._appended))
        if target > load64(self._flushed) and not load32(cython.address(self._failed)):
            # R4 and R5. Then the failure once more: another service may have met one while this thread synced.
            outcome: cython.int = self._sync(target, leads)
            if outcome == _LEFT:
                return False
            if outcome == _DURABLE and not load32(cython.address(self._failed)):
                # R6
                self._grown = target - load64(self._flushed)
                store64(cython.address(self._time), time)
                store64(self._flushed, target)
            else:
                store32(cython.address(self._failed), 1)
        # R7
        store64(cython.address(self._done), n)
        store32(cython.address(self._words[n & 3]), cython.cast(cython.int, n & 0x3FFFFFFF))
        if load32(cython.address(self._sleepers[n & 3])) > 0:
            fmq_wake(cython.address(self._words[n & 3]))
        # R8
        self._notify(n)
        # R9: without the GIL, and after `_flushed` is published.
        if not leads and self._needs_wake != cython.NULL and self._needs_wake[0]:
            _ask(cython.cast(cython.p_void, self), _WAKE, 0)
        return True

    def _sync(self, target, leads):
        """Make the log durable up to `target`.

        Returns:
            DURABLE or FAILED; LEFT if `leads` and the owner must be asked.
        """
        if self._refused == 0:
            if self._covered < target:
                if leads:
                    return _LEFT
                if not _ask(cython.cast(cython.p_void, self), _FILES, target):
                    return _FAILED
            self._refused = self._sync_files(target)
        if self._refused != 0:  # the kernel may have dropped the pages: never tried again
            if leads:
                return _LEFT
            _ask(cython.cast(cython.p_void, self), _ERROR, self._refused)
            return _FAILED
        # R5: last, because a name that is lost amid the syncs must be seen, too.
        if self._has_names():
            return _DURABLE
        if leads:
            return _LEFT
        return _DURABLE if _ask(cython.cast(cython.p_void, self), _OURS, 0) else _FAILED

    def _sync_files(self, target):
        """Sync each file with new bytes below `target`, oldest first; return the first error, or 0."""
        i: cython.int
        upto: cython.longlong
        for i in range(self._file_count):
            if self._files[i].start >= target:
                break
            upto = (target if target < self._files[i].end else self._files[i].end) - self._files[i].start
            if upto <= self._files[i].flushed[0]:
                continue
            if self.gate >= 0:
                fmq_pass(self.gate)
            error: cython.int = fmq_sync(self._files[i].fd)
            add64(cython.address(self._syncs), 1)
            if error != 0:
                return error
            # After the sync: whoever reads it (MappedFile.flush) takes the bytes below for durable.
            store64(self._files[i].flushed, upto)
        return 0

    def _touch_ahead(self):
        """Make the pages writable that a group as large as the last one will store into.

        A sync makes the pages of a map read-only again, so that the next store into each is a page fault. The writer
        has puts to make now, and this thread has nothing to do.
        """
        i: cython.int = self._file_count - 1
        begin: cython.longlong = load64(self._flushed)
        if self._grown > 0 and i >= 0 and self._files[i].map[0] != cython.NULL and begin >= self._files[i].start:
            begin -= self._files[i].start
            fmq_touch(
                self._files[i].map[0], begin, min(begin + min(self._grown, _AHEAD), load64(self._files[i].reserved))
            )
        self._grown = 0

    def _has_names(self):
        """Return whether lock and newest file have their names."""
        i: cython.int = self._file_count - 1
        if self._lock_file.path == cython.NULL:
            return True
        if not fmq_names(self._lock_file.path, self._lock_file.dev, self._lock_file.ino):
            return False
        return i < 0 or fmq_names(self._files[i].path, self._files[i].dev, self._files[i].ino)

    def _notify(self, n):
        """Ring the event of each loop that waits for group n."""
        if self._loops == cython.NULL:
            return
        fmq_lock(cython.address(self._thread))  # no event is closed meanwhile
        node: cython.pointer(fmq_loop) = self._loops
        while node != cython.NULL:
            if swap32(cython.address(node.want[n & 3]), 0):
                fmq_ring_event(node.event)
            node = node.next
        fmq_unlock(cython.address(self._thread))

    def _end(self):
        """Answer everybody who still waits, or is about to."""
        i: cython.int
        # Before the words: who wakes by them and does not find it sleeps again.
        store32(cython.address(self._ended), 1)
        for i in range(4):
            store32(cython.address(self._words[i]), -1)
            fmq_wake(cython.address(self._words[i]))
        fmq_lock(cython.address(self._thread))
        node: cython.pointer(fmq_loop) = self._loops
        while node != cython.NULL:
            fmq_ring_event(node.event)
            node = node.next
        fmq_unlock(cython.address(self._thread))

    def _asked(self, what, number):
        """Ask the owner, with the GIL."""
        if what == _FILES:
            # All anew: the owner names those that are not wholly on disk, so files that were closed since are left out.
            self._forget_files()
            self._owner.log_files()
            return self._covered >= number
        if what == _ERROR:
            self._owner.failed(OSError(number, _text(number)))
        elif what == _OURS:
            return self._owner.is_ours()
        elif what == _LOOK:
            self._owner.look()
        elif what == _WAKE:
            # R9
            self._after_flush.wake()
        return True

    def sync_file(self, file: AppendTarget, fd: cython.int, path: bytes) -> None:
        """Note a file to be synced, oldest first; only `owner.log_files` calls it.

        Raises:
            OSError: it is not open.
            MemoryError: there is no room for it.
        """
        one: SyncedFile
        error: cython.int = fmq_identity(fd, cython.address(one.dev), cython.address(one.ino))
        if error != 0:
            raise OSError(error, _text(error))
        more: cython.pointer(SyncedFile) = cython.cast(
            cython.pointer(SyncedFile), realloc(self._files, (self._file_count + 1) * cython.sizeof(SyncedFile))
        )
        if more == cython.NULL:
            raise MemoryError("no room for a file")
        self._files = more
        one.path = strdup(path)
        if one.path == cython.NULL:
            raise MemoryError("no room for a path")
        one.start, one.end, one.fd = file.start, file.start + file.size, fd
        one.flushed, one.reserved = cython.address(file.flushed), cython.address(file.reserved)
        one.map = cython.address(file._p)
        self._kept.append(file)
        self._files[self._file_count] = one
        self._file_count += 1
        if one.start <= self._covered:
            self._covered = one.end

    def _forget_files(self):
        """Forget all files."""
        i: cython.int
        for i in range(self._file_count):
            free(self._files[i].path)
        self._file_count, self._kept = 0, []
        self._covered = self._log.flushed_where if self._log is not None else 0

    # -- event loops ------------------------------------------------------------------------------------------------

    def _link(self, node):
        """Add an event loop."""
        fmq_lock(cython.address(self._thread))
        node.next = self._loops
        self._loops = node
        fmq_unlock(cython.address(self._thread))

    def _unlink(self, node):
        """Remove an event loop; its event is not rung any more."""
        fmq_lock(cython.address(self._thread))
        at: cython.pointer(cython.pointer(fmq_loop)) = cython.address(self._loops)
        while at[0] != cython.NULL and at[0] != node:
            at = cython.address(at[0].next)
        if at[0] == node:
            at[0] = node.next
        fmq_unlock(cython.address(self._thread))

    def _want(self, node):
        """Have the loop's event rung once what was published is on disk, or cannot be."""
        # W2, then W7: the wish before the look at `_done`.
        n: cython.longlong = load64(cython.address(self._begun)) + 1
        store32(cython.address(node.want[n & 3]), 1)
        self._ring()
        over: cython.bint = load64(cython.address(self._done)) >= n or load32(cython.address(self._ended))
        if over and swap32(cython.address(node.want[n & 3]), 0):  # it was over before the thread could see the wish
            fmq_ring_event(node.event)


def _text(error):
    """Return the text of an error number."""
    import os

    return os.strerror(error)


def _ask(owner, what, number):
    """Ask the owner of a flusher; an exception counts as a failure."""
    flusher: Flusher = cython.cast(Flusher, owner)
    try:
        return flusher._asked(what, number)
    except BaseException as error:  # of any kind: puts must not go on as if nothing were wrong
        try:
            flusher._owner.failed(error)  # first: whoever is answered FAILED finds the store refusing puts
        finally:
            store32(cython.address(flusher._failed), 1)
        return False


def _main(owner):
    """Run the thread of a flusher, which lives as long as its thread."""
    flusher: Flusher = cython.cast(Flusher, owner)
    with cython.nogil:
        flusher._run()
    Py_DECREF(flusher)
