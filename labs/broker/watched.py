"""`flintmq broker` whose event loop is watched: `python -m labs.broker.watched REPORT broker STORE ...`.

A callback of more than SLOW_S is a line on standard error. REPORT gets the longest ones when the broker stops.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SLOW_S = 0.1


@dataclass
class Watch:
    """The longest callbacks of a loop.

    Attributes:
        callbacks: how many there were.
        slow: how many took more than SLOW_S, waits for a processor included.
        longest_ms: of one callback; longest_cpu_ms: of its thread's own time.
    """

    callbacks: int = 0
    slow: int = 0
    longest_ms: float = 0.0
    longest_cpu_ms: float = 0.0

    def install(self) -> None:
        """Watch every callback of this process's loops from now on."""
        real = asyncio.Handle._run  # type: ignore[attr-defined]

        def run(handle: asyncio.Handle) -> None:
            wall, cpu = time.perf_counter(), time.thread_time()
            real(handle)
            self._note(handle, time.perf_counter() - wall, time.thread_time() - cpu)

        asyncio.Handle._run = run  # type: ignore[attr-defined]

    def _note(self, handle: asyncio.Handle, wall_s: float, cpu_s: float) -> None:
        self.callbacks += 1
        self.longest_ms = max(self.longest_ms, round(1000 * wall_s, 1))
        self.longest_cpu_ms = max(self.longest_cpu_ms, round(1000 * cpu_s, 1))
        if wall_s > SLOW_S:
            self.slow += 1
            print(f"slow callback: {wall_s:.3f} s, {cpu_s:.3f} s of its own: {handle!r:.300}", file=sys.stderr)


def read(report: Path) -> Watch:
    """What a broker that has stopped wrote."""
    return Watch(**json.loads(report.read_text()))


def main() -> None:
    """Be the broker."""
    report, *words = sys.argv[1:]
    watch = Watch()
    watch.install()
    sys.argv = ["flintmq", *words]
    from flintmq.__main__ import main as flintmq

    try:
        flintmq()
    finally:
        Path(report).write_text(json.dumps(asdict(watch)))


if __name__ == "__main__":
    main()
