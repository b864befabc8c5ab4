"""A real Kafka broker of one node, and Spark's Kafka source: jars of Maven Central, started and stopped here."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from harness import Context, Unavailable

POM = Path(__file__).resolve().parent / "kafka"
CACHE = Path(tempfile.gettempdir()) / "flintmq-bench-kafka"


def jars(context: Context, profile: str) -> Path:
    """The folder with the jars of a profile of the POM, fetched once.

    Raises:
        Unavailable: no Maven, or it cannot fetch them.
    """
    folder = CACHE / profile
    if folder.exists():
        return folder
    if not shutil.which("mvn") or not shutil.which("java"):
        raise Unavailable("a Kafka broker needs Java 17 and Maven (mvn) to fetch it")
    context.say(f"  fetching the jars of Kafka's {profile} from Maven Central")
    staging = CACHE / f"{profile}.part"
    words = ["mvn", "-q", "-B", "-s", str(POM / "settings.xml"), "-f", str(POM / "pom.xml"), f"-P{profile}"]
    words += ["dependency:copy-dependencies", f"-DoutputDirectory={staging}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"Maven cannot fetch Kafka's {profile}: {(done.stdout + done.stderr).strip()[-300:]}")
    staging.rename(folder)
    return folder


def source_jars(context: Context) -> str:
    """Jars of Spark's Kafka source, with commas."""
    return ",".join(str(jar) for jar in sorted(jars(context, "source").glob("*.jar")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One node that is broker and controller. `stop` ends it; its data go with the scratch directory."""

    def __init__(self, context: Context, partitions: int) -> None:
        port, control = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        folder = Path(tempfile.mkdtemp(prefix="kafka-", dir=context.scratch))
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
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        java = ["java", "-Xmx1g", "-cp", f"{jars(context, 'broker')}/*"]
        run_id = uuid.uuid4().hex[:22]
        log = (folder / "broker.log").open("wb")
        format_words = [*java, "kafka.tools.StorageTool", "format", "-t", run_id, "-c", str(properties)]
        subprocess.run(format_words, stdout=log, stderr=log, check=True)
        self.process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        self._wait(port, folder / "broker.log")

    def _wait(self, port: int, log: Path) -> None:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise Unavailable(f"the Kafka broker did not start: {log.read_text(errors='replace')[-400:]}")

    def stop(self) -> None:
        """End the broker."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
