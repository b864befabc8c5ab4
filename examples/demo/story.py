"""Processes that are started, watched, killed and started again, and the words around them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rich.console import Console
from rich.markup import escape

from examples.demo import proof

KILL_AT = 0.4  # share of all messages
BATCHES = 3  # batches in the table before the kill
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


@dataclass
class Story:
    """The running processes of a chapter, and the counts seen while they ran.

    Attributes:
        out: a directory for all files.
        orders: number of messages in the end.
        rate: messages a second.
        running: the processes by name; each has the file NAME.log in `out`.
        seen: (seconds since the beginning, messages stored, messages in the table).
        moments: (seconds since the beginning, event).
    """

    may_end: ClassVar[frozenset[str]] = frozenset()
    """Processes that end by themselves once their work is done."""

    out: Path
    orders: int
    rate: float
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: list[tuple[float, int, int]] = field(default_factory=list)
    moments: list[tuple[float, str]] = field(default_factory=list)
    reported: float = -REPORT_S
    began: float = field(default_factory=time.monotonic)

    @property
    def table(self) -> Path:
        """Return the table's directory."""
        return self.out / "table"

    def taken(self) -> int:
        """Return how many messages are stored for certain."""
        raise NotImplementedError

    def start(self, name: str, words: list[str], output: Path | None = None) -> None:
        """Start a process in a group of its own; its output is added to a file."""
        log = self.out / f"{name}.log"
        with log.open("ab") as errors, (output or log).open("ab") as file:
            self.running[name] = subprocess.Popen(words, stdout=file, stderr=errors, start_new_session=True)
        self.moments.append((self.now, f"{name} started"))

    @property
    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    def look(self) -> tuple[int, int]:
        """Count the messages taken and those in the table, and print both at times."""
        taken, arrived = self.taken(), proof.rows_of(self.table)
        self.seen.append((self.now, taken, arrived))
        if self.now - self.reported >= REPORT_S:
            self.reported = self.now
            console.print(f"{self.now:5.0f} s   taken {taken:>9,}   in the table {arrived:>9,}")
        return taken, arrived

    def is_so(self, what: str, taken: int, arrived: int) -> bool:
        """Return whether a condition of `wait` holds.

        Args:
            what: "kill" (both sides are well under way), "taken" (all messages are stored) or "arrived" (the table has
                them).
            taken: number of messages taken.
            arrived: number of messages in the table.
        """
        if what == "kill":
            return taken >= KILL_AT * self.orders and len({row[2] for row in self.seen}) > BATCHES
        return (taken if what == "taken" else arrived) >= self.orders

    def wait(self, what: str) -> None:
        """Poll the counts until a condition holds.

        Raises:
            SystemExit: a process ended, or the time is up.
        """
        until = time.monotonic() + WAIT_S + self.orders / max(self.rate, 1)
        while time.monotonic() < until:
            if self.is_so(what, *self.look()):
                return
            for name, process in self.running.items():
                code = process.poll()
                if code is not None and (code or what == "kill" or name not in self.may_end):
                    raise SystemExit(f"the {name} ended with exit code {code}; see {self.out}/{name}.log")
            time.sleep(LOOK_S)
        raise SystemExit(f"waited {WAIT_S} s and longer for: {what}; see the logs in {self.out}")

    def kill(self) -> None:
        """Kill all with SIGKILL, and all their child processes."""
        for process in self.running.values():
            os.killpg(process.pid, signal.SIGKILL)
        for name, process in self.running.items():
            process.wait()
            self.moments.append((self.now, f"{name} killed"))

    def clear(self) -> None:
        """Kill the processes that still run."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
