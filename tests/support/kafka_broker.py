"""A real Kafka broker of one node, and Spark's Kafka source: jars of Maven Central, started and stopped here."""

import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

POM = Path(__file__).resolve().parent / "kafka"
CACHE = Path(tempfile.gettempdir()) / "flintmq-kafka-jars"
FETCH_S = 600


class NoKafka(Exception):
    """There is no Kafka to be had here; the text says why."""


def jars(profile: str) -> Path:
    """The folder with the jars of a profile of the POM, fetched once.

    Raises:
        NoKafka: no Java, no Maven, or it cannot fetch them.
    """
    folder = CACHE / profile
    if folder.exists():
        return folder
    if not shutil.which("mvn") or not shutil.which("java"):
        raise NoKafka("a Kafka broker needs Java 17 and Maven (mvn) to fetch it")
    CACHE.mkdir(exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{profile}-", dir=CACHE))
    words = ["mvn", "-q", "-B", "-s", str(POM / "settings.xml"), "-f", str(POM / "pom.xml"), f"-P{profile}"]
    words += ["dependency:copy-dependencies", f"-DoutputDirectory={staging}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=FETCH_S)
    except subprocess.TimeoutExpired:
        raise NoKafka(f"Maven did not fetch Kafka's {profile} within {FETCH_S} s") from None
    if done.returncode:
        raise NoKafka(f"Maven cannot fetch Kafka's {profile}: {(done.stdout + done.stderr).strip()[-300:]}")
    if not folder.exists():  # another process may have been faster
        staging.rename(folder)
    return folder


def source_jars() -> str:
    """Jars of Spark's Kafka source, with commas."""
    return ",".join(str(jar) for jar in sorted(jars("source").glob("*.jar")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Broker:
    """One node that is broker and controller; its data are in `folder`. `stop` ends it.

    Raises:
        NoKafka: it cannot be fetched, or does not start.
    """

    def __init__(self, folder: Path, partitions: int, **more: str) -> None:
        """`more`: settings of the broker, with `_` for dots."""
        port, control = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        properties = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "logs"),
            "num.partitions": str(partitions),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        java = ["java", "-Xmx1g", "-cp", f"{jars('broker')}/*"]
        run_id = uuid.uuid4().hex[:22]
        log = (folder / "broker.log").open("wb")
        format_words = [*java, "kafka.tools.StorageTool", "format", "-t", run_id, "-c", str(properties)]
        subprocess.run(format_words, stdout=log, stderr=log, check=True)
        self.process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        self._wait(port, folder / "broker.log")

    def _wait(self, port: int, log: Path) -> None:
        for _ in range(600):
            if listens(port):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise NoKafka(f"the Kafka broker did not start: {log.read_text(errors='replace')[-400:]}")

    def stop(self) -> None:
        """End the broker."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
