"""`flintmq broker` and RocketMQ's proxy 5.5.0 with its broker inside, and a client that sends many at once.

A server has the machine alone while it is measured, as in broker_peer.py. The client is grpcio's, in this process; of a
server all threads count.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
from broker_peer import BROKER, JAVA, STORE, Lost, Server
from harness import Context, Cost, Unavailable

from flintmq.broker.grpc import definitions_pb2 as wire
from flintmq.errors import FlintError
from flintmq.remoting.client import RemotingClient
from flintmq.remoting.names import GET_ROUTE, MAKE_TOPIC
from tests.interop.running_broker import free_ports
from tests.interop.served import served

POM = Path(__file__).parents[1] / "tests/support/proxy/pom.xml"
SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"
TOPIC, QUEUES, BODY = "Burst", 4, b"x" * 100
START_S, FETCH_S = 120.0, 600


class GrpcServer(Server):
    """A server of 5.x clients at this address."""

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        self._address = address

    def burst(self, count: int) -> Cost:
        """What so many messages cost that one client sends at once.

        Raises:
            Lost: one failed.
        """
        failed, cpu = self.cost_of(lambda: asyncio.run(_sent(self._address, count)))
        if failed:
            raise Lost(f"of {count} messages {len(failed)} failed, the first one: {failed[0]}")
        return {"us": cpu / count * 1e6}


async def _sent(address: str, count: int) -> list[str]:
    """Send so many at once; return why some failed."""
    failed = list[str]()
    async with grpc.aio.insecure_channel(address) as channel:
        send = channel.unary_unary(
            SEND,
            request_serializer=wire.SendMessageRequest.SerializeToString,
            response_deserializer=wire.SendMessageResponse.FromString,
        )

        async def one() -> None:
            try:
                answer = await send(_request(), metadata=WHO, timeout=60)
            except grpc.aio.AioRpcError as error:
                failed.append(str(error.details()))
            else:
                if answer.status.code != wire.Code.OK:
                    failed.append(answer.status.message)

        await asyncio.gather(*(one() for _ in range(count)))
    return failed


WHO = (("x-mq-client-id", "bench"), ("x-mq-language", "PYTHON"), ("x-mq-protocol", "v2"))


def _request() -> wire.SendMessageRequest:
    told = wire.SystemProperties(
        tag="tag", keys=["key"], message_id=f"01{uuid.uuid4().hex.upper()}", message_type=wire.MessageType.NORMAL,
        body_encoding=wire.Encoding.IDENTITY, born_host="localhost",
    )  # fmt: skip
    told.born_timestamp.GetCurrentTime()
    return wire.SendMessageRequest(
        messages=[wire.Message(topic=wire.Resource(name=TOPIC), system_properties=told, body=BODY)]
    )


def _make_topic(address: str) -> None:
    asked = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    with RemotingClient(address) as line:
        line.ask(MAKE_TOPIC, {name: str(value) for name, value in asked.items()})


@contextmanager
def flintmq_server(folder: Path) -> Iterator[GrpcServer]:
    """Ours, with an empty store."""
    folder.mkdir()
    with served(folder / "store", folder, writes=True) as running:
        _make_topic(running.address)
        server = GrpcServer(running.address, running.process)
        try:
            yield server
        finally:
            server.run()  # one that is stopped does not hear that it shall end


@contextmanager
def java_proxy(context: Context, folder: Path) -> Iterator[GrpcServer]:
    """RocketMQ's proxy with a broker and an empty store in its process; its name server is apart, and is not counted.

    Raises:
        Unavailable: there is no Java, no Maven, or it cannot fetch the jars, or they do not start.
    """
    (folder / "conf").mkdir(parents=True)
    jars = _jars(context)
    (names, port), (remoting, grpc_port) = free_ports(), free_ports()
    (folder / "names.conf").write_text(f"listenPort={names}\n", encoding="ascii")
    broker = {
        "brokerClusterName": "DefaultCluster", "brokerName": "b", "brokerIP1": "127.0.0.1", "listenPort": port,
        "haListenPort": 0, "namesrvAddr": f"127.0.0.1:{names}", "storePathRootDir": folder / "store",
        "storePathCommitLog": folder / "store/commitlog", **BROKER, **STORE,
    }  # fmt: skip
    lines = "".join(f"{name}={value}\n" for name, value in broker.items())
    (folder / "conf/broker.conf").write_text(lines, encoding="utf-8")
    proxy = {
        "rocketMQClusterName": "DefaultCluster", "grpcServerPort": grpc_port, "remotingListenPort": remoting,
        "namesrvAddr": f"127.0.0.1:{names}", "proxyMode": "LOCAL", "localServeAddr": "127.0.0.1",
        "brokerConfigPath": str(folder / "conf/broker.conf"), "enableTopicMessageTypeCheck": False,
    }  # fmt: skip
    (folder / "conf/rmq-proxy.json").write_text(json.dumps(proxy), encoding="utf-8")
    java = [
        "java", *JAVA, f"-Duser.home={folder}", f"-Drocketmq.log.root.dir={folder}/logs", "-cp", f"{jars}/*",
        "org.apache.rocketmq",
    ]  # fmt: skip
    environment = os.environ | {"ROCKETMQ_HOME": str(folder), "RMQ_PROXY_HOME": str(folder)}
    with (folder / "out").open("wb") as out:

        def started(name: str, *words: str) -> subprocess.Popen[bytes]:
            line = [*java[:-1], f"{java[-1]}.{name}", *words]
            return subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT, env=environment)

        name_server = started("namesrv.NamesrvStartup", "-c", str(folder / "names.conf"))
        process = started(
            "proxy.ProxyStartup", "-n", f"127.0.0.1:{names}", "-pm", "local",
            "-bc", str(folder / "conf/broker.conf"), "-pc", str(folder / "conf/rmq-proxy.json"),
        )  # fmt: skip
        try:
            _wait(process, lambda: _make_topic(f"127.0.0.1:{port}"), folder / "out")
            _wait(process, lambda: _has_route(f"127.0.0.1:{names}"), folder / "out")
            yield GrpcServer(f"127.0.0.1:{grpc_port}", process)
        finally:
            for one in (process, name_server):
                one.kill()
                one.wait()


def _has_route(names: str) -> None:
    with RemotingClient(names) as line:
        line.ask(GET_ROUTE, {"topic": TOPIC})


def _wait(process: subprocess.Popen[bytes], ask: Callable[[], None], out: Path) -> None:
    limit = time.monotonic() + START_S
    while True:
        try:
            return ask()
        except (OSError, FlintError) as error:
            if process.poll() is not None or time.monotonic() > limit:
                said = out.read_text(encoding="utf-8", errors="replace")[-300:]
                raise Unavailable(f"RocketMQ's proxy does not start: {error}; it said: {said}") from None
            time.sleep(0.2)


def _jars(context: Context) -> Path:
    """The folder with the jars, fetched once a scratch directory."""
    folder = context.scratch / "proxy-jars"
    if folder.exists():
        return folder
    if not shutil.which("mvn") or not shutil.which("java"):
        raise Unavailable("RocketMQ's proxy needs Java 17 and Maven (mvn) to fetch it")
    context.say("  jars of RocketMQ's proxy come from Maven Central, if they are not there")
    words = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=FETCH_S)
    if done.returncode:
        raise Unavailable(f"Maven cannot fetch RocketMQ's proxy: {(done.stdout + done.stderr).strip()[-300:]}")
    return folder
