"""The whole story in under three minutes: `make demo`, or `python -m examples.demo`.

A store that Apache RocketMQ wrote is looked into and rebuilt. Then an engine takes orders while a streaming job carries
them into a Delta table; both are killed in the middle and started again; the count proves that each order is there once
(`proof.py`). Queues and index are made anew on Spark and compared byte for byte, and a report with plots is made.
Everything it writes is below `demo-out/`; the exit code is not 0 where a proof fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from examples.demo import proof
from flintmq import open_store
from flintmq.errors import MissingExtraError
from flintmq.testing.damage import flip

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "compat" / "golden" / "basic.tar.xz"
DISPATCH = ("spark", "dispatch", "--once")  # what makes queues and index on Spark: STORE --into DIR
KILL_AT = 0.4  # of all orders
BATCHES = 3  # that the job brings into the table before it is killed
LIMIT = 20  # times the orders that are wanted, an engine takes that is not killed
WAIT_S = 90  # for anything of the story to happen
LOOK_S, TELL_S = 0.3, 3.0

console = Console(highlight=False)


@contextmanager
def section(title: str, text: str) -> Iterator[None]:
    """A heading, what follows, and how long it took."""
    console.print()
    console.rule(f"[bold]{title}", align="left", style="cyan")
    console.print(f"[dim]{text}[/dim]")
    began = time.perf_counter()
    yield
    console.print(f"[cyan]{time.perf_counter() - began:.1f} s[/cyan]")


def command(*words: str | Path) -> list[str]:
    """The real command line, as a user would run it."""
    console.print(f"\n[bold]$ flintmq {escape(shlex.join(str(word) for word in words))}[/bold]")
    return [sys.executable, "-m", "flintmq", *map(str, words)]


def flintmq(*words: str | Path, expect: int = 0) -> None:
    """Run a command to its end."""
    done = subprocess.run(command(*words), stderr=_quiet(words), check=False)
    if done.returncode != expect:
        raise SystemExit(f"flintmq {words[0]} ended with exit code {done.returncode}, not {expect}")


def _quiet(words: tuple[str | Path, ...]) -> int | None:
    """Where stderr goes: what Java says at the start of Spark helps nobody."""
    return subprocess.DEVNULL if words[0] == "spark" and "FLINTMQ_DEBUG" not in os.environ else None


def good(text: str) -> None:
    """A proof that held."""
    console.print(f"[bold green]{text}")


# -- what RocketMQ wrote -----------------------------------------------------------------------------------------------


def java_store(out: Path) -> None:
    """What RocketMQ wrote: looked at, damaged, rebuilt."""
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

    text = "Consume queues and index made anew from the commit log alone, against the files that Java wrote."
    with section("3. Rebuild, byte for byte", text):
        into = out / "rebuilt"
        flintmq("rebuild", store, "--into", into)
        good(f"{proof.same_files(store, into)} files compared with Java's: every byte is equal")


# -- orders, streamed, killed, counted ---------------------------------------------------------------------------------


@dataclass
class Story:
    """What runs while orders come in, and what was seen of it.

    The engine's first life has no end of its own: it is killed when both sides are well under way, however slow the
    machine is. Its second life brings what is lacking to `orders`, and at least as much as was to come after the kill.

    Attributes:
        orders: how many there are in the end.
        seen: (seconds since the beginning, orders stored, orders in the table).
        moments: (seconds, what happened then).
    """

    out: Path
    orders: int
    rate: float
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: list[tuple[float, int, int]] = field(default_factory=list)
    moments: list[tuple[float, str]] = field(default_factory=list)
    told: float = -TELL_S
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Name the places."""
        self.store, self.table, self.acks = self.out / "orders", self.out / "table", self.out / "acknowledged"

    def start_writer(self, orders: int) -> None:
        """The engine, up to so many orders; it goes on where the store ends."""
        words = ["-m", "flintmq.testing.orders", self.store, "--orders", orders, "--rate", f"{self.rate:g}"]
        words += ["--acks", self.acks]
        console.print(f"\n[bold]$ python {escape(shlex.join(map(str, words)))}[/bold]")
        self._start("engine", [sys.executable, *map(str, words)])

    def start_job(self) -> None:
        """The streaming job; it goes on where the table ends."""
        words = ("spark", "export", self.store, "--to", "delta", "--out", self.table, "--stream", "--interval", "1")
        self._start("job", command(*words, "--master", "local[2]"))

    def _start(self, name: str, words: list[str]) -> None:
        with (self.out / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        self.moments.append((self.now, f"{name} started"))

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def look(self) -> tuple[int, int]:
        """How many orders are acknowledged, and how many are in the table."""
        lines = self.acks.read_text().splitlines() if self.acks.exists() else []
        taken, arrived = int(lines[-1]) if lines else 0, proof.rows_of(self.table)
        self.seen.append((self.now, taken, arrived))
        if self.now - self.told >= TELL_S:
            self.told = self.now
            console.print(f"{self.now:5.0f} s   taken {taken:>9,}   in the table {arrived:>9,}")
        return taken, arrived

    def wait(self, what: str, over: str = "") -> None:
        """Look until something has come true: "kill" (time to), "taken" (all orders), "arrived" (in the table)."""
        until = time.monotonic() + WAIT_S + self.orders / max(self.rate, 1)
        while time.monotonic() < until:
            taken, arrived = self.look()
            if (
                (what == "kill" and taken >= KILL_AT * self.orders and len({row[2] for row in self.seen}) > BATCHES)
                or (what == "taken" and taken >= self.orders)
                or (what == "arrived" and arrived >= self.orders)
            ):
                return
            for name, process in self.running.items():
                if process.poll() is not None and (name == "job" or process.returncode or what == "kill"):
                    raise SystemExit(f"the {name} ended with exit code {process.returncode}; see {self.out}/{name}.log")
            time.sleep(LOOK_S)
        raise SystemExit(f"waited {WAIT_S} s and longer for: {what}; see the logs in {self.out}")

    def kill(self) -> None:
        """End both with SIGKILL, with all their processes."""
        for name, process in self.running.items():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.moments.append((self.now, f"{name} killed"))

    def finish(self) -> None:
        """Let the engine end by itself, and ask the job to."""
        if self.running["engine"].wait(WAIT_S):
            raise SystemExit(f"the engine failed; see {self.out}/engine.log")
        self.running["job"].send_signal(signal.SIGTERM)
        if self.running["job"].wait(WAIT_S):
            raise SystemExit(f"the job failed; see {self.out}/job.log")

    def clear(self) -> None:
        """End what still runs."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def stream(out: Path, orders: int, rate: float) -> Story:
    """Orders come in and go out, both sides die and come back."""
    story = Story(out, orders, rate)
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


def afterwards(out: Path, story: Story) -> None:
    """Queues and index on Spark, the report, the plot."""
    with section("7. Queues and index on Spark, byte for byte", "From the log alone, against those the engine made."):
        flintmq(*DISPATCH, story.store, "--into", out / "dispatched", "--master", "local[2]")
        good(
            f"{proof.same_files(story.store, out / 'dispatched')} files compared with the engine's: every byte is equal"
        )
    with section("8. What came in", "Rates, sizes, keys, latency, hot queues: one page that needs no network."):
        flintmq("spark", "stats", story.store, "--out", out / "report.html", "--master", "local[2]")
        (out / "stream.svg").write_text(proof.picture(story.seen, story.moments), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Returns the exit code."""
    parser = argparse.ArgumentParser(description="FlintMQ's story on real data, in under three minutes.")
    parser.add_argument("--out", default="demo-out", help="where everything goes; emptied first (demo-out)")
    parser.add_argument("--orders", type=int, default=160_000, help="that the engine takes, at least (160000)")
    parser.add_argument("--rate", type=float, default=4000, help="orders a second (4000)")
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
        # Its Java machines live for seconds: compiling once only takes half of the processor time.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
        try:
            afterwards(out, stream(out, given.orders, given.rate))
        except MissingExtraError as error:
            raise SystemExit(str(error)) from None
        console.print(f"\n[bold]{'Delta table':<12}[/bold]{out / 'table'}")
        console.print(f"[bold]{'Report':<12}[/bold]{out / 'report.html'}")
        console.print(f"[bold]{'Plot':<12}[/bold]{out / 'stream.svg'}")
    console.print(f"\n[bold]Done in {time.perf_counter() - began:.0f} s.[/bold] Try: flintmq inspect {out / 'orders'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
