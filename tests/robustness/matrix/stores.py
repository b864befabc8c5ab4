"""Stores as users have them: many topics, odd names, odd bodies, damage of every kind, retention, clocks, a writer."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flintmq import Message, MessageStore
from flintmq.storage.files.filesystem import Effects
from tests.robustness.matrix import truth

Maker = Callable[[Path], Callable[[], None] | None]

SMALL = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 50,
    "maxIndexNum": 200,
}
LARGER = {**SMALL, "mappedFileSizeCommitLog": 1 << 20}  # for stores with many messages
NAMES = (
    "a",
    "Orders",
    "orders",  # differs in case alone
    "orders-1",
    "-1",
    "007",
    "7",
    "2026-11-21",
    "a=b",
    "a b",
    " lead",
    "100%",
    "%41",
    "a+b&c#d;e",
    "it's",
    'say "x"',
    "back\\slash",
    "new\nline",
    "tab\there",
    "null",
    "true",
    "1.5",
    "..a",
    "~",
    "$HOME",
    "{a}",
    "[a]*?",
    "库存",
    "库" * 23,
    "库" * 42,
    "🦀-topic",
    "é",
    "e\u0301",  # the same letter, composed otherwise
    "x" * 127,
    "topic_name=x",
    "__HIVE_DEFAULT_PARTITION__",
)


@dataclass(frozen=True)
class Case:
    """A store of the matrix.

    States: "sound"; "live": somebody writes it meanwhile; "hole": the log lacks what lies below its durable mark, so
    strict readers fail and lenient ones give what is left; "derived": the log is whole, what is derived from it is not.
    """

    make: Maker  # makes it in a directory that is there; may give what has to be called when the store is done with
    state: str = "sound"
    keys: dict[str, object] = field(default_factory=lambda: dict(SMALL))  # that its readers are told
    large: bool = False  # takes seconds a cell; such a store is asked less often
    defect: str = ""  # code of the defect that `verify` must name although all messages are there; empty: none

    @property
    def sets(self) -> list[str]:
        """The keys as words of the command line."""
        return [word for key, value in self.keys.items() for word in ("--set", f"{key}={value}")]


CASES: dict[str, Case] = {}


def case(name: str, **traits: object) -> Callable[[Maker], Maker]:
    """Enter a store in the table."""

    def enter(make: Maker) -> Maker:
        CASES[name] = Case(make, **traits)  # type: ignore[arg-type]
        return make

    return enter


def fill(store: Path, topics: list[str], queues: int, messages: int, keys: Mapping[str, object] = SMALL) -> None:
    """Put messages into topics and queues in turn, with tags, keys and bodies of many sizes, and close."""
    with MessageStore(store, keys) as opened:
        for number in range(messages):
            topic = topics[number % len(topics)]
            queue_id = number // len(topics) % queues
            body = f"{number} ".encode() * (number % 40)
            done = opened.put(
                Message(topic, body, tags=f"Tag{number % 3}", keys=f"k{number} shared{number % 7}", queue_id=queue_id)
            )
            assert done.status.name == "PUT_OK", (topic, done)
        assert opened.wait_dispatched(120)


@case("1 topic")
def one_topic(store: Path) -> None:
    fill(store, ["Orders"], 1, 700)


@case("100 topics")
def hundred_topics(store: Path) -> None:
    fill(store, [f"topic-{n}" for n in range(100)], 2, 3000)


@case("5,000 topics", keys=LARGER, large=True)
def five_thousand_topics(store: Path) -> None:
    fill(store, [f"topic-{n}" for n in range(5000)], 1, 10_000, LARGER)


@case("10,000 queues", keys=LARGER, large=True)
def ten_thousand_queues(store: Path) -> None:
    fill(store, [f"topic-{n}" for n in range(20)], 500, 20_000, LARGER)


@case("never a message")
def nothing(store: Path) -> None:
    MessageStore(store, SMALL).close()


@case("odd names")
def odd_names(store: Path) -> None:
    fill(store, list(NAMES), 2, 6 * len(NAMES))


@case("names of digits")
def names_of_digits(store: Path) -> None:
    fill(store, ["007", "7", "0", "12345678901234567890"], 1, 40)


@case("names of other letters")
def chinese_names(store: Path) -> None:
    fill(store, ["库存", "库" * 23, "订单-1"], 2, 60)


@case("bodies of 0 B to 4 MiB", keys={**SMALL, "mappedFileSizeCommitLog": 6 << 20})
def odd_bodies(store: Path) -> None:
    with MessageStore(store, {**SMALL, "mappedFileSizeCommitLog": 6 << 20}) as opened:
        for size in (0, 1, 4, 90, 4095, 4096, 65535, 65536, 65537, (4 << 20) - 200):
            for byte in (b"\0", b"\xda\xa3\x20\xa7", b"\xff"):
                body = (byte * size)[:size]
                assert opened.put(Message("Bodies", body, keys=f"k{size}")).status.name == "PUT_OK", size
        assert opened.wait_dispatched(60)


class Clock(Effects):
    """The real disk with a clock that tests set."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@case("a clock that steps")
def clock_steps(store: Path) -> None:
    clock = Clock()
    with MessageStore(store, SMALL, effects=clock) as opened:
        for number, ahead in enumerate([0, -1_800_000, 0, 315_360_000_000, 0, -7_200_000, 60_000]):
            clock.ahead_ms = ahead
            for n in range(60):
                assert (
                    opened.put(Message("Clock", b"x" * n, keys=f"k{number}-{n}", queue_id=n % 3)).status.name
                    == "PUT_OK"
                )
        assert opened.wait_dispatched(60)


@case("retention just now")
def retention(store: Path) -> None:
    fill(store, ["Orders", "库存"], 2, 2500)
    first, second = truth.log_files(store)[:2]
    first.unlink()
    second.unlink()


@case("killed")
def killed(store: Path) -> None:
    """As `kill -9` leaves it: `abort`, the last units and items not yet derived, a spare log file."""
    fill(store, ["Orders", "库存"], 2, 1500)
    pid = os.fork()
    if pid == 0:
        try:
            opened = MessageStore(store, SMALL)
            for number in range(500):
                opened.put(Message("Orders", b"late %d" % number, keys=f"late{number}"))
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


WRITER = """
import sys, time
from flintmq import Message, MessageStore
keys = dict(zip(sys.argv[2::2], map(int, sys.argv[3::2])))
with MessageStore(sys.argv[1], keys) as opened:
    opened.put(Message("Orders", b"first"))
    print("open", flush=True)
    end = time.monotonic() + 300
    number = 0
    while time.monotonic() < end:
        topic = "Orders" if number % 3 else "\u5e93\u5b58"
        opened.put(Message(topic, b"x" * (number % 500), keys=f"k{number}", queue_id=number % 2))
        number += 1
        time.sleep(0.002)
"""


@case("a writer beside", state="live")
def writer_beside(store: Path) -> Callable[[], None]:
    words = [str(word) for pair in SMALL.items() for word in pair]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, store, *words], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"open\n"

    def stop() -> None:
        writer.kill()
        writer.wait()
        writer.stdout.close()

    return stop


def plain(store: Path) -> None:
    """The store that is damaged below: two topics, four queues, several log, queue and index files."""
    fill(store, ["Orders", "库存"], 2, 2500)


def damaged(name: str, state: str, defect: str = "") -> Callable[[Maker], Maker]:
    """Enter a store that is `plain` with a damage done to it."""

    def enter(act: Maker) -> Maker:
        def make(store: Path) -> None:
            plain(store)
            act(store)

        CASES[name] = Case(make, state, defect=defect)
        return act

    return enter


def nth(store: Path, pattern: str, which: int) -> Path:
    """A file of a store by its place in the sorted list of those that match."""
    return sorted(store.glob(pattern))[which]


def used_log(store: Path) -> list[Path]:
    return [path for path in truth.log_files(store) if any(truth.records_of(path))]


damaged("first log file missing", "sound")(lambda store: truth.log_files(store)[0].unlink())
damaged("middle log file missing", "hole")(lambda store: truth.log_files(store)[2].unlink())


@damaged("last log file missing", "hole")
def last_missing(store: Path) -> None:
    for path in [*used_log(store)[-1:], *truth.log_files(store)[len(used_log(store)) :]]:
        path.unlink()


damaged("last log file cut short", "hole")(lambda store: os.truncate(used_log(store)[-1], 600))


@damaged("middle log file is a link", "hole")
def middle_linked(store: Path) -> None:
    path = truth.log_files(store)[2]
    elsewhere = store.parent / "elsewhere"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


@damaged("files that are no log", "sound", "stray-file")
def extra_in_log(store: Path) -> None:
    log = store / "commitlog"
    (log / ".DS_Store").write_bytes(b"x")
    (log / "00000000000000000000.bak").write_bytes(b"x" * 100)
    (log / "lost+found").mkdir()
    (log / "nohup.out").write_bytes(b"x")


@damaged("files that are no queue", "sound", "stray-file")
def extra_in_queues(store: Path) -> None:
    queues = store / "consumequeue"
    (queues / ".DS_Store").write_bytes(b"x")
    (queues / "Orders" / "x").mkdir()
    (queues / "Orders" / "0" / "readme").write_bytes(b"x")
    (queues / "Orders" / "1 ").mkdir()


@damaged("files that are no index", "sound")
def extra_in_index(store: Path) -> None:
    (store / "index" / "readme").write_bytes(b"x")
    (store / "index" / "20261121").mkdir()


damaged("no consumequeue", "derived")(lambda store: shutil.rmtree(store / "consumequeue"))
damaged("one queue missing", "derived")(lambda store: shutil.rmtree(store / "consumequeue" / "Orders" / "1"))
damaged("first queue file missing", "derived")(lambda store: nth(store, "consumequeue/Orders/0/*", 0).unlink())
damaged("middle queue file missing", "derived")(lambda store: nth(store, "consumequeue/Orders/0/*", 3).unlink())
damaged("last queue file cut short", "derived")(
    lambda store: os.truncate(nth(store, "consumequeue/Orders/0/*", -1), 30)
)


@damaged("a queue is a link", "derived")
def queue_linked(store: Path) -> None:
    path, elsewhere = store / "consumequeue" / "Orders" / "1", store.parent / "elsewhere"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


damaged("no index", "derived")(lambda store: shutil.rmtree(store / "index"))
damaged("an index file cut short", "derived")(lambda store: os.truncate(nth(store, "index/*", 1), 100))
damaged("no checkpoint", "sound")(lambda store: (store / "checkpoint").unlink())
damaged("checkpoint of zeros", "sound")(lambda store: (store / "checkpoint").write_bytes(bytes(4096)))
damaged("no mark", "sound")(lambda store: (store / "flintmq.mark").unlink())
damaged("no config", "sound")(lambda store: shutil.rmtree(store / "config"))


@damaged("config that is no JSON", "derived")
def bad_config(store: Path) -> None:
    for path in (store / "config").glob("*.json"):
        path.write_bytes(b"{")


damaged("no lock", "sound")(lambda store: (store / "lock").unlink())


@damaged("commitlog and nothing else", "derived")
def lone_log(store: Path) -> None:
    for path in store.iterdir():
        if path.name != "commitlog":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
