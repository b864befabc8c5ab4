"""What the producers of one broker were told, in a file that only grows, and the messages that they send."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flintmq.errors import ReplicationError
from flintmq.format.message_id import parse_offset_msg_id
from flintmq.ha.name_server import routes
from labs.interop.broker_process import OK, Admin
from labs.torture_spark.actors import whole_lines

TOPIC, QUEUES = "Load", 4
FILLER_MOST = 500
RETRY_S, STOP_S = 0.3, 60


class Place(NamedTuple):
    """Where a message was acknowledged to be."""

    queue_id: int
    queue_offset: int
    physical_offset: int


class Ledger(NamedTuple):
    """The messages of one broker.

    Attributes:
        acknowledged: number of each that was answered SEND_OK -> its place.
        unknown: numbers of those that were sent without an answer, or with another one.
    """

    acknowledged: dict[str, Place]
    unknown: set[str]


def body_of(name: str) -> bytes:
    """The body of a message, which begins with its name; a name is sent once."""
    chance = random.Random(name)
    return name.encode() + b" " + chance.randbytes(chance.randrange(FILLER_MOST))


def name_of(body: bytes) -> str:
    """The name with which a body begins."""
    return body.partition(b" ")[0].decode(errors="replace")


def read_ledger(path: Path) -> Ledger:
    """Read what a producer wrote."""
    found = Ledger({}, set())
    for line in whole_lines(path):
        if line["status"] == "SEND_OK":
            at = parse_offset_msg_id(line["msg_id"])[2]
            found.acknowledged[line["name"]] = Place(line["queue_id"], line["queue_offset"], at)
        else:
            found.unknown.add(line["name"])
    return found


class Producer:
    """Sends to one broker in a thread, wherever a name server says that it is.

    Args:
        names: address of the name server.
        broker: its name.
        path: of the ledger.
        rate: messages a second.

    Attributes:
        sent, acknowledged: messages so far.
        last: log offset of the last one that was acknowledged; -1: none.
        stopping: set when it is to end.
    """

    def __init__(self, names: str, broker: str, path: Path, rate: float) -> None:
        self.path, self.sent, self.acknowledged, self.last = path, 0, 0, -1
        self._names, self._broker, self._rate = names, broker, rate
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{broker}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; what is under way is answered, or of unknown fate."""
        self.stopping.set()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), f"the producer of {self._broker} hangs"

    def _run(self) -> None:
        with self.path.open("a") as ledger:
            while not self.stopping.is_set():
                try:
                    line = self._connected()
                except (OSError, ReplicationError):
                    line = None
                if line is None:
                    self.stopping.wait(RETRY_S)
                    continue
                try:
                    self._send_on(line, lambda **row: print(json.dumps(row), file=ledger, flush=True))
                finally:
                    line.close()

    def _connected(self) -> Admin | None:
        route = routes([self._names]).get(self._broker)
        if route is None or route.master is None:
            return None
        return Admin(int(route.master.rpartition(":")[2]))

    def _send_on(self, line: Admin, note: Callable[..., None]) -> None:
        """Send until the line is lost, the broker refuses a message, or a stop."""
        due = time.monotonic()
        while not self.stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due + 1 / self._rate, time.monotonic() - 1)
            self.sent += 1
            name = f"{self._broker}/{self.sent}"
            try:
                told = line.put(TOPIC, body_of(name), self.sent % QUEUES, KEYS=name)
            except (OSError, EOFError) as error:
                note(name=name, status=f"{type(error).__name__}")
                return
            if told["code"] != OK:
                note(name=name, status=f"code {told['code']}")
                return
            more = told["extFields"]
            place = {"queue_id": int(more["queueId"]), "queue_offset": int(more["queueOffset"])}
            note(name=name, status="SEND_OK", broker=self._broker, msg_id=more["msgId"], **place)
            self.acknowledged += 1
            self.last = parse_offset_msg_id(more["msgId"])[2]
