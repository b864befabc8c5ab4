"""A broker of a few records and tables, written by hand, and a follower of it."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from flintmq.ha.broker_tables import BrokerTables
from flintmq.ha.follower import Follower
from tests.ha.loopback import LoopbackMaster
from tests.remoting.remoting_peer import Asked, RemotingPeer, reply
from tests.support.small_logs import make

FILE_SIZE = 1 << 16
SIZES = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
LONGEST_S = 20
BATCH, SIMPLE = "BatchCQ", "SimpleCQ"


class FollowedBroker:
    """Its log, of which it says that it begins at `begin`, is given over one port, its tables over another."""

    def __init__(self, begin: int = 0) -> None:
        self.topics: dict[str, str] = {}  # to their types; each change is told with the next question
        self.ends: dict[tuple[str, int], int] = {}  # next offsets; of other queues it says 0. `put` raises them
        self.config: dict[str, object] = {}  # more keys of its configuration
        self.begin, self.made = begin, 0
        self.before: Callable[[Asked], bytes | None] = lambda asked: None  # what it returns is the answer instead
        self.master = LoopbackMaster(bytes(begin), FILE_SIZE)
        self.peer = RemotingPeer(self._answer)

    def put(self, topic: str, *offsets: int, body: bytes = b"body") -> None:
        """Records of queue 0 with these queue offsets are in its log."""
        for offset in offsets:
            at = self.master.end
            record = make(at, int(time.time() * 1000), body, topic.encode(), offset)
            self.master.log += record
            self.master.end += len(record)
            self.ends[topic, 0] = offset + 1

    def _answer(self, asked: Asked) -> bytes | None:
        if (instead := self.before(asked)) is not None:
            return instead or None
        version = {"counter": str(self.topics), "stateVersion": 0, "timestamp": 0}
        bodies: dict[int, object] = {
            28: {"table": {"commitLogMinOffset": str(self.begin), "commitLogMaxOffset": str(self.master.end)}},
            21: {"dataVersion": version, "topicConfigTable": {
                name: {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "attributes": {"queue.type": kind}}
                for name, kind in self.topics.items()
            }},
            201: {"dataVersion": version, "subscriptionGroupTable": {}},
            43: {"offsetTable": {}},
            45: {"offsetTable": {}},
            402: {"messageRequestModeMap": {}},
        }  # fmt: skip
        if asked.code == 26:
            lines = (f"{key}={value}" for key, value in (SIZES | self.config).items())
            return reply(asked, "\n".join(lines).encode())
        if asked.code == 30:
            place = asked.fields["topic"], int(asked.fields["queueId"])
            return reply(asked, fields={"offset": str(self.ends.get(place, 0))})
        return reply(asked, json.dumps(bodies[asked.code]).encode())

    def __enter__(self) -> Self:
        self.master.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.close()
        self.master.__exit__()

    def follower(self, store: Path, **how: Any) -> Follower:
        """A follower of it, not started."""
        return Follower(store, self.master.address, config_from=self.peer.address, **how)


def every(monkeypatch: Any, seconds: float) -> None:
    """Have brokers asked again after so many seconds."""
    monkeypatch.setitem(BrokerTables.__init__.__kwdefaults__, "every_s", seconds)


def queues_of(store: Path) -> dict[str, set[str]]:
    """Kind of queue to TOPIC/QUEUE of its directories that have a file."""
    kinds = ("consumequeue", "batchconsumequeue")
    return {kind: {f"{one[-3]}/{one[-2]}" for one in files_below(store / kind)} for kind in kinds}


def files_below(folder: Path) -> list[tuple[str, ...]]:
    """The parts of the paths of all files below a directory, which may go meanwhile."""
    return [Path(place, name).parts for place, _, names in os.walk(folder) for name in names]


def once(follower: Follower, seconds: float = LONGEST_S) -> BaseException | None:
    """Run it to its end, which must come in time; the error that ended it."""
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            follower.run()
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        follower.steps.stopping.set()
        thread.join(5)
        raise AssertionError("it did not end")
    return ended[0]
