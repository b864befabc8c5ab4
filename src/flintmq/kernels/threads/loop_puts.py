# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Answers the puts that an event loop awaits: once they are on disk, or on replicas.

The puts of one turn of the loop form a group: the first of them schedules one call, which hands the group in. One
callback of the loop answers all of it once it is on disk, for which the flusher rings the loop's event descriptor, or
once enough replicas have it. It steps the tasks that wait itself: a call of `call_soon` for each future takes as long
as the put.
"""

import cython

if not cython.compiled:
    from flintmq.kernels.threads.flusher import Flusher
    from flintmq.kernels.write.fast_append import LoopWaits

_PENDING = cython.declare(cython.int, 0)
_DONE = cython.declare(cython.int, 1)
_CANCELLED = cython.declare(cython.int, 2)


@cython.final
@cython.freelist(256)
@cython.cclass
class PutFuture:
    """A future of asyncio's protocol (`asyncio.isfuture`) for the result of one put.

    Thread: the loop's.
    """

    def get_loop(self):
        """Return the event loop."""
        return self._loop

    def done(self) -> bool:
        """Return whether it has a result or is cancelled."""
        return self._state != _PENDING

    def cancelled(self) -> bool:
        """Return whether it is cancelled."""
        return self._state == _CANCELLED

    def result(self):
        """Return the result.

        Raises:
            asyncio.CancelledError: it is cancelled.
            asyncio.InvalidStateError: there is none yet.
        """
        if self._state != _DONE:
            raise self._error()
        return self._result

    def exception(self):
        """Return None: a put that fails has a status.

        Raises:
            asyncio.CancelledError: it is cancelled.
            asyncio.InvalidStateError: there is no result yet.
        """
        if self._state != _DONE:
            raise self._error()

    def _error(self):
        from asyncio import CancelledError, InvalidStateError

        if self._state == _PENDING:
            return InvalidStateError("Result is not set.")
        return CancelledError() if self._message is None else CancelledError(self._message)

    @property
    def _cancel_message(self):
        """The message of `cancel`; asyncio.gather asks each of its futures."""
        return self._message

    def _make_cancelled_error(self):
        """Return the error of a cancelled wait; asyncio.gather asks each of its futures."""
        return self._error()

    def cancel(self, msg=None) -> bool:
        """Cancel the wait; return False if it is over. The message stays stored."""
        if self._state != _PENDING:
            return False
        self._state, self._message = _CANCELLED, msg
        self._schedule()
        return True

    def add_done_callback(self, fn, *, context=None) -> None:
        """Have `fn(self)` called in this context when it is done, soon if it is."""
        if context is None:
            context = PyContext_CopyCurrent()
        if self._state != _PENDING:
            self._loop.call_soon(fn, self, context=context)
        elif self._callback is None:
            self._callback, self._context = fn, context
        else:
            if self._more is None:
                self._more = []
            self._more.append((fn, context))

    def remove_done_callback(self, fn) -> int:
        """Remove a callback; return how many of it there were."""
        count: cython.int = 0
        if self._more is not None:
            kept = [one for one in self._more if one[0] != fn]
            count = len(self._more) - len(kept)
            self._more = kept
        if self._callback is not None and self._callback == fn:
            count += 1
            self._callback = None
            if self._more:
                self._callback, self._context = self._more.pop(0)
        return count

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self._state == _PENDING:
            self._asyncio_future_blocking = True
            return self
        if self._state != _DONE:
            raise self._error()
        # The exception is only set: to raise it would make one, and a traceback, for each put.
        PyErr_SetObject(StopIteration, self._result)
        raise StopIteration

    def __repr__(self) -> str:
        state = ("pending", f"result={self._result!r}", "cancelled")[self._state]
        return f"<PutFuture {state}>"

    def _schedule(self):
        """Have all callbacks called soon."""
        if self._callback is not None:
            self._loop.call_soon(self._callback, self, context=self._context)
            self._callback = self._context = None
        if self._more is not None:
            for fn, context in self._more:
                self._loop.call_soon(fn, self, context=context)
            self._more = None

    def _step(self, answered):
        """Call the first callback now, mostly a task's step, and have the others called soon.

        Args:
            answered: a future of asyncio's class with a result, which a task's step asks faster than this one.
        """
        fn, context = self._callback, self._context
        self._callback = self._context = None
        self._schedule()
        if fn is None:
            return
        try:
            PyContext_Enter(context)
        except RuntimeError:  # the code around this call runs in it
            self._loop.call_soon(fn, self, context=context)
            return
        try:
            fn(answered if fmq_is_task_step(fn) else self)
        finally:
            PyContext_Exit(context)


@cython.final
@cython.cclass
class Turn:
    """The puts of one turn of a loop, when their wait began, and their end in the log."""


@cython.cclass
class LoopTurns(LoopWaits):
    """Keeps the puts of one event loop, turn by turn.

    The base class of those that wait for the disk (kernels/threads/flusher.py), and of those that wait for replicas
    (ha/acks.py).

    Thread: the loop's.
    """

    def _begin(self, loop, running, late, timeout_s):
        if not cython.compiled:
            raise NotImplementedError("LoopPuts and ReplicaPuts are compiled")
        from collections import deque

        self.loop, self._running, self._late = loop, running, late
        self._answered = loop.create_future()
        self._answered.set_result(None)
        self._soon, self._futures, self._turns = loop.call_soon, [], deque()
        self._timeout = cython.cast(cython.longlong, timeout_s * 1e9)

    def _request(self, turn):
        """Have a turn's records made safe. It is the last of `_turns`."""
        raise NotImplementedError

    def _give_up(self, turn):
        """Give the futures of a turn that has waited too long their results.

        It is no more one of `_turns`.
        """
        raise NotImplementedError

    def add(self, result):
        """Return the future of a put that is stored."""
        future: PutFuture = PutFuture.__new__(PutFuture)
        future._loop, future._result = self.loop, result
        future._end = result.physical_offset + result.size
        self._futures.append(future)
        if not self._is_armed:
            self._is_armed = True
            self._soon(self.hand_in)
        return future

    def hand_in(self) -> None:
        """Request the answer to the puts of this turn."""
        turn: Turn = Turn.__new__(Turn)
        turn.futures, self._futures, self._is_armed = self._futures, [], False
        if not turn.futures:  # all were refused meanwhile
            return
        last: PutFuture = turn.futures[len(turn.futures) - 1]
        turn.end, turn.since = last._end, fmq_now()
        self._turns.append(turn)
        try:
            self._request(turn)
        finally:  # also if a signal handler raised: the time of its puts runs all the same
            if self._timer is None and self._turns:
                self._watch(turn.since)

    def _settle(self, futures, at, reached):
        """Give each future from `at` on its result: what ends below `reached` is safe.

        No Python code runs here, so no signal can interrupt it and leave a put without a result.
        """
        one: PutFuture
        i: cython.Py_ssize_t
        for i in range(at, len(futures)):
            one = futures[i]
            if one._state == _PENDING:
                if one._end > reached:
                    one._result = one._result.with_status(self._late)
                one._state = _DONE

    def _step_all(self, futures):
        """Step whoever waits for these futures, which are done, and empty the list."""
        one: PutFuture
        i: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = len(futures)
        before: cython.ulong = self._stepper
        self._stepper = PyThread_get_thread_ident()
        try:
            while i < count:
                one = futures[i]
                futures[i] = None  # so that the put of its task takes the memory of this one
                i += 1
                try:
                    one._step(self._answered)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.loop.call_exception_handler(
                        {"message": "Exception in a callback of a put", "exception": error, "future": one}
                    )
        finally:
            self._stepper = before
            while i < count:  # what comes through ends the loop, as from any callback; these are stepped if it goes on
                one = futures[i]
                i += 1
                one._schedule()
            futures.clear()

    def _is_stepping(self):
        """Return whether this thread steps the tasks that wait, so that it runs the loop."""
        return self._stepper != 0 and self._stepper == PyThread_get_thread_ident()

    def expire(self) -> None:
        """Answer the turns that have waited too long, and watch the others."""
        turn: Turn
        ready: list = []
        self._timer = None
        while self._turns:
            turn = self._turns[0]
            if fmq_now() < turn.since + self._timeout:
                break
            self._turns.popleft()
            self._give_up(turn)
            ready.extend(turn.futures[turn.settled :])
        try:
            if self._turns:
                turn = self._turns[0]
                self._watch(turn.since)
        finally:
            self._step_all(ready)

    def _watch(self, since):
        """Set the timer for a turn that waits since then."""
        self._timer = self.loop.call_later(max(since + self._timeout - fmq_now(), 0) / 1e9, self.expire)


@cython.final
@cython.no_gc_clear
@cython.cclass
class LoopPuts(LoopTurns):
    """The puts of one event loop that wait for the disk.

    Args:
        flusher: of the store.
        loop: the loop. This thread runs it.
        running: returns the loop that this thread runs (asyncio._get_running_loop), or None.
        late: status of a put that is not known to be on disk.
        timeout_s: how long a put waits (syncFlushTimeout).

    Raises:
        OSError: no event descriptor is left.
        NotImplementedError: the loop watches no descriptors.

    Thread: the loop's.
    """

    def __init__(self, flusher: Flusher, loop, running, late, timeout_s: float) -> None:
        self._begin(loop, running, late, timeout_s)
        self._flusher, self._pid = flusher, getpid()
        self._node = cython.cast(cython.pointer(fmq_loop), calloc(1, cython.sizeof(fmq_loop)))
        if self._node == cython.NULL:
            raise MemoryError("no room for an event loop")
        self._node.event = fmq_event()
        if self._node.event < 0:
            raise OSError("no event descriptor is left")
        loop.add_reader(self._node.event, self.complete)
        flusher._link(self._node)

    def __dealloc__(self):
        if cython.compiled:
            if self._node != cython.NULL:
                if self._node.event >= 0:
                    # In a forked child the thread is gone, and may have held its lock for good.
                    if self._flusher is not None and self._pid == getpid():
                        self._flusher._unlink(self._node)
                    close(self._node.event)
                free(self._node)

    def is_running(self):
        """Return whether this thread runs the loop, and the flusher still answers."""
        if self._is_over or not (self._is_stepping() or self._running() is self.loop):
            return False
        return load32(cython.address(self._flusher._ended)) == 0

    def _request(self, turn):
        """Request a sync."""
        last: PutFuture = turn.futures[len(turn.futures) - 1]
        self._flusher._publish(turn.end, last._result.store_timestamp)
        self._flusher._want(self._node)

    def _give_up(self, turn):
        """Give the futures of a turn that has waited too long their results."""
        self._answer(turn, load64(self._flusher._flushed))

    def _answer(self, turn, durable):
        """Give the futures of a turn their results: all are durable, or none is known to be."""
        self._flusher._count(turn.since, len(turn.futures))
        self._settle(turn.futures, 0, turn.end if turn.end <= durable else -1)

    def complete(self) -> None:
        """Answer the puts that are on disk, and all if nothing will be synced any more."""
        turn: Turn
        if self._is_over:
            return
        fmq_take_event(self._node.event)
        over: cython.bint = load32(cython.address(self._flusher._ended)) != 0
        failed: cython.bint = load32(cython.address(self._flusher._failed)) != 0
        durable: cython.longlong = load64(self._flusher._flushed)
        ready: list = []
        while self._turns:
            turn = self._turns[0]
            if turn.end > durable and not failed and not over:
                break
            self._turns.popleft()
            self._answer(turn, durable)
            ready = ready + turn.futures if ready else turn.futures
        try:
            self._step_all(ready)
        finally:
            if over and not self._turns and not self._futures:
                self.detach()

    def detach(self) -> None:
        """Take the event from the loop; later puts of this loop need other LoopPuts."""
        if not self._is_over:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self.loop.is_closed():
                self.loop.remove_reader(self._node.event)
            self._flusher._unlink(self._node)
            close(self._node.event)
            self._node.event = -1


@cython.final
@cython.cclass
class ReplicaPuts(LoopTurns):
    """The puts of one event loop that wait for replicas.

    Args:
        loop: the loop. This thread runs it.
        running: returns the loop that this thread runs (asyncio._get_running_loop), or None.
        late: status of a put that is not known to be on enough replicas.
        timeout_s: how long a put waits (slaveTimeout).
        send: called at the end of a turn; has the records sent, and returns the log offset that enough replicas have
            by now.

    Raises:
        NotImplementedError: it is not compiled.

    Thread: the loop's; any may ask whether puts wait (`bool`).
    """

    def __init__(self, loop, running, late, timeout_s: float, send) -> None:
        self._begin(loop, running, late, timeout_s)
        self._send, self._reached = send, -1

    def __bool__(self) -> bool:
        return bool(self._turns) or bool(self._futures)

    def is_running(self):
        """Return whether this thread runs the loop, and replicas are waited for."""
        return not self._is_over and (self._is_stepping() or self._running() is self.loop)

    def _request(self, turn):
        """Have the records sent; those that replicas have meanwhile are answered at once."""
        self.complete(self._send())

    def complete(self, reached: cython.longlong) -> None:
        """Answer the puts below a log offset: replicas have them."""
        self._step_all(self._answer(reached))

    def _answer(self, reached):
        """Give the futures of puts below a log offset their results, and return these."""
        turn: Turn
        one: PutFuture
        ready: list = []
        self._reached = max(self._reached, reached)
        while self._turns:
            turn = self._turns[0]
            count: cython.Py_ssize_t = len(turn.futures)
            while turn.settled < count:
                one = turn.futures[turn.settled]
                if one._end > reached:
                    return ready
                if one._state == _PENDING:
                    one._state = _DONE
                turn.settled += 1
                ready.append(one)
            self._turns.popleft()
        return ready

    def _give_up(self, turn):
        """Give the futures of a turn that has waited too long their results."""
        self._settle(turn.futures, turn.settled, self._reached)

    def refuse_all(self) -> None:
        """Answer all puts, and each later one elsewhere: no replica will have them."""
        turn: Turn
        ready: list = []
        self._is_over = True
        while self._turns:
            turn = self._turns.popleft()
            self._settle(turn.futures, turn.settled, -1)
            ready.extend(turn.futures[turn.settled :])
        last, self._futures = self._futures, []
        self._settle(last, 0, -1)
        ready.extend(last)
        self._step_all(ready)
