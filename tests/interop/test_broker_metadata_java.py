"""Real brokers and name servers: their tables, their addresses, and a slave that finds FlintMQ as its master."""

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.errors import RemotingError
from flintmq.ha import metadata, name_server
from flintmq.ha.registration import Registration
from flintmq.remoting.client import RemotingClient
from flintmq.remoting.frames import ROCKETMQ, RemotingFrame, decode_frame, encode_frame
from flintmq.store.layout.config_reader import read_config
from flintmq.store.view import open_store
from tests.compat.replication import GoldenMaster
from tests.interop.running_broker import KEYS, LONGEST_S, RunningBroker
from tests.support.threads import within

pytestmark = pytest.mark.slow

TOPICS = {
    "Bulk": {"queues": 2, "attributes": {"queue.type": "BatchCQ"}},
    "Later": {"queues": 4},
    "Plain": {"queues": 4},
}
OPS = [
    {"op": "send", "topic": "Later", "delay_level": 4, "body": "x"},
    {"op": "send", "topic": "Plain", "body": "y", "count": 300},
    {"op": "consume", "topic": "Plain", "group": "G", "count": 300, "timeout_ms": 45_000},
]
VERSIONS = ("5.3.3", "5.4.0", "5.5.0")


def lines(path: Path) -> list[bytes]:
    """The lines of a file of config/ in any order, as Java's maps have none; commas at their ends left out."""
    return sorted(line.rstrip(b",") for line in path.read_bytes().splitlines())


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_brokers_tables_and_a_copy_by_its_name_server(version: str, tmp_path: Path):
    """Pages and the whole give the same; the files are the broker's own; the copy of the log, too."""
    with RunningBroker(version, tmp_path / "java", OPS, topics=TOPICS) as broker:
        assert [row["status"] for row in broker.answers()] == ["SEND_OK"] * 301 + ["OK"]
        facts = metadata.fetch(broker.address)
        assert facts.peer == version and facts.begin == 0 and facts.end is not None and facts.end > 65536
        assert {key: facts.config[key] for key in KEYS} == {key: str(value) for key, value in KEYS.items()}
        assert metadata.fetch(broker.address, page=2).tables == facts.tables
        assert answers_to_a_rocketmq_header(broker.address) == facts.tables["delayOffset.json"]
        with RemotingClient(broker.address) as client, pytest.raises(RemotingError, match="999 not supported"):
            client.ask(999)

        metadata.save(str(tmp_path / "tables"), facts.tables, peer=facts.peer)
        found = read_config(str(tmp_path / "tables"))
        assert found.is_batch("Bulk") and found.problems == ()
        assert sum(found.consumer_offsets["Plain", "G"].values()) == 300
        # A broker writes its groups' offsets as they change; its other tables at the change.
        own = broker.root / "config"
        assert within(
            lambda: (own / "consumerOffset.json").exists() and b"@G" in (own / "consumerOffset.json").read_bytes()
        )
        for name in ("topics.json", "subscriptionGroup.json"):
            assert lines(tmp_path / "tables" / "config" / name) == lines(own / name)
        assert read_config(str(broker.root)).consumer_offsets["Plain", "G"] == found.consumer_offsets["Plain", "G"]

        host, port = broker.address.split(":")
        assert name_server.routes([broker.names])["b"].master == broker.address
        assert name_server.ha_address(broker.address) == f"{host}:{int(port) + 1}"
        words = ["follow", "--namesrv", broker.names, "--store", str(tmp_path / "{broker}"), "--once", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "flintmq", *words], capture_output=True, text=True, timeout=LONGEST_S
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0 and {event["broker"] for event in events} == {"b"}, done.stderr
        same = 0
        for folder in ("commitlog", "consumequeue"):
            for path in sorted((broker.root / folder).rglob("0*")):
                if path.is_file() and any(data := path.read_bytes()):  # else made ahead of time
                    assert (tmp_path / "b" / path.relative_to(broker.root)).read_bytes() == data, path
                    same += 1
        assert same >= 7, "two files of the log, and a queue each of two topics"
    with open_store(tmp_path / "b") as view:
        assert sum(message.topic == "Plain" for message in view.messages()) == 300


def answers_to_a_rocketmq_header(address: str) -> object:
    """The delay offsets, asked for with a header that is no JSON."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 5) as line:
        line.sendall(encode_frame(RemotingFrame(45, 77, fields={"a": "b"}), ROCKETMQ))
        data = b""
        while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            data += line.recv(1 << 16)
    answer = decode_frame(data)
    assert (answer.code, answer.opaque, answer.is_answer) == (0, 77, True)
    return metadata.config_json.parse(answer.body)


@pytest.mark.turn(3)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_finds_flintmq_by_its_registration(version: str, tmp_path: Path):
    """A slave of cluster C and name f gets the whole log of a store that `serve-ha --register` serves."""
    master = GoldenMaster("533" if version == "5.3.3" else "540", tmp_path)
    slave = {"brokerName": "f", "brokerId": 1}
    with RunningBroker(version, tmp_path / "java", [], broker=slave, store={"brokerRole": "SLAVE"}) as java:
        assert within(lambda: is_up(java.names))
        words = ["serve-ha", str(master.path), "--listen", "127.0.0.1:0", "--new-slave", "first", "--json"]
        words += ["--register", java.names, "--broker-name", "f", "--cluster", "C"]
        with subprocess.Popen([sys.executable, "-m", "flintmq", *words], stdout=subprocess.PIPE, text=True) as served:
            assert served.stdout is not None
            try:
                first = json.loads(served.stdout.readline())
                assert json.loads(served.stdout.readline())["event"] == "registered"
                host, port = first["address"].split(":")
                known = name_server.routes([java.names])["f"]
                assert (known.cluster, known.master) == ("C", f"{host}:{int(port) - 1}")
                with pytest.raises(RemotingError, match="is registered at"):
                    Registration(java.names, broker="f", cluster="C", ha_address="127.0.0.1:9").start()
                assert within(lambda: log_of(java.root)[: len(master.log)] == master.log)
                assert not any(log_of(java.root)[len(master.log) :]), "and nothing else"
            finally:
                served.send_signal(signal.SIGTERM)
                served.communicate(timeout=30)
            assert served.returncode == 0
            left = name_server.routes([java.names]).get("f")
            assert left is None or left.master is None, "the registration was taken back"


def is_up(address: str) -> bool:
    """Whether a name server answers."""
    try:
        name_server.routes([address])
    except OSError:
        return False
    return True


def log_of(root: Path) -> bytes:
    """The bytes of a store's log files."""
    folder = root / "commitlog"
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir())) if folder.exists() else b""
