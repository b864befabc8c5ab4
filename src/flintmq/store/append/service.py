"""Runs one put end to end: check, append, wait for flush, count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flintmq.config.keys import StoreConfig
from flintmq.format.index import PEER_533
from flintmq.kernels.write.fast_append import Appender, LoopWaits
from flintmq.message import ColumnsResult, Message, PutMessageStatus, PutResult
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.batch import put_batch
from flintmq.store.append.columns import put_columns
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.flush import FlushService
from flintmq.store.append.replicas import Replicas
from flintmq.store.append.stats import Counters

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

OK = PutMessageStatus.PUT_OK


class PutService:
    """Puts into one store.

    `replicas`: answers puts once replicas have them; None: no put waits for replicas. Thread: any.
    """

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        flush: FlushService,
        after_put: AfterPut,
        failure: DiskFailure,
        counters: Counters,
        peer: str = PEER_533,
        replicas: Replicas | None = None,
    ) -> None:
        self.config, self.log, self.flush, self.after_put = config, log, flush, after_put
        self.failure, self.counters, self.peer, self.replicas = failure, counters, peer, replicas
        self.waits = flush.sync or replicas is not None  # whether a put with `wait` waits for the disk or for replicas

    def put(self, message: Message, tried: bool = False) -> PutResult:
        """Put one message; return when the requested durability is reached."""
        result = self._append(message, tried)
        if result.status is not OK:
            return result
        if self.waits and message.wait:
            return self.settle(result)
        self._carry_on()
        return result

    def settle(self, result: PutResult) -> PutResult:
        """Return the final result of a stored message, after the wait for the disk and for replicas."""
        status = self._wait(result.physical_offset + result.size)
        return result if status is OK else self._late(result, status)

    def put_many(self, messages: list[Message], until_refused: bool, delivered: bool) -> list[PutResult]:
        """Put messages in order, with one wait for the disk at the end."""

        def append(many: list[Message]) -> list[PutResult]:
            return self.log.append_many(many, until_refused, delivered)

        return self._settle_all(messages, self._append_all(messages, append))

    def put_batch(self, messages: list[Message], shared: Mapping[str, str] | None) -> list[PutResult]:
        """Put a batch, all or none, with one wait for the disk at the end."""

        def append(batch: list[Message]) -> list[PutResult]:
            return put_batch(self.log, batch, shared, self.peer)

        return self._settle_all(messages, self._append_all(messages, append)) if messages else []

    def _settle_all(self, messages: list[Message], results: list[PutResult]) -> list[PutResult]:
        """Return the final results of appended messages, after one wait for the disk."""
        assert len(results) <= len(messages)  # callers match results to messages by index
        stored = [r for r in results if r.status is OK]
        if not stored:
            return results
        if not (self.waits and any(message.wait for message in messages)):
            self._carry_on()
        elif (status := self._wait(stored[-1].physical_offset + stored[-1].size)) is not OK:
            results = [self._late(r, status) if r.status is OK else r for r in results]
        return results

    def put_columns(self, topic: str, batch: Any) -> ColumnsResult:
        """Put Arrow columns, with one wait for the disk at the end."""
        refusal = self._refusal()
        result = put_columns(self.log, topic, batch) if refusal is None else ColumnsResult(refusal)
        if result.count and not self.waits:
            self._carry_on(result.end - result.physical_offset)
        elif result.count and (status := self._wait(result.end)) is not OK:
            result = replace(result, status=status)
        if result.status is not OK:
            self.counters.refused(result.status.name)
        return result

    def put_async(self, message: Message, quick: Appender | None, tried: bool) -> Awaitable[PutResult]:
        """Append one message now, if possible by `quick`; return an awaitable of its result."""
        import asyncio  # loaded only for its users

        loop = asyncio.get_running_loop()  # before anything is stored
        result = quick.append(message) if quick is not None and not tried else None
        if result is None:
            result = self._append(message, tried=quick is not None)
        stored = result.status is OK
        waiting: Awaitable[PutResult]
        if stored and self.replicas is not None and message.wait:
            waiting = self._replicated(self.replicas, result, loop)
        elif stored and self.flush.sync and message.wait:
            waiting = self.flush.future(result.physical_offset + result.size, result, loop)
        else:
            if stored:
                self._carry_on()
            waiting = loop.create_future()
            waiting.set_result(result)
        return waiting

    def _replicated(self, replicas: Replicas, result: PutResult, loop: AbstractEventLoop) -> Awaitable[PutResult]:
        """Begin the waits of a put for replicas and the disk; return the future of both.

        It waits for the disk under SYNC_FLUSH only. The status of the replicas hides that of the disk.
        """
        acknowledged = replicas.future(result, loop, self.make_readable)
        if not self.flush.sync:
            return acknowledged
        flushed = self.flush.future(result.physical_offset + result.size, result, loop)

        async def settled() -> PutResult:
            final = await flushed
            replicas.wake()  # what is sent only once it is durable may be so by now
            done = await acknowledged
            return final if done is result else done

        return loop.create_task(settled())

    @property
    def loop_puts(self) -> LoopWaits | None:
        """The puts of the event loop that put last, for its fast way; None: there is none."""
        if self.replicas is not None:  # a put that waits for the disk, too, takes the slow way
            return None if self.flush.sync else self.replicas.loop_puts
        loops = self.flush.loops  # read once: another thread may replace it
        return loops[-1] if loops else None

    def _append(self, message: Message, tried: bool) -> PutResult:
        refusal = self._refusal()
        append = self.log.append_slowly if tried else self.log.append
        result = append(message) if refusal is None else PutResult(refusal)
        if result.status is not OK:
            self.counters.refused(result.status.name)
        return result

    def _append_all(
        self, messages: list[Message], append: Callable[[list[Message]], list[PutResult]]
    ) -> list[PutResult]:
        refusal = self._refusal()
        results = append(messages) if refusal is None else [PutResult(refusal) for _ in messages]
        for result in results:
            if result.status is not OK:
                self.counters.refused(result.status.name)
        return results

    def _refusal(self) -> PutMessageStatus | None:
        """Return the status if nothing can be put now, else None."""
        if self.failure or self.log.appender.refusing or self.config.broker_role == "SLAVE":
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if self.log.slow.since and self.log.slow.busy(self.config.os_page_cache_busy_time_out_mills):
            return PutMessageStatus.OS_PAGE_CACHE_BUSY
        return None

    def _wait(self, end: int) -> PutMessageStatus:
        """Wait for the disk and for replicas, as configured, until they have the log below `end`.

        Both waits run at once.

        Returns:
            PUT_OK; FLUSH_DISK_TIMEOUT, or FLUSH_SLAVE_TIMEOUT, which tells more than the disk's and hides it.
        """
        replicas = self.replicas
        if replicas is not None and replicas.exchange(end):  # which it does only under ASYNC_FLUSH
            self._carry_on()
            return OK
        # Before the flush: an acknowledgement that comes while the disk syncs must find the request.
        request = replicas.request(end) if replicas is not None else None
        status = OK
        if self.flush.sync:
            if replicas is not None:
                replicas.wake()  # it is sent while the disk syncs
            if not self.flush.wait_flushed(end):
                status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        if replicas is not None and request is not None:
            self._commit()
            if not replicas.wait(request):
                status = PutMessageStatus.FLUSH_SLAVE_TIMEOUT
            if not self.flush.sync:
                self._carry_on()  # mostly the listener has done so meanwhile
        return status

    def make_readable(self) -> None:
        """Have records of which replicas are to be sent soon in the log's files, and dispatched."""
        self._commit()
        if not self.flush.sync:
            self._carry_on()

    def _commit(self) -> None:
        """Write what is in the pool to the log's files, unless the flush does it."""
        if not self.flush.sync and self.flush.commits is not None:
            self.flush.commits.commit_once()

    def unsettled(self, result: PutResult) -> PutResult:
        """Return the final result of a stored message that is not known to be on disk."""
        return self._late(result, PutMessageStatus.FLUSH_DISK_TIMEOUT)

    def _late(self, result: PutResult, status: PutMessageStatus) -> PutResult:
        """Return the final result of a stored message that is not known to be as safe as asked for."""
        self.counters.refused(status.name)
        return result.with_status(status)

    def _carry_on(self, size: int = 0) -> None:
        """Wake the service that takes new records (`size` bytes, if many) when no put waits."""
        if self.after_put.needs_wake:
            self.after_put.wake(size)
