"""Have clients send to a broker of FlintMQ, kill everything amid it, and count each message.

A table follows the store. Where Java and the jars of tests/interop/oracle are at hand, RocketMQ's own producer sends;
elsewhere the client of `flintmq.remoting` does, and the chapter says so.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from examples.demo import proof
from examples.demo.following import Place, free_ports, java, places
from examples.demo.story import Story, command, console, flintmq, good, section

LIMIT = 20  # the first sender would send this multiple of the wanted orders, were it not killed
NO_JAVA = "Java or the jars of tests/interop/oracle are missing: FlintMQ's own client sends."


@dataclass
class Sent(Story):
    """A broker that clients send to, a sender, and an export of the store.

    Attributes:
        built: the oracle; None: our own client sends.
    """

    may_end = frozenset({"sender"})

    built: Path | None = None

    def __post_init__(self) -> None:
        self.store, self.address, self.runs = self.out / "store", f"127.0.0.1:{free_ports()}", 0

    def start_all(self, orders: int) -> None:
        """Start broker and sender, and the export once there is a log."""
        self.runs += 1
        self.start("broker", command("broker", self.store, "--dev", "--listen", self.address))
        words = ["-m", "examples.demo.sender", self.address, "--orders", str(orders), "--rate", f"{self.rate:g}"]
        words += ["--built", str(self.built)] if self.built is not None else []
        self.start("sender", [sys.executable, *words], self._acks(self.runs))
        self.wait("begun")
        following = ("--follow", "--interval", "0.5")
        self.start("export", command("export", self.store, "--to", "delta", "--out", self.table, *following))

    def is_so(self, what: str, taken: int, arrived: int) -> bool:
        """Return whether a condition holds: also "begun", the store has messages."""
        return taken > 0 if what == "begun" else super().is_so(what, taken, arrived)

    def acknowledged(self) -> list[Place]:
        """Return where the messages are that were acknowledged."""
        return places([self._acks(run) for run in range(1, self.runs + 1)])

    def taken(self) -> int:
        """Return how many these are."""
        return len(self.acknowledged())

    def finish(self) -> None:
        """End the export, which has everything then, and the broker."""
        for name in ("export", "broker"):
            self.running[name].send_signal(signal.SIGTERM)
            if self.running[name].wait(30):
                raise SystemExit(f"the {name} failed; see {self.out}")

    def _acks(self, run: int) -> Path:
        return self.out / f"sender-{run}.out"


def sell(out: Path, orders: int, rate: float, number: int) -> bool:
    """Have clients send to a broker, and kill all amid it; return False if parts are missing.

    Args:
        out: an empty directory.
        orders: number of orders that are sent, at least.
        rate: orders a second.
        number: of the section.
    """
    if find_spec("deltalake") is None:
        console.print("\n[yellow]Left out: a broker for stock clients; its table needs deltalake.")
        return False
    built = java()
    story = Sent(out, orders, rate, built=built)
    try:
        title = f"{number}. The other way round: stock clients send to FlintMQ, and all is killed"
        with section(title, "RocketMQ's own Java producer sends." if built is not None else NO_JAVA):
            story.start_all(LIMIT * orders)
            story.wait("kill")
            story.kill()
            console.print(f"killed with {story.taken():,} messages acknowledged; the same again:")
            story.orders = story.taken() + orders // 2
            story.start_all(orders // 2)
            story.wait("taken")
            story.wait("arrived")
            story.finish()
            flintmq("verify", story.store)
            flintmq("diff", story.store, story.table)
            good(proof.each_once(story.table, story.acknowledged()))
    finally:
        story.clear()
    return True
