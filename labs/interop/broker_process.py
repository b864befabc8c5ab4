"""RocketMQ's own name server and brokers, each a process that its start script's main runs; and one who asks them."""

import contextlib
import json
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from labs.torture_spark.actors import end, spawn
from tests.interop.java import SHORT_LIVED, home

NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
MEMORY = ("-Xmx256m", "-XX:MaxDirectMemorySize=512m")
EXPORTS = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"  # as the start scripts give: the transient pool of 5.3.3
JSON_VERSION = 477  # of who is neither broker nor client
OK = 0  # code of an answer
START_S, STOP_S = 120, 60


class JavaMain:
    """One main of RocketMQ on 127.0.0.1 with its configuration; each start is a life of its own.

    Args:
        version: of RocketMQ.
        main: the class.
        folder: for its configuration and what it prints; made if it is missing.
        port: where it listens; a broker's port takes the two before and the one after it too.
        keys: its configuration.
    """

    def __init__(self, version: str, main: str, folder: Path, port: int, **keys: object) -> None:
        built, why = home(version)
        assert built is not None, why
        self.folder, self.port, self.keys = folder, port, keys
        self._main, self._path = main, f"{built}/target/oracle.jar:{built}/lib/*"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with its present folder, port and keys; it answers some seconds later."""
        self.folder.mkdir(exist_ok=True)
        given = {"bindAddress": "127.0.0.1", "listenPort": self.port, **self.keys}
        conf, out = self.folder / "conf", self.folder / "out"
        conf.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        words = [
            "java",
            *SHORT_LIVED,
            *MEMORY,
            EXPORTS,
            f"-Duser.home={self.folder}",
            f"-Drocketmq.home.dir={self.folder}",
        ]
        self.process = spawn([*words, "-cp", self._path, self._main, "-c", str(conf)], out, out)

    def wait(self) -> None:
        """Wait until somebody listens at its port."""
        limit = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self.process is not None and self.process.poll() is None and time.monotonic() < limit, self.said()
            time.sleep(0.1)

    def stop(self) -> bool:
        """Stop it cleanly; whether it ended in time."""
        if self.process is None:
            return True
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """`kill -9`, if it runs."""
        if self.process is not None:
            end(self.process)

    def said(self) -> str:
        """The end of what it printed, for a failure."""
        return f"{self._main}: {(self.folder / 'out').read_text(errors='replace')[-1000:]}"


def name_server(version: str, folder: Path, port: int) -> JavaMain:
    """A real name server, not started; its files in that folder."""
    files = {"kvConfigPath": folder / "kv.json", "configStorePath": folder / "namesrv.properties"}
    return JavaMain(version, NAME_SERVER, folder, port, **files)


class Broker(JavaMain):
    """A whole broker, not started.

    Args:
        version, folder, port: as for JavaMain.
        name_server: port of the name server.
        keys: more keys of the broker and its store.
    """

    def __init__(self, version: str, folder: Path, port: int, name_server: int, **keys: object) -> None:
        given: dict[str, object] = {
            "brokerClusterName": "C", "brokerName": "b", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
            "namesrvAddr": f"127.0.0.1:{name_server}", "mappedFileSizeCommitLog": 1 << 20,
            "mappedFileSizeConsumeQueue": 20000, "maxHashSlotNum": 5000, "maxIndexNum": 20000,
            "diskMaxUsedSpaceRatio": 99, "timerFlushIntervalMs": 20000, **keys,
        }  # fmt: skip
        super().__init__(version, BROKER, folder, port, **given)

    @property
    def store(self) -> Path:
        """Its store's directory."""
        return self.folder / "store"

    def start(self) -> None:
        """Start it, with its present folder, port and keys."""
        self.keys["storePathRootDir"] = self.store
        super().start()


def frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    """One remoting frame with a header in JSON."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def read_frame(line: socket.socket) -> bytes | None:
    """The next remoting frame, or None at the end."""
    kept = b""
    while len(kept) < 4 or len(kept) < 4 + struct.unpack_from(">i", kept)[0]:
        wanted = 4 - len(kept) if len(kept) < 4 else 4 + struct.unpack_from(">i", kept)[0] - len(kept)
        got = line.recv(wanted)
        if not got:
            return None
        kept += got
    return kept


def header(one: bytes) -> dict[str, Any]:
    """The header of a frame, JSON only."""
    (size,) = struct.unpack_from(">I", one, 4)
    assert size >> 24 == 0, "a header that is not JSON"
    return dict(json.loads(one[8 : 8 + size]))


def body_of(one: bytes) -> bytes:
    """The body of a frame."""
    return one[8 + struct.unpack_from(">I", one, 4)[0] :]


class Admin:
    """Asks a broker as an administrator and as a producer do."""

    def __init__(self, port: int) -> None:
        self.line, self.number = socket.create_connection(("127.0.0.1", port), 10), 0
        self.line.settimeout(20)

    def __call__(self, code: int, body: bytes = b"", **fields: object) -> bytes:
        """One request; the body of its answer."""
        answer = self.ask(code, body, **fields)
        assert header(answer)["code"] == OK, (code, header(answer))
        return body_of(answer)

    def ask(self, code: int, body: bytes = b"", **fields: object) -> bytes:
        """One request; its answer, whatever its code."""
        self.number += 1
        head = {"code": code, "language": "JAVA", "version": JSON_VERSION, "opaque": self.number, "flag": 0}
        text = {key: str(value) for key, value in fields.items()}
        self.line.sendall(frame({**head, "extFields": text, "serializeTypeCurrentRPC": "JSON"}, body))
        while (answer := read_frame(self.line)) is not None:
            told = header(answer)
            if told["opaque"] == self.number and told["flag"] & 1:
                return answer
        raise EOFError("the broker hung up")

    def topic(self, name: str, queues: int, attributes: str) -> None:
        """Make a topic."""
        self(17, topic=name, defaultTopic="TBW102", readQueueNums=queues, writeQueueNums=queues, perm=6,
             topicFilterType="SINGLE_TAG", topicSysFlag=0, order="false", attributes=attributes)  # fmt: skip

    def send(self, topic: str, body: str, queue: int = 0, **properties: str) -> None:
        """Put a message, which must be stored."""
        told = self.put(topic, body.encode(), queue, **properties)
        assert told["code"] == OK, told

    def put(self, topic: str, body: bytes, queue: int = 0, **properties: str) -> dict[str, Any]:
        """Put a message; the header of the answer, whose code tells what became of it."""
        text = "".join(f"{key}\x01{value}\x02" for key, value in properties.items())
        return header(self.ask(
            10, body, producerGroup="P", topic=topic, defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=queue,
            sysFlag=0, bornTimestamp=int(time.time() * 1000), flag=0, properties=text, reconsumeTimes=0,
            unitMode="false", batch="false", maxReconsumeTimes=16,
        ))  # fmt: skip

    def close(self) -> None:
        """Hang up."""
        self.line.close()
