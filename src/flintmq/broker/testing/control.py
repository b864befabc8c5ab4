"""Runs a broker for a test, in this process: starts, stops, kills, disturbs and asks it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from typing import Any, Final, Self

from flintmq.broker.broker import Broker
from flintmq.broker.broker_keys import settings_of
from flintmq.broker.testing.chaos import Chaos, ClientRequest, DisturbedRequests
from flintmq.broker.testing.clock import MovedClock
from flintmq.config.text import check_seconds
from flintmq.errors import UsageError
from flintmq.format.group_topics import dead_letter_topic, is_system_topic
from flintmq.format.text import brief
from flintmq.message import StoredMessage
from flintmq.remoting.names import SERVICE_NOT_AVAILABLE
from flintmq.store import arguments
from flintmq.store.layout.root_names import is_of_a_store
from flintmq.store.message_store import MessageStore

LOOK_S: Final = 0.005  # between two looks at the store
SHOWN_MAX: Final = 4  # messages that an error shows
LOG: Final = "commitlog"
ELSEWHERE: Final = "readOnlyCommitLogStorePaths", "storePathCommitLog"  # keys of logs outside of the path

gives_up: ContextVar[Callable[[], bool]] = ContextVar("gives_up", default=lambda: False)
"""Tells a wait of this thread whether anybody still wants to know."""


class BrokerControl:
    """A broker of a test, started and stopped by a `with` block.

    It is a `flintmq.broker.Broker` of small files at a free port of 127.0.0.1. Each send takes the way of those that
    are not plain, which is slower; its answers are the same.

    Thread: any.

    Args:
        path: of the store.
        config: RocketMQ's keys of the store and of the broker.
        options: others of `Broker`.

    Raises:
        ConfigError: an unknown key or an impossible value.
        UsageError: the configuration names the log of another store, which a kill or a reset would harm.
        FlintError (at the start): as `Broker`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, object] | str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self._path, self._options = os.path.abspath(path), {"dev": True, "config": config, **options}
        keys, _ = settings_of(config, options.get("settings", ()))
        for key in ELSEWHERE:
            if keys.key(key):  # whoever set it: a StoreConfig knows only of some that they were given
                raise UsageError(f"{key}: a broker of tests has its log in its own store; leave out this key")
        self._was_there = os.path.isdir(self._path) and any(map(is_of_a_store, os.listdir(self._path)))
        self._chaos, self._clock, self._running = Chaos(), MovedClock(), ExitStack()
        self._broker = self._made()
        self._is_up = False

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Return the address of name server and broker, HOST:PORT; a restart keeps it."""
        return self._broker.address

    @property
    def addresses(self) -> list[str]:
        """Return all addresses for clients; a restart keeps them."""
        return self._broker.addresses

    def metrics(self) -> str:
        """Return figures of now, as `Broker.metrics`."""
        return self._broker.metrics()

    @property
    def store(self) -> MessageStore:
        """Return the store, to put and get beside the clients.

        Raises UsageError: the broker is stopped.
        """
        store = self._broker.store
        assert isinstance(store, MessageStore)
        return store

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages that a topic has now, in the order in which they arrived."""
        found = list[StoredMessage]()
        for queue_id in self._queues(topic):
            at, end = self.store.bounds(topic, queue_id)
            while at < end:
                got = self.store.get(topic, queue_id, at, 1000)
                found += got.messages
                at = max(got.next_begin_offset, at + 1)
        return sorted(found, key=lambda message: message.physical_offset)

    def wait(self, topic: str, count: int, timeout: float = 5.0) -> list[StoredMessage]:
        """Return the first messages of a topic, in the order in which they arrived.

        It waits until there are so many.

        Raises:
            TimeoutError: there are fewer after this time (seconds); it shows those.
            UsageError: a count below 0; a timeout that is no time.
        """

        check_seconds("timeout", timeout)
        if count < 0:
            raise UsageError(f"count={count}: give 0 or more")

        def size() -> int:
            bounds = (self.store.bounds(topic, queue_id) for queue_id in self._queues(topic))
            return sum(end - begin for begin, end in bounds)

        _until(lambda: size() >= count, timeout)
        # Read after they were counted: any that arrived before one of these is there by now.
        found = self.messages(topic)
        if len(found) < count:
            shown = ", ".join(brief(message.body) for message in found[:SHOWN_MAX])
            raise TimeoutError(f"{topic} has {len(found)} of {count} messages after {timeout:g} s: {shown or 'none'}")
        return found[:count]

    def lag(self, group: str, topic: str) -> int:
        """Return how many messages of a topic a group has not committed; all if it never did."""
        lag = 0
        for queue_id in self._queues(topic):
            begin, end = self.store.bounds(topic, queue_id)
            committed = self.store.consumer_offset(group, topic, queue_id)
            lag += end - max(begin, -1 if committed is None else committed)
        return lag

    def wait_consumed(self, group: str, topic: str | None = None, timeout: float = 15.0) -> None:
        """Wait until a group has committed all messages of a topic.

        Without a topic: of each that it has offsets of. Stock clients commit each 5 s. A message that waits for its
        next delivery is in no topic meanwhile.

        Raises:
            TimeoutError: it has not after this time (seconds); it names the lags.
            UsageError: a timeout that is no time.
        """

        check_seconds("timeout", timeout)

        def lags() -> dict[str, int]:
            if topic is not None:
                return {topic: self.lag(group, topic)}
            known = self.store.group(group) is not None
            return {name: self.lag(group, name) for name, _ in (self.store.group_offsets(group) if known else ())}

        def is_consumed() -> bool:
            found = lags()
            return bool(found) and not any(found.values())

        if not _until(is_consumed, timeout):
            text = ", ".join(f"{lag} of {name}" for name, lag in sorted(lags().items()))
            raise TimeoutError(f"{group} has not committed after {timeout:g} s: {text or 'it has no offsets'}")

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the messages that a group gave up, in the order in which it did."""
        return self.messages(dead_letter_topic(group))

    def requests(self, code: int | None = None) -> list[ClientRequest]:
        """Return what clients asked, in its order; of one code, or all. The last 100,000 are kept."""
        return [asked for asked in self._chaos.asked() if code in (None, asked.code)]

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def fail(self, code: int, answer: int = SERVICE_NOT_AVAILABLE, times: int = 2, before: bool = True) -> None:
        """Have the next requests of a code fail.

        Args:
            code: RocketMQ's code of the request. Sends: 10, 310, a batch 320; pulls: 11.
            answer: code that the client gets.
            times: how many requests.
            before: nothing of what they ask is done. False: it is done, and clients that send again send twice.

        Raises:
            UsageError: times is less than 1; no client can read this code of an answer.
            TypeError: `before` is neither True nor False.
        """
        arguments.flags(before=before)
        self._chaos.disturb(DisturbedRequests(code, times, answer, before))

    def drop_connections(self, times: int = 1, code: int | None = None, before: bool = True) -> None:
        """Have the next requests lose their connection in place of an answer.

        Args, and what is raised: as `fail`; code None: any request.
        """
        arguments.flags(before=before)
        self._chaos.disturb(DisturbedRequests(code, times, None, before))

    def delay(self, code: int, seconds: float) -> None:
        """Have requests of a code wait before they are taken; 0 ends it, also for those that wait.

        Raises UsageError: seconds that are no time.
        """
        check_seconds("seconds", seconds)
        self._chaos.delay(code, seconds)

    def calm(self) -> None:
        """End what `fail`, `drop_connections` and `delay` began; a stop and a kill do so, too."""
        self._chaos.clear()

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward: what waits for a time comes as if that had passed.

        That are delay levels, timers, popped messages that nobody acknowledged, and the age at which a producer is
        asked how its transaction ends (at the next transactionCheckInterval). Members and leases stay, pulls wait on,
        pops that wait are answered, and what clients measure is theirs. A restart keeps the clock, a reset does not.

        Raises UsageError: seconds that are no time.
        """
        check_seconds("seconds", seconds)
        self._clock.advance(seconds)

    # -- start and end ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the broker cleanly. Clients find nobody until `restart`."""
        self._chaos.clear()  # also what is delayed, for which the end would wait
        self._end()

    def kill(self) -> None:
        """Leave the store as `kill -9` of a broker at this moment, and stop; `restart` recovers it.

        The broker is in this process, so nothing is killed. All connections are closed without an answer. The store's
        files are copied as they are, which is what the kernel keeps of a killed process; after the broker's end the
        copy takes their place. Nobody may put into `store` meanwhile.

        Raises:
            UsageError: the broker is stopped.
            OSError, shutil.Error: the files cannot be copied, or the copy cannot take their place. They are left.
        """
        root = os.path.realpath(self.store.root)
        aside = tempfile.mkdtemp(prefix=f"{os.path.basename(root)}.killed-", dir=os.path.dirname(root))
        copy = os.path.join(aside, "copy")
        try:
            self._chaos.die()
            # The log last: a queue that is shorter than the log is what a kill leaves, a longer one is not.
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns(LOG), copy_function=_copy)
            shutil.copytree(os.path.join(root, LOG), os.path.join(copy, LOG), copy_function=_copy)
            self._end()
        except BaseException:
            self.calm()
            shutil.rmtree(aside, ignore_errors=True)
            raise
        os.rename(root, os.path.join(aside, "before"))  # from here on nothing is deleted before the copy is in place
        os.rename(copy, root)
        shutil.rmtree(aside)

    def restart(self) -> None:
        """Start the broker again at its address; one that runs is stopped before."""
        self.stop()
        self._options |= zip(("listen", "grpc"), self.addresses, strict=False)
        self._broker = self._made()
        self._start()

    def reset(self) -> None:
        """Empty the broker for the next test; start it if it is stopped.

        All topics and groups are deleted with their offsets, `requests` is empty, nothing is disturbed any more.
        Clients stay connected. A message that waits for its delay is delivered all the same, and makes its topic again.

        A clock that was moved goes back to the time of day. Nothing that has seen a later time may meet it, so then the
        files of the store are deleted, and the broker starts again: clients lose their connection.

        Raises:
            UsageError: the clock was moved, and the store was there before this control was made; nothing is deleted.
            StoreError, OSError: as `delete_topic` and `delete_group`; the files cannot be deleted.
        """
        if self._clock.ahead_s:
            if self._was_there:
                raise UsageError(f"{self._path} was there before: its log is not deleted to set a moved clock right")
            self.stop()
            _delete_store(self._path)
            self._clock.ahead_s = 0.0
        if not self._is_up:
            self.restart()
        self._chaos.clear()
        for topic in self.store.topics():
            if not is_system_topic(topic):
                self.store.delete_topic(topic)
        for group in self.store.groups():
            self.store.delete_group(group, clean_offsets=True)
        self._chaos.forget()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- its parts ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._running.enter_context(self._broker)
        assert self._broker.loop is not None
        self._clock.lead(self._broker.loop)
        self._is_up = True

    def _end(self) -> None:
        self._is_up = False
        try:
            self._running.close()
        finally:
            self._chaos.ended()

    def _made(self) -> Broker:
        broker = Broker(self._path, **self._options)
        broker.around, broker.effects = self._chaos.around, self._clock
        return broker

    def _queues(self, topic: str) -> range:
        settings = self.store.topic(topic)
        return range(0 if settings is None else max(settings.read_queues, settings.write_queues))


def _until(is_so: Callable[[], bool], timeout: float) -> bool:
    limit = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() >= limit or gives_up.get()():
            return False
        time.sleep(LOOK_S)
    return True


def _delete_store(path: str) -> None:
    """Delete what is of a store in a directory, and leave what is not."""
    for entry in list(os.scandir(path)):
        if is_of_a_store(entry.name):
            (shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # renamed meanwhile: it is copied under one of its names
        shutil.copyfile(source, target)
