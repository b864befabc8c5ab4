"""`flintmq broker` as a process that is started, killed and looked at."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from labs.soak.run import Sample, sample
from labs.torture_spark.actors import end, spawn
from tests.interop.running_broker import free_ports

START_S, STOP_S = 60, 30
LOOK_S = 0.002


class BrokerProcess:
    """A broker of one store at one address; each start is a life of its own.

    It dies with the thread that starts it: start it in the main one.

    Args:
        folder: for what it says, and for the store if no other place is given.
        words: more of its command line.
        store: its directory.
        program: what stands behind `python -m`.
    """

    def __init__(
        self, folder: Path, *words: str, store: Path | None = None, program: tuple[str, ...] = ("flintmq",)
    ) -> None:
        self.folder, self.store = folder, store or folder / "store"
        self.address = f"127.0.0.1:{free_ports()[0]}"  # of no client's own end: those have ports from 32,768 on
        self._words = [sys.executable, "-m", *program, "broker", str(self.store), *words, "--json"]
        self._out, self._errors = folder / "broker.out", folder / "broker.err"
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_at = 0.0  # by the monotonic clock

    @property
    def runs(self) -> bool:
        """Whether it is there."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it; it is ready a moment later."""
        self._out.unlink(missing_ok=True)
        self.process = spawn([*self._words, "--listen", self.address], self._out, self._errors)

    def wait_ready(self, seconds: float = START_S) -> None:
        """Wait until it says that it is ready.

        Raises:
            AssertionError: it ended, or did not say so in time.
        """
        limit = time.monotonic() + seconds
        while not self.is_ready():
            assert self.runs and time.monotonic() < limit, f"the broker did not start: {self.said()}"
            time.sleep(LOOK_S)
        self.ready_at = time.monotonic()

    def is_ready(self) -> bool:
        """Whether this life has said so."""
        text = self._out.read_text() if self._out.exists() else ""
        return text.endswith("\n") and json.loads(text)["event"] == "ready"

    def kill(self) -> None:
        """`kill -9`, if it still runs."""
        if self.process is not None:
            end(self.process)

    def stop(self) -> None:
        """SIGTERM, upon which it must end cleanly.

        Raises:
            AssertionError: it did not, or has said something that is wrong in any life.
        """
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the broker did not stop within {STOP_S} s: {self.said()}") from None
        assert code == 0, f"the broker stopped with {code}: {self.said()}"
        assert not self.tracebacks(), f"the broker says: {self.tracebacks()[0]}"

    def look(self, at: float) -> Sample | None:
        """What it holds now, under the name `broker`; None if it has just ended."""
        return sample(self.process.pid, "broker", at) if self.process is not None else None

    def said(self) -> str:
        """The last lines that it wrote as errors, in all lives."""
        return self._errors.read_text(errors="replace")[-1500:] if self._errors.exists() else ""

    def lines(self) -> list[str]:
        """All lines that it wrote as errors."""
        return self._errors.read_text(errors="replace").splitlines() if self._errors.exists() else []

    def failed(self) -> list[str]:
        """Requests that met an error of the broker's own, of which its log tells."""
        return [line for line in self.lines() if '"note": "request ' in line]

    def tracebacks(self) -> list[str]:
        """Errors of its own that it did not expect, each with what comes after."""
        lines = self.lines()
        return ["\n".join(lines[at : at + 40]) for at, line in enumerate(lines) if line.startswith("Traceback")]
