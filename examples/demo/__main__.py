"""Run the whole story in under three minutes: `make demo`, or `python -m examples.demo`.

The demo inspects and rebuilds a store that Apache RocketMQ wrote. Then an engine takes orders while a streaming job
writes them to a Delta table. Both are killed halfway and started again, and a count proves that the table has each
order exactly once (`proof.py`). Spark rebuilds queues and index, which are compared byte for byte, and writes a report
with plots. A broker is followed into another table, and all are killed (`following.py`); finally stock clients send to
a broker of FlintMQ, and all are killed (`selling.py`). All output goes to
`demo-out/`; the exit code is not 0 if a proof fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from examples.demo import proof
from examples.demo.following import follow
from examples.demo.selling import sell
from examples.demo.story import KILL_AT, WAIT_S, Story, command, console, flintmq, good, section
from flintmq import open_store
from flintmq.errors import MissingExtraError
from flintmq.testing.damage import flip

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "compat" / "golden" / "basic.tar.xz"
DISPATCH = ("spark", "dispatch", "--once")  # the words that make Spark rebuild queues and index: STORE --out DIR
LIMIT = 20  # the first engine would stop after this multiple of the wanted orders, were it not killed

# -- the store that RocketMQ wrote -------------------------------------------------------------------------------------


def java_store(out: Path) -> None:
    """Inspect the store that RocketMQ wrote, damage a copy and rebuild its derived files."""
    if not GOLDEN.exists():
        console.print(f"\n[yellow]Left out: the store written by RocketMQ is part of the source tree ({GOLDEN.name}).")
        return
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(out, filter="data")
    store = out / "basic"
    with section("1. A store that Apache RocketMQ 5.3.3 wrote", "Topics, queues, times and files, read-only, offline."):
        flintmq("inspect", store)

    text = "One bit of one message body is flipped in a copy. RocketMQ would cut the log there and lose what follows."
    with section("2. Damage is found, and only the damage", text):
        copy = shutil.copytree(store, out / "damaged")
        with open_store(store) as view:
            victim = view.get("Orders", 2, 60)
        log = sorted((copy / "commitlog").iterdir())
        file = [path for path in log if int(path.name) <= victim.physical_offset][-1]
        flip(file, victim.physical_offset - int(file.name) + victim.raw.index(victim.body), 0x10)
        flintmq("verify", copy, expect=1)

    text = "Consume queues and index rebuilt from the commit log alone, against the files that Java wrote."
    with section("3. Rebuild, byte for byte", text):
        into = out / "rebuilt"
        flintmq("rebuild", store, "--out", into)
        good(f"{proof.same_files(store, into)} files compared with Java's: every byte is equal")


# -- orders, streamed, killed, counted ---------------------------------------------------------------------------------


@dataclass
class Orders(Story):
    """An engine that takes orders, and a streaming job.

    The engine's first run has no end of its own: it is killed once both sides are well under way, however slow the
    machine is. Its second run continues up to `orders`, and takes at least as many orders as were to come after the
    kill.
    """

    may_end = frozenset({"engine"})

    def __post_init__(self) -> None:
        """Set the paths of store and acknowledgements."""
        self.store, self.acks = self.out / "orders", self.out / "acknowledged"

    def taken(self) -> int:
        """Return how many orders are acknowledged."""
        lines = self.acks.read_text().splitlines() if self.acks.exists() else []
        return int(lines[-1]) if lines else 0

    def start_writer(self, orders: int) -> None:
        """Start the engine, which takes orders from the end of the store up to the given number."""
        words = ["-m", "examples.demo.orders", self.store, "--orders", orders, "--rate", f"{self.rate:g}"]
        words += ["--acks", self.acks]
        console.print(f"\n[bold]$ python {escape(shlex.join(map(str, words)))}[/bold]")
        self.start("engine", [sys.executable, *map(str, words)])

    def start_job(self) -> None:
        """Start the streaming job, which continues at the end of the table."""
        words = ("spark", "export", self.store, "--to", "delta", "--out", self.table, "--follow", "--interval", "1")
        self.start("job", command(*words, "--master", "local[2]"))

    def finish(self) -> None:
        """Wait for the engine to end, then ask the job to end."""
        if self.running["engine"].wait(WAIT_S):
            raise SystemExit(f"the engine failed; see {self.out}/engine.log")
        self.running["job"].send_signal(signal.SIGTERM)
        if self.running["job"].wait(WAIT_S):
            raise SystemExit(f"the job failed; see {self.out}/job.log")


def stream(out: Path, orders: int, rate: float) -> Orders:
    """Stream orders into the table, kill both sides, restart them and count."""
    story = Orders(out, orders, rate)
    try:
        text = f"Some {rate:,.0f} orders a second come in; a streaming job carries them into a Delta table meanwhile."
        with section("4. An engine takes orders, a job streams them into Delta", text):
            story.start_writer(LIMIT * orders)
            story.start_job()
            story.wait("kill")
        with section("5. kill -9, both, in the middle", "Nobody is asked, nothing is flushed, no file is closed."):
            story.kill()
            taken, arrived = story.look()
            console.print(f"killed with {taken:,} orders acknowledged and {arrived:,} in the table; the same again:")
            story.orders = max(orders, taken + int((1 - KILL_AT) * orders))
            story.start_writer(story.orders)
            story.start_job()
            story.wait("taken")
            story.wait("arrived")
            story.finish()
        text = "Against the log: every order that was acknowledged, each once, in the table with the same bytes."
        with section("6. Exactly once, counted", text):
            for line in proof.exactly_once(story.store, story.table, story.orders, taken):
                good(line)
    finally:
        story.clear()
    return story


def afterwards(out: Path, story: Orders) -> None:
    """Rebuild queues and index on Spark, then write the report and the plot."""
    with section("7. Queues and index on Spark, byte for byte", "From the log alone, against those the engine made."):
        flintmq(*DISPATCH, story.store, "--out", out / "dispatched", "--master", "local[2]")
        good(
            f"{proof.same_files(story.store, out / 'dispatched')} files compared with the engine's: every byte is equal"
        )
    with section("8. What came in", "Rates, sizes, keys, latency, hot queues: one page that needs no network."):
        flintmq("spark", "stats", story.store, "--out", out / "report.html", "--master", "local[2]")
        (out / "stream.svg").write_text(proof.picture(story.seen, story.moments), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description="FlintMQ's story on real data, in under three minutes.")
    parser.add_argument("--out", default="demo-out", help="where everything goes; emptied first (demo-out)")
    parser.add_argument("--orders", type=int, default=160_000, help="that the engine takes, at least (160000)")
    parser.add_argument("--rate", type=float, default=4000, help="orders a second (4000)")
    parser.add_argument("--followed", type=int, default=4000, help="orders that the live RocketMQ takes (4000)")
    parser.add_argument("--without-spark", action="store_true", help="stop before Spark")
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    out = Path(given.out)
    if out.exists() and any(out.iterdir()) and not (out / ".flintmq-demo").exists():
        raise SystemExit(f"{out} holds something that is not of an earlier demo; give another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / ".flintmq-demo").touch()
    java_store(out)
    if not given.without_spark:
        # Its JVMs live for seconds: the first compiler tier alone takes half of the processor time.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        try:
            afterwards(out, stream(out, given.orders, given.rate))
        except MissingExtraError as error:
            raise SystemExit(str(error)) from None
    (out / "live").mkdir()
    first = 4 if given.without_spark else 9
    follow(out / "live", given.followed, given.followed / 8, first)
    (out / "broker").mkdir()
    sell(out / "broker", given.followed, given.followed / 4, first + 3)
    if not given.without_spark:
        console.print(f"\n[bold]{'Delta table':<12}[/bold]{out / 'table'}")
        console.print(f"[bold]{'Report':<12}[/bold]{out / 'report.html'}")
        console.print(f"[bold]{'Plot':<12}[/bold]{out / 'stream.svg'}")
    seen = out / ("basic" if given.without_spark else "orders")
    console.print(f"\n[bold]Done in {time.perf_counter() - began:.0f} s.[/bold] Try: flintmq inspect {seen}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
