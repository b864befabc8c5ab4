"""A real Java store that lives and answers one operation a line: a master, or a slave of somebody's HA port."""

import contextlib
import json
import select
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.java import SHORT_LIVED, classes, home
from tests.interop.relay import free_port

KEYS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
TOPICS = ("T0", "T1", "T2")
QUEUES = 4
ANSWER_S = 120


class LiveJava:
    """The oracle's `live` command; call it with an operation of the oracle (tests/interop/oracle/README.md).

    Args:
        version: of RocketMQ.
        store: the store's directory; configuration and errors are kept beside it.
        port: its HA port; 0: any free one.
        master: HA port of its master on this machine, of a slave.
        keys: more keys of MessageStoreConfig.

    Attributes:
        ready: its first answer: begin and end of its log.
        port: its HA port.
    """

    def __init__(
        self, version: str, store: Path, port: int = 0, master: int | None = None, **keys: Any
    ) -> None:  # fmt: skip
        built, why = home(version)
        assert built is not None, why
        self.version, self.store, self.port = version, store, port or free_port()
        given: dict[str, Any] = {
            "store": {**KEYS, "haListenPort": self.port, **keys},
            "topics": {topic: {"queues": QUEUES} for topic in TOPICS},
        }
        if master is not None:
            given["ha_master"], given["store"]["brokerRole"] = f"127.0.0.1:{master}", "SLAVE"
            given["broker"] = {"brokerId": 1}  # with 0 dispatch leaves out what comes with a record that is not whole
        config = store.with_name(f"{store.name}.json")
        config.write_text(json.dumps(given))
        self._errors = config.with_suffix(".err")
        path = f"{built}/target/oracle.jar:{built}/lib/*"
        words = ["java", *SHORT_LIVED, *classes(version, built), "-Xmx256m", "-Doracle.log=OFF", "-cp", path]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*words, "flintmq.oracle.Oracle", "live", "--store", str(store), "--config", str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        try:
            self.ready = self._line()
        except BaseException:
            self.kill()
            raise

    def __call__(self, op: str, **more: Any) -> dict[str, Any]:
        """Do one operation; its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": op, **more}).encode() + b"\n")
        self.process.stdin.flush()
        return self._line()

    @property
    def end(self) -> int:
        """The end of its log."""
        return int(self("ha")["max_physical_offset"])

    def fill(self, seed: int, count: int) -> None:
        """Put so many messages of any kind."""
        self("gen", seed=seed, count=count, topics=list(TOPICS), queues=QUEUES, body_max=900, print=False)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self._end()

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self._end()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], ANSWER_S)[0]:
            raise TimeoutError("Java does not answer")
        got = self.process.stdout.readline()
        if not got:
            raise EOFError("Java ended: " + self._errors.read_text()[-1000:])
        return dict(json.loads(got))

    def _end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
