"""`flintmq broker STORE --read-only` as a process, for clients that are no part of this project."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flintmq
from flintmq.errors import MessageNotFoundError
from flintmq.message import StoredMessage
from tests.support.engine import tree


@dataclass
class Served:
    """A running broker."""

    address: str  # of the name server and of the broker
    process: subprocess.Popen[bytes]
    errors: Path  # a file: its log


def started(store: Path | str, folder: Path, *words: str, listen: str = "127.0.0.1:0") -> Served:
    """A broker in a process that is ready."""
    command = [sys.executable, "-m", "flintmq", "broker", str(store), *words]
    errors = folder / "broker.err"
    with errors.open("wb") as out:
        process = subprocess.Popen([*command, "--listen", listen, "--json"], stdout=subprocess.PIPE, stderr=out)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline() or "null")
    assert told is not None and told["event"] == "ready", errors.read_text()
    return Served(told["listen"][0], process, errors)


@contextmanager
def served(store: Path | str, folder: Path, *words: str, writes: bool = False) -> Iterator[Served]:
    """Serve a store, read-only or not; at the end the broker must stop cleanly, without an error of its own."""
    running = started(store, folder, *([] if writes else ["--read-only"]), *words)
    process, errors = running.process, running.errors
    try:
        yield running
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, errors.read_text()
        assert "Traceback" not in errors.read_text(), errors.read_text()
    finally:
        process.kill()
        process.wait()


def files(root: Path) -> dict[str, bytes]:
    """All files of a directory."""
    return tree(root, "")


def stored(store: Path | str, keys: dict[str, Any] | None = None) -> dict[tuple[str, int, int], StoredMessage]:
    """Each message of each queue, by topic, queue and offset. A light queue holds messages of another topic."""
    found = {}
    with flintmq.open_store(store, set=keys or {}) as view:
        for queue in view.queues():
            for offset in range(queue.min_offset, queue.max_offset):
                try:
                    found[queue.topic, queue.queue_id, offset] = view.get(queue.topic, queue.queue_id, offset)
                except MessageNotFoundError:  # a unit of a record that recovery cut off
                    continue
    return found
