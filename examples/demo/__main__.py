"""Run the whole story in under three minutes: `make demo`, or `python -m examples.demo`.

The demo inspects and rebuilds a store that Apache RocketMQ wrote. Then an engine takes orders while a streaming job
writes them to a Delta table. Both are killed halfway and started again, and a count proves that the table has each
order exactly once (`proof.py`). Finally Spark rebuilds queues and index, which are compared byte for byte, and writes a
report with plots. All output goes to `demo-out/`; the exit code is not 0 if a proof fails.
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
DISPATCH = ("spark", "dispatch", "--once")  # the words that make Spark rebuild queues and index: STORE --into DIR
KILL_AT = 0.4  # share of all orders
BATCHES = 3  # batches in the table before the job is killed
LIMIT = 20  # the first engine would stop after this multiple of the wanted orders, were it not killed
WAIT_S = 90  # longest wait for one step of the story
LOOK_S, REPORT_S = 0.3, 3.0

console = Console(highlight=False)


@contextmanager
def section(title: str, text: str) -> Iterator[None]:
    """Print a heading, run the body and print how long it took."""
    console.print()
    console.rule(f"[bold]{title}", align="left", style="cyan")
    console.print(f"[dim]{text}[/dim]")
    began = time.perf_counter()
    yield
    console.print(f"[cyan]{time.perf_counter() - began:.1f} s[/cyan]")


def command(*words: str | Path) -> list[str]:
    """Print the command line as a user would type it, and return the words that run it."""
    console.print(f"\n[bold]$ flintmq {escape(shlex.join(str(word) for word in words))}[/bold]")
    return [sys.executable, "-m", "flintmq", *map(str, words)]


def flintmq(*words: str | Path, expect: int = 0) -> None:
    """Run a command and check its exit code."""
    done = subprocess.run(command(*words), stderr=_quiet(words), check=False)
    if done.returncode != expect:
        raise SystemExit(f"flintmq {words[0]} ended with exit code {done.returncode}, not {expect}")


def _quiet(words: tuple[str | Path, ...]) -> int | None:
    """Return where stderr goes: Java's messages at the start of Spark help nobody."""
    return subprocess.DEVNULL if words[0] == "spark" and "FLINTMQ_DEBUG" not in os.environ else None


def good(text: str) -> None:
    """Print a proof that held."""
    console.print(f"[bold green]{text}")


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
        flintmq("rebuild", store, "--into", into)
        good(f"{proof.same_files(store, into)} files compared with Java's: every byte is equal")


# -- orders, streamed, killed, counted ---------------------------------------------------------------------------------


@dataclass
class Story:
    """The running processes of the demo, and the counts seen while they ran.

    The engine's first run has no end of its own: it is killed once both sides are well under way, however slow the
    machine is. Its second run continues up to `orders`, and takes at least as many orders as were to come after the
    kill.

    Attributes:
        orders: number of orders in the end.
        seen: (seconds since the beginning, orders stored, orders in the table).
        moments: (seconds since the beginning, event).
    """

    out: Path
    orders: int
    rate: float
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: list[tuple[float, int, int]] = field(default_factory=list)
    moments: list[tuple[float, str]] = field(default_factory=list)
    reported: float = -REPORT_S
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Set the paths of store, table and acknowledgements."""
        self.store, self.table, self.acks = self.out / "orders", self.out / "table", self.out / "acknowledged"

    def start_writer(self, orders: int) -> None:
        """Start the engine, which takes orders from the end of the store up to the given number."""
        words = ["-m", "flintmq.testing.orders", self.store, "--orders", orders, "--rate", f"{self.rate:g}"]
        words += ["--acks", self.acks]
        console.print(f"\n[bold]$ python {escape(shlex.join(map(str, words)))}[/bold]")
        self._start("engine", [sys.executable, *map(str, words)])

    def start_job(self) -> None:
        """Start the streaming job, which continues at the end of the table."""
        words = ("spark", "export", self.store, "--to", "delta", "--out", self.table, "--stream", "--interval", "1")
        self._start("job", command(*words, "--master", "local[2]"))

    def _start(self, name: str, words: list[str]) -> None:
        with (self.out / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        self.moments.append((self.now, f"{name} started"))

    @property
    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    def look(self) -> tuple[int, int]:
        """Count the orders acknowledged and the orders in the table, and print both at times."""
        lines = self.acks.read_text().splitlines() if self.acks.exists() else []
        taken, arrived = int(lines[-1]) if lines else 0, proof.rows_of(self.table)
        self.seen.append((self.now, taken, arrived))
        if self.now - self.reported >= REPORT_S:
            self.reported = self.now
            console.print(f"{self.now:5.0f} s   taken {taken:>9,}   in the table {arrived:>9,}")
        return taken, arrived

    def wait(self, what: str, over: str = "") -> None:
        """Poll the counts until a condition holds.

        Args:
            what: "kill" (both sides are well under way), "taken" (the engine has all orders) or "arrived" (the table
                has them).
        """
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
        """Kill both with SIGKILL, and all their child processes."""
        for name, process in self.running.items():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.moments.append((self.now, f"{name} killed"))

    def finish(self) -> None:
        """Wait for the engine to end, then ask the job to end."""
        if self.running["engine"].wait(WAIT_S):
            raise SystemExit(f"the engine failed; see {self.out}/engine.log")
        self.running["job"].send_signal(signal.SIGTERM)
        if self.running["job"].wait(WAIT_S):
            raise SystemExit(f"the job failed; see {self.out}/job.log")

    def clear(self) -> None:
        """Kill the processes that still run."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def stream(out: Path, orders: int, rate: float) -> Story:
    """Stream orders into the table, kill both sides, restart them and count."""
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
    """Rebuild queues and index on Spark, then write the report and the plot."""
    with section("7. Queues and index on Spark, byte for byte", "From the log alone, against those the engine made."):
        flintmq(*DISPATCH, story.store, "--into", out / "dispatched", "--master", "local[2]")
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
        console.print(f"\n[bold]{'Delta table':<12}[/bold]{out / 'table'}")
        console.print(f"[bold]{'Report':<12}[/bold]{out / 'report.html'}")
        console.print(f"[bold]{'Plot':<12}[/bold]{out / 'stream.svg'}")
    console.print(f"\n[bold]Done in {time.perf_counter() - began:.0f} s.[/bold] Try: flintmq inspect {out / 'orders'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
