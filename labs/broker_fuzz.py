"""Send a broker bytes that no good client sends, beside one whose sends must go on.

    python -m labs.broker_fuzz --minutes 10 [--seed 1] [--answer 3] [--record]

Visitors send strange, changed and cut requests, lengths that lie, JSON without end, floods; they take answers slowly,
or say nothing (labs/broker/visits.py). Meanwhile a client's sends must be answered within the time that a stock client
waits, memory, descriptors and threads must not grow, and no callback may keep the loop. At the end the broker still
answers, stops cleanly, has told no error that it did not expect; `verify` is clean, and each message of the store was
asked for by a valid request, of which the reference codec alone decides. What is wrong ends the program with 1, and the
folder is kept.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import OF_GROUPS
from flintmq.remoting.client import RemotingClient
from flintmq.remoting.names import GET_ROUTE, MAKE_TOPIC
from flintmq.store.view import open_store
from labs.broker import watched
from labs.broker.check import WRONG, check_store
from labs.broker.ledger import QUEUES, TOPIC
from labs.broker.lines import LineSender
from labs.broker.process import BrokerProcess
from labs.broker.visits import Asked, Visitor
from labs.soak.run import Sample, fifths, grown
from labs.three_brokers.check import Found
from labs.three_brokers.ledger import name_of
from labs.torture import figures, report

NAME = "broker-fuzz"
VISITORS = 6
SAMPLE_S, PAUSE_S, STOP_S = 1.0, 0.01, 30.0
ANSWER_S = 3.0  # a stock client's sendMsgTimeout
LONGEST_CPU_MS = 100.0  # of one callback
SLACK = {"memory_kib": 24 << 10, "threads": 2}
KEYS: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 200_000,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "messageDelayLevel": "1s 1s",
}
ALL_WRONG = (*WRONG, "not asked for", "grown", "slow callbacks", "slow answers", "refused", "errors")
COUNTED = ("visits", "bytes", "sends asked", "acknowledged", "stored of visitors")


class SteadySender(LineSender):
    """A client whose sends must go on; `slowest_s` is the longest time from its first send to the last answer."""

    slowest_s = 0.0

    def send_once(self) -> None:
        began = time.monotonic()
        super().send_once()
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.stopping.wait(PAUSE_S)


class Fuzz:
    """One broker, its visitors, and what was found.

    Args:
        folder: an empty directory.
        seed: of everything that is random.
        answer_s: how long an answer to the client that means no harm may take.
    """

    def __init__(self, folder: Path, seed: int, answer_s: float = ANSWER_S) -> None:
        self.answer_s = answer_s
        self.watch_file = folder / "watch.json"
        words = [word for key, value in KEYS.items() for word in ("--set", f"{key}={value}")]
        self.broker = BrokerProcess(folder, *words, program=("labs.broker.watched", str(self.watch_file)))
        self.asked, self.found, self.samples = Asked(), Found(), list[Sample]()
        self.steady = SteadySender("steady", self.broker.address, random.Random(seed))
        self.watch = watched.Watch()
        self.seconds, self._stopping, self._seed = 0.0, threading.Event(), seed
        self._errors = list[str]()
        self._first: Sample | None = None  # before anybody came

    def run(self, seconds: float) -> Found:
        """Have them come for so long, and judge."""
        self.seconds = seconds
        self.broker.start()
        try:
            self.broker.wait_ready()
            self._make_topics()
            self._first = self.broker.look(0.0)
            threads = [threading.Thread(target=self._visit, args=(number,)) for number in range(VISITORS)]
            for thread in (self.steady, *threads):
                thread.start()
            try:
                self._look(seconds)
            finally:
                self._stopping.set()
                for thread in threads:
                    thread.join(STOP_S)
            self._check_descriptors()
            self.steady.stop(STOP_S)
            with RemotingClient(self.broker.address) as last:
                last.ask(GET_ROUTE, {"topic": TOPIC})
            self.broker.stop()
            assert not self._errors, self._errors[0]
            self._judge()
        finally:
            self.broker.kill()
        return self.found

    def _make_topics(self) -> None:
        with RemotingClient(self.broker.address) as line:
            for name in (TOPIC, "F0", "F1", "F2"):
                queues = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
                line.ask(MAKE_TOPIC, {"topic": name, **queues})

    def _visit(self, number: int) -> None:
        visitor = Visitor(self.broker.address, random.Random(f"{self._seed} {number}"), self.asked)
        try:
            while not self._stopping.is_set():
                visitor.visit()
        except Exception as error:
            self._errors.append(f"visitor {number}: {type(error).__name__}: {error}")

    def _look(self, seconds: float) -> None:
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds and not self._errors:
            assert self.broker.runs, f"the broker ended by itself: {self.broker.said()}"
            one = self.broker.look(now)
            self.samples += [one] if one is not None else []
            time.sleep(SAMPLE_S)

    def _check_descriptors(self) -> None:
        """Once all visitors have left, there are no more descriptors than before they came, but one for each file."""
        time.sleep(SAMPLE_S)
        last = self.broker.look(self.seconds)
        assert self._first is not None and last is not None, self.broker.said()
        files = sum(path.is_file() for path in self.broker.store.rglob("*"))  # those that are mapped are open
        if last.descriptors > self._first.descriptors + files:
            self.found.note("grown", f"descriptors: {self._first.descriptors} before, {last.descriptors} after")

    def _judge(self) -> None:
        """Look at the figures, and at the store at rest."""
        # A client may commit any offset, as with RocketMQ's broker, also of a queue that has no message yet.
        check_store(self.broker.store, KEYS, self.steady.ledger, self.found, but="offset-ahead")
        self._check_asked()
        for line in grown(self.samples, self.seconds, ("broker",), SLACK, min):
            self.found.note("grown", line)
        self.watch = watched.read(self.watch_file)
        if self.watch.longest_cpu_ms > LONGEST_CPU_MS:
            lines = [line for line in self.broker.lines() if line.startswith("slow callback")]
            self.found.note("slow callbacks", f"{len(lines)}, such as {lines[:3]}")
        if self.steady.slowest_s > self.answer_s:
            self.found.note("slow answers", f"{self.steady.slowest_s:.1f} s")
        for line in self.broker.failed():
            self.found.note("errors", line)
        if self.steady.refused:
            self.found.note("refused", f"{self.steady.refused} sends of the client that means no harm")

    def _check_asked(self) -> None:
        """Each message of a visitor was asked for by a valid request, or is such a one that was sent back."""
        with open_store(self.broker.store, set=dict(KEYS)) as view:
            for message in view.messages():
                if message.topic == TOPIC or message.properties.get("REAL_TOPIC") == TOPIC:
                    continue
                self.found.counted["stored of visitors"] += 1
                asked = self.asked.topics_of(message.body)
                if name_of(message.body) in self.steady.ledger.sent:
                    asked.add(TOPIC)  # somebody sent it back
                moved = message.topic == SCHEDULE_TOPIC or message.topic.startswith(OF_GROUPS)
                if not asked or not (moved or message.topic in asked):
                    self.found.note("not asked for", f"{message.body!r:.60} in {message.topic} is of {sorted(asked)}")


def series(fuzz: Fuzz, seed: int, begun: str) -> figures.Series:
    """What the run has counted."""
    counted = fuzz.asked.counted + fuzz.found.counted
    longest = [fuzz.watch.longest_ms, fuzz.watch.longest_cpu_ms]
    memory = fifths(fuzz.samples, fuzz.seconds, "broker", "memory_kib", min)
    row = [seed, round(fuzz.seconds / 60, 1), *(counted[name] for name in COUNTED)]
    row += [round(fuzz.steady.slowest_s, 2), *longest, memory[1], memory[4]]
    head = ["seed", "minutes", *COUNTED, "slowest answer, s", "longest callback, ms", "of its own, ms"]
    head += ["KiB least in the second fifth", "KiB least in the last", *ALL_WRONG]
    kinds = {name: counted[name] for name in sorted(fuzz.asked.counted) if name not in COUNTED}
    return figures.Series(head, [[*row, *(counted[name] for name in ALL_WRONG)]], [report.commit()], kinds, begun)


def main(words: Iterable[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answer", type=float, default=ANSWER_S, help="seconds; more where the machine is busy")
    parser.add_argument("--record", action="store_true", help=f"add the run to {NAME}.json")
    given = parser.parse_args(None if words is None else list(words))
    begun, folder = figures.begun(), Path(tempfile.mkdtemp(prefix="flintmq-fuzz-"))
    fuzz = Fuzz(folder, given.seed, given.answer)
    try:
        found = fuzz.run(60 * given.minutes)
    except AssertionError as error:
        print(f"WRONG, kept in {folder}: {error}", file=sys.stderr)
        return 1
    counted = series(fuzz, given.seed, begun)
    return figures.ended(NAME, counted, found.wrong, folder, given.record)


if __name__ == "__main__":
    sys.exit(main())
