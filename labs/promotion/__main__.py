"""Carry on in copies of real brokers, and compare next offsets and what groups get with the master.

    python -m labs.promotion --copies 20 --seed 1 [--report FILE]

Each copy is of a broker of its own (5.3.3 and 5.4.0 in turn) that has deleted its first log files, with topics that are
idle since, of type BatchCQ, made while it is followed, deleted, and deleted and made again; with light queues, delayed
and half messages, and groups that have read all, a part or nothing. After the follower's end the master says where each
queue goes on, and is stopped or killed. Then the same RocketMQ, another one and our engine carry on in a copy of the
copy each: every queue must go on where the master's does, and every group must get, from its offset on, what the
master would give and the message that is put then.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flintmq import Message, MessageStore
from flintmq.format import config_json
from labs.interop.broker_process import OK, Admin, Broker, body_of, header
from labs.replication.sides import FollowerProcess
from labs.torture import figures, report
from tests.interop.running_broker import free_ports

VERSIONS, OTHERS = ("5.3.3", "5.4.0"), {"5.3.3": "5.5.0", "5.4.0": "5.3.3"}
KEYS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2000,
    "transactionCheckInterval": 3_600_000, "cleanResourceInterval": 500, "deleteCommitLogFilesInterval": 1,
    "enableLmq": "true", "enableMultiDispatch": "true", "flushConsumerOffsetInterval": 500,
}  # fmt: skip
BATCH = "+queue.type=BatchCQ"
FULL_S, CATCH_UP_S = 60, 60
GROUPS = ("All", "Half", "None")
QUEUES = 2
LIGHT = "%LMQ%light"  # a light queue, and the group that reads it
LATE = "18"  # a delay level of two hours: nothing is delivered meanwhile
Place = tuple[str, int]


class Side:
    """One broker, asked as an administrator and a client ask it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.start()
        broker.wait()
        self.admin = Admin(broker.port)
        limit = time.monotonic() + FULL_S
        while header(self.admin.ask(28))["code"] != OK:  # it listens before all of it runs
            assert time.monotonic() < limit, broker.said()
            time.sleep(0.2)

    def places(self) -> list[Place]:
        """Each queue of its topics, and the light one."""
        table = config_json.parse(self.admin(21))["topicConfigTable"]
        found = [
            (str(t), n) for t, one in table.items() for n in range(max(one["readQueueNums"], one["writeQueueNums"]))
        ]
        return [*found, (LIGHT, 0)]

    def number(self, code: int, **fields: object) -> int | None:
        """The offset that an answer names; None if it is refused."""
        told = header(self.admin.ask(code, **fields))
        return int(told["extFields"]["offset"]) if told["code"] == OK else None

    def next(self, place: Place) -> int:
        """The next offset of a queue."""
        found = self.number(30, topic=place[0], queueId=place[1])
        assert found is not None, place
        return found

    def begin(self) -> int:
        """Where its log begins."""
        return int(config_json.parse(self.admin(28))["table"]["commitLogMinOffset"])

    def got(self, group: str, place: Place, offset: int) -> set[int]:
        """The queue offsets of the messages that a group is given from an offset on."""
        found: set[int] = set()
        while True:
            answer = self.admin.ask(
                11, consumerGroup=group, topic=place[0], queueId=place[1], queueOffset=offset, maxMsgNums=32, sysFlag=4,
                commitOffset=0, suspendTimeoutMillis=0, subscription="*", subVersion=0, expressionType="TAG",
            )  # fmt: skip
            told, body, at = header(answer), body_of(answer), 0
            following = int(told["extFields"]["nextBeginOffset"])
            while told["code"] == OK and at < len(body):
                (size,) = struct.unpack_from(">i", body, at)
                found.add(struct.unpack_from(">q", body, at + 20)[0])
                at += size
            if following == offset:
                return found
            offset = following

    def end(self, kill: bool) -> None:
        """Stop it, or kill it."""
        self.admin.close()
        if kill:
            self.broker.kill()
        else:
            assert self.broker.stop(), self.broker.said()


class Master(Side):
    """The broker that is copied."""

    def __init__(self, folder: Path, version: str, chance: random.Random) -> None:
        self.chance = chance
        names, port = free_ports()
        super().__init__(Broker(version, folder, port, names, fileReservedTime=0, **KEYS))

    def fill(self, topic: str, count: int, size: int = 40, **properties: str) -> None:
        """Put so many messages to a topic's queues at random."""
        for n in range(count):
            self.admin.send(topic, f"{n} ".ljust(size, "x"), self.chance.randrange(QUEUES), **properties)

    def commit(self, topics: tuple[str, ...]) -> None:
        """Have groups of each topic at its end, amid it, and one nowhere."""
        for topic in topics:
            for queue in range(QUEUES):
                end = self.next((topic, queue))
                for group, offset in zip(GROUPS, (end, end // 2), strict=False):
                    self.admin(15, consumerGroup=group, topic=topic, queueId=queue, commitOffset=offset)

    def begins(self) -> None:
        """Fill topics, whose messages expire then."""
        for group in GROUPS:
            self.admin(200, json.dumps({"groupName": group}).encode())
        for topic in ("Idle", "Gone", "Again", "AgainFilled", "Busy"):
            self.admin.topic(topic, QUEUES, "")
        for topic in ("IdleBulk", "AgainBulk", "Bulk"):
            self.admin.topic(topic, QUEUES, BATCH)
        for topic in ("Idle", "Gone", "Again", "AgainFilled", "IdleBulk", "AgainBulk", "Bulk", "Busy"):
            self.fill(topic, self.chance.randrange(4, 130))
        self.fill("Idle", 5, INNER_MULTI_DISPATCH=LIGHT)
        self.admin(15, consumerGroup=LIGHT, topic=LIGHT, queueId=0, commitOffset=5)
        self.fill("Idle", 5, DELAY=LATE)
        self.fill("Idle", 5, TRAN_MSG="true", PGROUP="P", UNIQ_KEY="u")
        self.commit(("Idle", "IdleBulk", "Bulk", "Busy"))
        self.fill("Busy", 700, 300)
        if self.chance.random() < 0.8:
            self.expire()

    def expire(self) -> None:
        """Delete all log files but the last."""
        self.admin(329)
        limit = time.monotonic() + FULL_S
        while not self.begin():
            assert time.monotonic() < limit, "no log file was deleted"
            time.sleep(0.2)

    def goes_on(self) -> None:
        """Use, delete and make topics while it is followed."""
        for topic in ("Gone", "Again", "AgainFilled", "AgainBulk"):
            self.admin(215, topic=topic)
        self.admin.topic("Again", QUEUES, self.chance.choice(("", BATCH)))
        self.admin.topic("AgainFilled", QUEUES, "")
        self.admin.topic("AgainBulk", QUEUES, self.chance.choice(("", BATCH)))
        self.admin.topic("NewBulk", QUEUES, BATCH)
        for topic in ("AgainFilled", "AgainBulk", "NewBulk", "Bulk", "Busy"):
            self.fill(topic, self.chance.randrange(1, 60))
        self.fill("Busy", 5, DELAY=LATE)
        self.commit(("NewBulk", "Busy"))


def copied(master: Master, folder: Path) -> None:
    """Follow it while it goes on; nothing of its tables is a minute old at the end."""
    to = [
        f"127.0.0.1:{master.broker.port + 1}",
        "--config-from",
        master.broker.address,
        "--store",
        str(folder / "copy"),
    ]
    follower = FollowerProcess(folder, *to)
    follower.start()
    try:
        assert follower.wait("caught_up", CATCH_UP_S), follower.said()
        master.goes_on()
        end = int(config_json.parse(master.admin(28))["table"]["commitLogMaxOffset"])
        assert follower.wait("caught_up", CATCH_UP_S, end), follower.said()  # or what is next could be deleted
        follower.stop()
        if master.chance.random() < 0.3:
            master.expire()
            master.fill("Busy", 5)
    finally:
        follower.kill()
    words = [sys.executable, "-m", "flintmq", "follow", *to, "--once", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=CATCH_UP_S)
    assert done.returncode == 0 and '"promotable":true' in done.stdout, (done.stdout, done.stderr)
    checked = [sys.executable, "-m", "flintmq", "verify", str(folder / "copy")]
    found = subprocess.run(checked, capture_output=True, text=True, timeout=CATCH_UP_S)
    # Of a topic that was made again it takes the old messages, still in the log, for lost ones; on the master, too.
    defects = [line for line in found.stdout.splitlines() if line.startswith("defect") and "/Again" not in line]
    assert not defects, found.stdout


class Wanted:
    """What the master would do.

    Attributes:
        next: the next offset of each queue.
        groups: (group, queue) to its offset and the queue offsets that it would be given from there on.
    """

    def __init__(self, master: Master) -> None:
        self.next = {place: master.next(place) for place in master.places()}
        self.groups: dict[tuple[str, Place], tuple[int, set[int]]] = {}
        for topic in ("Idle", "IdleBulk", "Bulk", "NewBulk", "Busy"):
            for place in ((topic, queue) for queue in range(QUEUES)):
                for group in GROUPS:
                    offset = master.number(14, consumerGroup=group, topic=topic, queueId=place[1])
                    if offset is not None:
                        self.groups[group, place] = offset, master.got(group, place, offset)

    @property
    def puts(self) -> list[Place]:
        """The queues of the topics that were used, each of which gets a message."""
        used = ("Idle", "IdleBulk", "Again", "AgainFilled", "AgainBulk", "Bulk", "NewBulk", "Busy")
        return [place for place in self.next if place[0] in used]


class Tally:
    """What was compared, and what was wrong."""

    def __init__(self, row: str) -> None:
        self.row, self.queues, self.messages, self.expired = row, 0, 0, 0
        self.differ: list[str] = []
        self.missed: list[str] = []

    def next(self, place: Place, wanted: int, found: int) -> None:
        """Compare the next offset of a queue."""
        self.queues += 1
        if wanted != found:
            self.differ.append(f"{place}: {found}, not {wanted}")

    def group(self, key: object, wanted: set[int], found: set[int]) -> None:
        """Compare what a group got. It may be more: a master may leave out the rest of a queue's file."""
        self.messages += len(wanted)
        self.missed += [f"{key}: {offset}" for offset in sorted(wanted - found)]


def carried_on_by_rocketmq(copy: Path, version: str, wanted: Wanted, tally: Tally) -> None:
    """Have a broker of this version carry on."""
    names, port = free_ports()
    broker = Broker(version, copy.parent / f"by-{version}", port, names, **KEYS)
    broker.folder.mkdir()
    shutil.copytree(copy, broker.store)
    side = Side(broker)
    try:
        for place, end in wanted.next.items():
            tally.next(place, end, side.next(place))
        put = {}
        for place in wanted.puts:
            told = side.admin.put(place[0], b"after", place[1])
            put[place] = int(told["extFields"]["queueOffset"])
            tally.next(place, wanted.next[place], put[place])
        time.sleep(0.5)  # it is dispatched
        for (group, place), (offset, messages) in wanted.groups.items():
            found = side.number(14, consumerGroup=group, topic=place[0], queueId=place[1])
            tally.group((group, place), messages | {wanted.next[place]}, side.got(group, place, found or 0))
            if found != offset:
                tally.missed.append(f"{group} {place}: at {found}, not {offset}")
    finally:
        side.end(kill=True)


def carried_on_by_engine(copy: Path, wanted: Wanted, tally: Tally) -> None:
    """Have our engine carry on."""
    place_of = shutil.copytree(copy, copy.parent / "by-engine")
    with MessageStore(place_of, {key: KEYS[key] for key in ("enableLmq", "enableMultiDispatch")}) as store:
        ends = store._parts.queues.next_offsets()
        for (topic, queue), end in wanted.next.items():
            tally.next((topic, queue), end, ends.get((topic.encode(), queue), 0))
        for place in wanted.puts:
            told = store.put(Message(place[0], b"after", queue_id=place[1]))
            assert told.status.name == "PUT_OK"
            tally.next(place, wanted.next[place], told.queue_offset)
        assert store.wait_dispatched(FULL_S)
        for (group, (topic, queue)), (offset, messages) in wanted.groups.items():
            at = store.consumer_offset(group, topic, queue)
            found: set[int] = set()
            following = at or 0
            while (got := store.get(topic, queue, following, 32)).messages or got.next_begin_offset != following:
                found |= {message.queue_offset for message in got.messages}
                following = got.next_begin_offset
            tally.group((group, topic, queue), messages | {wanted.next[topic, queue]}, found)
            if at not in (None, offset):  # none: nobody committed one, and a broker says 0
                tally.missed.append(f"{group} {topic}/{queue}: at {at}, not {offset}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that goes at the end."""
    with tempfile.TemporaryDirectory(prefix="promotion-") as folder:
        yield Path(folder)


def one_copy(seed: int) -> list[Tally]:
    """Make a master and its copy, and have three carry on."""
    version = VERSIONS[seed % len(VERSIONS)]
    chance = random.Random(seed)
    with scratch() as folder:
        (folder / "master").mkdir()
        master = Master(folder / "master", version, chance)
        try:
            master.begins()
            copied(master, folder)
            wanted, begin = Wanted(master), master.begin()
        finally:
            master.end(kill=chance.random() < 0.5)
        tallies = []
        for by in (version, OTHERS[version], "FlintMQ"):
            tallies.append(tally := Tally(f"{version} | {by}"))
            tally.expired = int(begin > 0)
            if by == "FlintMQ":
                carried_on_by_engine(folder / "copy", wanted, tally)
            else:
                carried_on_by_rocketmq(folder / "copy", by, wanted, tally)
        return tallies


def series(tallies: list[Tally], told: dict[str, Any], begun: str) -> figures.Series:
    """What the run has counted."""
    columns = [
        "master",
        "carried on by",
        "times carried on",
        "with files deleted",
        "next offsets compared",
        "differing",
    ]
    rows: dict[str, list[Any]] = {}
    for tally in tallies:
        row = rows.setdefault(tally.row, [0] * 6)
        for n, more in enumerate(
            (1, tally.expired, tally.queues, len(tally.differ), tally.messages, len(tally.missed))
        ):
            row[n] += more
    cells = [[*name.split(" | "), *row] for name, row in rows.items()]
    return figures.Series([*columns, "messages of groups", "missed"], cells, [report.commit()], told, begun)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the table between its marks in this page")
    words = parser.parse_args()
    begun, tallies, told = figures.begun(), list[Tally](), {"first seed": words.seed, "masters": 0}
    for seed in range(words.seed, words.seed + words.copies):
        for tally in one_copy(seed):
            tallies.append(tally)
            print(f"seed {seed}: {tally.row}: {tally.queues} next offsets, {tally.messages} messages of groups; "
                  f"differing {tally.differ[:5]}, missed {tally.missed[:5]}", flush=True)  # fmt: skip
        told["masters"] += 1
        if words.report is not None:  # after each copy, so that a run that is cut leaves what it has
            figures.record(words.report, "promotion", series(tallies, told, begun))
    wrong = sum(len(tally.differ) + len(tally.missed) for tally in tallies)
    print(*figures.shown("promotion", series(tallies, told, begun)), sep="\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
