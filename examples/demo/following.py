"""Follow a live broker into a table, kill everything amid it, and count each message.

Where Java and the jars of tests/interop/oracle are at hand, a broker and a name server of Apache RocketMQ take orders
from RocketMQ's own client. Elsewhere a master plays the log that a broker of RocketMQ 5.3.3 was recorded with.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sys
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from examples.demo import proof
from examples.demo.orders import number_of
from examples.demo.story import Story, command, console, flintmq, good, section
from flintmq import open_store

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "compat" / "golden-ha"
VERSION = "5.3.3"
SMALL = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 60_000,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "timerFlushIntervalMs": 20_000,  # each flush of its timer, which nobody uses here, copies 38 MB
}
NO_JAVA = "Java or the jars of tests/interop/oracle are missing: recorded bytes of a broker play it."
TOPIC, AT_ONCE = "Orders", 25
LIMIT = 20  # the first broker would take this multiple of the wanted orders, were it not killed
Place = tuple[str, int, int]
"""Topic, queue and queue offset of a message."""


def java() -> Path | None:
    """Return the directory of a built oracle, if there are one and a Java to run it."""
    if shutil.which("java") is None or os.environ.get("FLINTMQ_ORACLE") == "off":
        return None
    told = os.environ.get("FLINTMQ_ORACLE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flintmq")
    folders = [Path(told)] if told else [ROOT / "tests" / "interop" / "oracle", *cache.glob("oracle-*")]
    jars = [folder / "build" / VERSION / "target" / "oracle.jar" for folder in folders]
    # The newest: of an older source tree, one may know less.
    newest = max((jar for jar in jars if jar.exists()), key=lambda jar: jar.stat().st_mtime, default=None)
    return None if newest is None else newest.parents[1]


@dataclass
class Followed(Story):
    """A master that takes orders, a follower of it, and an export of the copy.

    Attributes:
        built: the oracle; None: the recorded master plays.
        port: of the master's HA port.
    """

    built: Path | None = None
    port: int = 0

    def __post_init__(self) -> None:
        """Choose places and ports."""
        self.store, self.copy = self.out / "broker", self.out / "copy"
        self.first_port = free_ports()
        self.port = self.first_port + 5
        self.runs = self.stored = 0  # orders that were stored before this run

    def start_master(self, orders: int) -> None:
        """Start the broker, which takes orders up to a number; or the recorded master."""
        self.runs += 1
        words = self._recorded() if self.built is None else self._broker(self.built, orders)
        self.start("master", words, self._acks)

    @property
    def _acks(self) -> Path:
        return self.out / f"master-{self.runs}.out"

    def _recorded(self) -> list[str]:
        have = self.taken() if self.runs > 1 else 0
        words = ["-m", "examples.demo.recorded_master", str(self.store), "--port", str(self.port)]
        words += ["--rate", f"{self.rate:g}", "--have", str(have)]
        console.print(f"\n[bold]$ python {' '.join(words)}[/bold]")
        return [sys.executable, *words]

    def _broker(self, built: Path, orders: int) -> list[str]:
        self.stored = self._next()
        ops = [
            {"op": "send", "topic": TOPIC, "body": f"order {number}", "keys": f"order-{number}", "tags": "paid"}
            for number in range(self.stored, orders)
        ]
        pause = {"op": "sleep", "ms": int(1000 * AT_ONCE / self.rate)}
        paced = [op for at in range(0, len(ops), AT_ONCE) for op in (*ops[at : at + AT_ONCE], pause)]
        if self.runs > 1:
            paced.append({"op": "sleep", "ms": 600_000})  # it stays until the demo ends it
        config = {
            "store": SMALL,
            "broker": {"brokerClusterName": "Demo", "brokerName": "orders", "transactionMetricFlushInterval": 500},
            "topics": {TOPIC: {"queues": 4}},
            "namesrv_port": self.first_port,
            "broker_port": self.port - 1,
        }
        told, script = self.out / "broker.json", self.out / f"ops-{self.runs}.jsonl"
        told.write_text(json.dumps(config))
        script.write_text("".join(json.dumps(op) + "\n" for op in paced))
        console.print(
            f"\n[bold]RocketMQ {VERSION}: name server 127.0.0.1:{self.first_port}, broker 127.0.0.1:{self.port - 1}, "
            f"HA port {self.port}, RocketMQ's producer[/bold]"
        )
        path = f"{built}/target/oracle.jar:{built}/lib/*"
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "flintmq.oracle.Oracle"]
        return [*java, "broker", "--store", str(self.store), "--config", str(told), "--ops", str(script)]

    def _next(self) -> int:
        """Return the number after the last order that is stored, acknowledged or not."""
        if self.runs == 1:
            return 0
        with open_store(self.store) as view:
            return 1 + max(number_of(message.keys) for message in view.messages() if message.topic == TOPIC)

    def start_follower(self) -> None:
        """Start the follower, which goes on where the copy ends."""
        words: list[str | Path] = ["follow", f"127.0.0.1:{self.port}", "--out", self.copy, "--json"]
        if self.built is not None:
            words += ["--config-from", f"127.0.0.1:{self.port - 1}"]
        else:
            keys = json.loads((RECORDED / "ha533.config.json").read_text())["store"]
            words += [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        self.start("follower", command(*words), self.out / "events.jsonl")

    def start_export(self) -> None:
        """Start the export, which goes on where the table ends; the copy must have a log."""
        self.wait("begun")
        words: list[str | Path] = [
            "export",
            self.copy,
            "--to",
            "delta",
            "--out",
            self.table,
            "--follow",
            "--interval",
            "0.5",
        ]
        self.start("export", command(*words, *(("--topic", TOPIC) if self.built is not None else ())))

    def is_so(self, what: str, taken: int, arrived: int) -> bool:
        """Return whether a condition holds: also "begun", the copy has a log file."""
        if what == "begun":
            return any((self.copy / "commitlog").glob("0*"))
        return super().is_so(what, taken, arrived)

    def acknowledged(self) -> list[Place]:
        """Return where the messages are that were acknowledged, or that Java read as recorded."""
        if self.built is None:
            files = [RECORDED / "ha533.jsonl"]
        else:
            files = [self.out / f"master-{run}.out" for run in range(1, self.runs + 1)]
        return places(files)

    def taken(self) -> int:
        """Return how many messages the master has acknowledged, or sends by now."""
        if self.built is not None:
            return self.stored + len(places([self._acks]))
        files = [self.out / f"master-{run}.out" for run in range(1, self.runs + 1)]
        counts = [line for file in files if file.exists() for line in file.read_text().split("\n")[:-1]]
        return int(counts[-1]) if counts else 0

    def finish(self) -> None:
        """End the three in order; the export has everything."""
        for name in ("export", "follower", "master"):
            process = self.running[name]
            process.send_signal(signal.SIGTERM)
            if process.wait(30) and name != "master":
                raise SystemExit(f"the {name} failed; see {self.out}")


def places(files: list[Path]) -> list[Place]:
    """Return where acknowledged messages are; a killed process may leave half a line."""
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines() if line[-1:] == "}"]
    rows = [row for row in map(json.loads, lines) if row.get("status", "SEND_OK") == "SEND_OK"]
    return [(row["topic"], row["queue_id"], row["queue_offset"]) for row in rows]


def follow(out: Path, orders: int, rate: float, number: int) -> bool:
    """Follow a broker into a table, and kill all amid it; return False if parts are missing.

    Args:
        out: an empty directory.
        orders: number of orders that the broker takes, at least.
        rate: orders a second.
        number: of the first section.
    """
    if find_spec("deltalake") is None or not RECORDED.is_dir():
        console.print("\n[yellow]Left out: a followed broker; it needs deltalake, and the source tree's recordings.")
        return False
    built = java()
    story = Followed(out, orders, rate, built=built)
    kind = "live" if built is not None else "recorded"
    text = "Broker, name server and producer are real." if built is not None else NO_JAVA
    if built is None:
        with tarfile.open(RECORDED / "ha533.tar.xz") as archive:
            archive.extractall(out, filter="data")
        (out / "ha533").rename(story.store)
        story.orders = len(story.acknowledged())
        story.rate = story.orders / 8
    try:
        with section(f"{number}. A {kind} RocketMQ {VERSION}, followed into a table", text):
            story.start_master(LIMIT * orders)
            story.start_follower()
            story.start_export()
            story.wait("kill")
        with section(f"{number + 1}. kill -9, all three, in the middle", "The broker, the follower and the export."):
            story.kill()
            taken, arrived = story.look()
            console.print(f"killed with {taken:,} messages acknowledged and {arrived:,} in the table; the same again:")
            if built is not None:
                story.orders = max(orders, taken + orders // 4)
            story.start_master(story.orders)
            story.start_follower()
            story.start_export()
            story.wait("taken")
            story.wait("arrived")
            story.finish()
        with section(f"{number + 2}. The same bytes, and each message once", "The broker's log, the copy, the table."):
            flintmq("diff", story.store, story.copy)
            flintmq("diff", story.store, story.table)
            good(proof.each_once(story.table, story.acknowledged()))
    finally:
        story.clear()
    return True


def free_ports() -> int:
    """Return the first of six free ports: a name server's, and those around a broker's."""
    chance = random.Random()
    while True:
        port = chance.randrange(20_000, 30_000)
        try:
            for other in range(port, port + 6):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
        except OSError:
            continue
        return port
